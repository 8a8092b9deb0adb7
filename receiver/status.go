package receiver

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// Status is what is known of a key.
type Status struct {
	State State
	// Response is the answer, where there is one.
	Response *Response
	// At is the database's time at which this was so.
	At time.Time
}

// statusWhile is the record's status; busy says that a request is being worked on.
func (r *record) statusWhile(busy bool) (*Status, error) {
	s := &Status{State: r.state, At: instant(r.now)}
	switch {
	case busy && (r.state == Absent || r.state == Unknown):
		s.State = InFlight
	case r.state == Done:
		var err error
		if s.Response, err = r.response(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// MarshalJSON writes the status as Record answers it: state and at, and of an answer its
// status, size, digest and, where it is kept and is text or JSON, result.
func (s *Status) MarshalJSON() ([]byte, error) {
	wire := struct {
		State  State           `json:"state"`
		At     time.Time       `json:"at"`
		Status int             `json:"status,omitempty"`
		Size   int64           `json:"size,omitempty"`
		Digest string          `json:"digest,omitempty"`
		Result json.RawMessage `json:"result,omitempty"`
	}{State: s.State, At: s.At}
	if r := s.Response; r != nil {
		wire.Status, wire.Size, wire.Digest = r.Status, r.Size, r.Digest
		switch {
		case len(r.Body) == 0:
		case json.Valid(r.Body):
			wire.Result = r.Body
		case utf8.Valid(r.Body):
			wire.Result = appendText(nil, string(r.Body))
		}
	}
	return json.Marshal(wire)
}

// Record answers GET …/{key} about the key of a request by the given method to the path
// before it: whether it was carried out, with its answer. Absent is what the database says
// now; with ?fence=1 absence is made final: the key is refused from then on, and the state
// is fenced.
func (r *Receiver) Record(method string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		principal, err := r.principal(hr)
		if err != nil {
			r.refuse(w, errPrincipal, false)
			return
		}
		path, key, err := keyInPath(hr.URL)
		if err != nil {
			r.refuse(w, err, false)
			return
		}
		s, err := r.status(hr, &Request{Principal: principal, Method: method, Path: path, Key: key})
		if err != nil {
			r.refuse(w, err, false)
			return
		}
		body, err := json.Marshal(s)
		if err != nil {
			r.refuse(w, err, false)
			return
		}
		send(w, http.StatusOK, http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}, body)
	})
}

// keyInPath takes the key off the end of a path; it may be in its quotes.
func keyInPath(u *url.URL) (path, key string, err error) {
	escaped := u.EscapedPath()
	i := strings.LastIndexByte(escaped, '/')
	key, err = url.PathUnescape(escaped[i+1:])
	if err == nil && strings.HasPrefix(key, `"`) {
		key, err = ParseKey(http.Header{"Idempotency-Key": {key}}, false)
	}
	if err != nil || key == "" || len(key) > maxKey {
		return "", "", ErrBadKey
	}
	return pathOf(escaped[:max(i, 0)]), key, nil
}

// current is how a transaction begins that reads a record after the lock of its key.
func (r *Receiver) current() *sql.TxOptions {
	if r.dialect == PostgreSQL {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}

func (r *Receiver) status(hr *http.Request, req *Request) (*Status, error) {
	ctx, cancel := r.timeout(hr.Context())
	defer cancel()
	if r.busy(req) { // its transaction may have SQLite's write lock, so none is asked for
		rec, err := read(ctx, sqlDB{r.db, r.dialect}, req.id())
		if err != nil {
			return nil, err
		}
		return rec.statusWhile(true)
	}
	tx, err := r.db.BeginTx(ctx, r.current())
	if err != nil {
		return nil, fmt.Errorf("receiver: begin: %w", err)
	}
	defer tx.Rollback()
	db := TxOf(tx, r.dialect)
	if hr.URL.Query().Get("fence") != "1" {
		return Look(ctx, db, req)
	}
	s, err := Fence(ctx, db, req, &r.o.Terms)
	if err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("receiver: commit the fence: %w", err)
	}
	return s, nil
}
