package receiver

import (
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"
)

// Status is what Record answers about a key.
type Status struct {
	State State `json:"state"`
	// Status, Result and Digest are those of the answer, where one is kept.
	Status int             `json:"status,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// At is the time of this answer.
	At time.Time `json:"at"`
}

// Record answers GET …/{key} about the key of a request by the given method to the path
// before it: whether it was carried out, with its answer. Absent is what the database says
// now; with ?fence=1 absence is made final: the key is refused from then on, and the state
// is fenced. It reads the primary, never a replica that may lag.
func (r *Receiver) Record(method string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		principal, err := r.o.Principal(hr)
		if err != nil {
			refuse(w, errPrincipal, false)
			return
		}
		before, last := path.Split(hr.URL.EscapedPath())
		key, err := keyInPath(last)
		if err != nil {
			refuse(w, err, false)
			return
		}
		req := &Request{Principal: principal, Method: method, Path: pathOf(before), Key: key}
		s, err := r.status(hr, req, hr.URL.Query().Get("fence") == "1")
		if err != nil {
			refuse(w, err, false)
			return
		}
		body, err := json.Marshal(s)
		if err != nil {
			refuse(w, err, false)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(body) // the client may have gone
	})
}

// look is how a transaction begins that reads a record after its lock: with PostgreSQL each
// statement must see what is committed by then, whatever the database's default is.
func (r *Receiver) look() *sql.TxOptions {
	if r.dialect == PostgreSQL {
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return nil
}

// pathOf spells a path in one way: a slash at its end and escapes that are not needed do not
// make it another one.
func pathOf(escaped string) string {
	segments := strings.Split(strings.TrimRight(escaped, "/"), "/")
	for i, s := range segments {
		if text, err := url.PathUnescape(s); err == nil {
			segments[i] = url.PathEscape(text)
		}
	}
	return strings.Join(segments, "/")
}

// keyInPath reads a key, escaped as a segment of a path, with or without its quotes.
func keyInPath(segment string) (string, error) {
	s, err := url.PathUnescape(segment)
	if err != nil || s == "" {
		return "", ErrBadKey
	}
	if strings.HasPrefix(s, `"`) {
		return ParseKey(http.Header{"Idempotency-Key": {s}}, false)
	}
	return s, nil
}

func (r *Receiver) status(hr *http.Request, req *Request, fence bool) (*Status, error) {
	ctx := hr.Context()
	r.mu.Lock()
	_, busy := r.working[req.id()]
	r.mu.Unlock()
	if busy {
		return statusOf(InFlight, nil), nil
	}
	tx, err := r.begin(ctx, r.look())
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	var state State
	var res *Response
	if fence {
		if state, res, err = Fence(ctx, TxOf(tx), r.dialect, req, &r.o.Terms); err == nil {
			err = tx.Commit()
		}
	} else {
		state, res, err = Look(ctx, TxOf(tx), r.dialect, req)
	}
	if errors.Is(err, ErrInFlight) {
		return statusOf(InFlight, nil), nil
	}
	if err != nil {
		return nil, err
	}
	return statusOf(state, res), nil
}

func statusOf(state State, res *Response) *Status {
	s := &Status{State: state, At: time.Now().UTC()}
	if res == nil {
		return s
	}
	s.Status = res.Status
	switch {
	case json.Valid(res.Body):
		s.Result = res.Body
	case utf8.Valid(res.Body):
		s.Result, _ = json.Marshal(string(res.Body)) // a text always marshals
	}
	return s
}
