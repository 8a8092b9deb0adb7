package receiver

import (
	"encoding/json"
	"errors"
	"net/http"
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
	// At is the database's time of this answer.
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
		key, err := keyInPath(path.Base(hr.URL.Path))
		if err != nil {
			refuse(w, err, false)
			return
		}
		req := &Request{Principal: principal, Method: method, Path: path.Dir(hr.URL.EscapedPath()), Key: key}
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

// keyInPath reads a key with or without its quotes.
func keyInPath(s string) (string, error) {
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
		return &Status{State: InFlight, At: time.Now().UTC()}, nil
	}
	tx, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	var rec *record
	if fence {
		state, res, err := Fence(ctx, TxOf(tx), r.dialect, req, &r.o.Terms)
		if err == nil {
			err = tx.Commit()
		}
		if errors.Is(err, ErrInFlight) {
			return &Status{State: InFlight, At: time.Now().UTC()}, nil
		}
		if err != nil {
			return nil, err
		}
		return statusOf(state, res, time.Now()), nil
	}
	if rec, err = take(ctx, TxOf(tx), r.dialect, req); errors.Is(err, ErrInFlight) || errors.Is(err, ErrMismatch) {
		return &Status{State: InFlight, At: time.Now().UTC()}, nil
	}
	if err != nil {
		return nil, err
	}
	var res *Response
	if rec.state == Done {
		if res, err = rec.response(); err != nil && !errors.Is(err, ErrNotKept) {
			return nil, err
		}
	}
	return statusOf(rec.state, res, time.UnixMilli(rec.now)), nil
}

func statusOf(state State, res *Response, at time.Time) *Status {
	s := &Status{State: state, At: at.UTC()}
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
