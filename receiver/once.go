package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// State is what a record says of a key.
type State string

const (
	Absent   State = "absent"    // no record
	InFlight State = "in_flight" // a request is being worked on
	Done     State = "done"      // carried out, and the answer is kept
	Fenced   State = "fenced"    // not carried out, and it never will be
	Undone   State = "undone"    // carried out, and undone since
	Unknown  State = "unknown"   // begun with effects outside, and nobody knows how it ended
	Expired  State = "expired"   // carried out; the answer is no longer given
)

// Why a request is not carried out. Each means that this request changed nothing.
var (
	// ErrInFlight: a request under the key is being worked on.
	ErrInFlight = errors.New("a request with this key is being worked on")
	// ErrMismatch: the key came with another request before.
	ErrMismatch = errors.New("the key came with another request before")
	// ErrExpired: the key was used, and its answer is no longer kept.
	ErrExpired = errors.New("the key was used before, and its answer is no longer kept")
	// ErrFenced: a fence, or an undo that came first, refuses the key for good.
	ErrFenced = errors.New("the key is fenced: it was not carried out and will not be")
	// ErrUndone: what the key did has been undone.
	ErrUndone = errors.New("what the key did has been undone")
	// ErrUnknown: a request under the key had effects outside the database and did not end.
	ErrUnknown = errors.New("a request with this key began and its outcome is unknown")
	// ErrTooLate: the request came after its not-after.
	ErrTooLate = errors.New("the request came after the time that it may be carried out")
	// ErrNotAfter: the not-after is no instant, or later than a fence would hold.
	ErrNotAfter = errors.New("the not-after is no instant before the end of a fence")
	// ErrNotKept: the key was carried out; its answer was too large to keep.
	ErrNotKept = errors.New("the key was carried out; its answer was too large to keep")
	// ErrReplica: the database is a replica, on which nothing can be carried out or fenced, and
	// a missing record says nothing.
	ErrReplica = errors.New("this database is a replica: it cannot tell that a request did not come")
)

// Failure is an answer of 500 or more: it is not kept, and the transaction must be rolled
// back, so that nothing has happened and the same key may come again.
type Failure struct{ Response *Response }

func (f *Failure) Error() string { return fmt.Sprintf("the request failed with %d", f.Response.Status) }

// Response is an answer as it is kept.
type Response struct {
	Status int
	Header http.Header
	// Body is nil where it was too large to keep.
	Body []byte
	// Size and Digest, the hex SHA-256, are those of the whole body. Once sets them.
	Size   int64
	Digest string
	// Replayed: it is the answer of an earlier request.
	Replayed bool
}

// Terms are how long records live and how much of an answer they keep. Zero fields mean the
// defaults; a service publishes them.
type Terms struct {
	// Retention is how long an answer is replayed, counted from the request; default 24 h.
	Retention time.Duration
	// Tombstone is how long a key is refused after that, and at least how long a fence holds;
	// default 30 days. It must be longer than any flight of a request. A request whose
	// not-after is further away is refused, so that no fence ends before it.
	Tombstone time.Duration
	// MaxKept is the size of the largest answer that is kept whole; default 1 MiB. Of a larger
	// one its digest and length are kept, and a repeat gets ErrNotKept.
	MaxKept int
}

func (t *Terms) withDefaults() Terms {
	d := Terms{Retention: 24 * time.Hour, Tombstone: 30 * 24 * time.Hour, MaxKept: 1 << 20}
	if t == nil {
		return d
	}
	if t.Retention > 0 {
		d.Retention = t.Retention
	}
	if t.Tombstone > 0 {
		d.Tombstone = t.Tombstone
	}
	if t.MaxKept > 0 {
		d.MaxKept = t.MaxKept
	}
	return d
}

// Once carries a request out by do, or answers from the record of an earlier one. The record
// and what do changes in tx are committed or rolled back together, by the caller: it commits
// after a nil error and rolls back after any other. A lost commit answer is no matter: the
// same request again tells.
//
// An answer of 500 or more comes back as a *Failure. Every other error says why do was not
// called, or is what do or the database said; then nothing is changed by this call. Beside
// ErrNotKept comes the earlier answer without its body.
func Once(ctx context.Context, tx DB, req *Request, do func(ctx context.Context) (*Response, error), terms *Terms) (*Response, error) {
	t := terms.withDefaults()
	id, fingerprint := req.id(), req.fingerprint()
	if err := lock(ctx, tx, id, fingerprint); err != nil {
		return nil, err
	}
	rec, err := read(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if rec.state != Absent {
		return rec.answer(fingerprint)
	}
	if err := rec.inTime(req, &t); err != nil {
		return nil, err
	}
	res, err := do(ctx)
	if err != nil {
		return nil, err
	}
	if res == nil {
		return nil, errors.New("receiver: the request has no answer")
	}
	if res.Status >= 500 {
		return nil, &Failure{res}
	}
	if err := insert(ctx, tx, id, fingerprint, Done, "", res, &t); err != nil {
		return nil, err
	}
	return res, nil
}
