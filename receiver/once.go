package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	Expired  State = "expired"   // carried out; the answer is no longer kept
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
	// ErrNotKept: the key was carried out; its answer was too large to keep.
	ErrNotKept = errors.New("the key was carried out; its answer was too large to keep")
)

// Failure is an answer of 500 or more: it is not kept, and the transaction must be rolled
// back, so that nothing has happened and the same key may come again.
type Failure struct{ Response *Response }

func (f *Failure) Error() string { return fmt.Sprintf("the request failed with %d", f.Response.Status) }

// Response is an answer as it is kept.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Replayed: it is the answer of an earlier request.
	Replayed bool
}

// Terms are how long records live and how much of an answer they keep. Zero fields mean the
// defaults; a service publishes them.
type Terms struct {
	// Retention is how long an answer is replayed, counted from the request; default 24 h.
	Retention time.Duration
	// Tombstone is how long a key is refused after that, and how long a fence holds; default
	// 30 days. It must be longer than any not-after and any flight of a request.
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
// called, or is what the database said; then nothing is known to be changed by this call.
func Once(ctx context.Context, tx DB, d Dialect, req *Request, do func(ctx context.Context) (*Response, error), terms *Terms) (*Response, error) {
	t := terms.withDefaults()
	rec, err := take(ctx, tx, d, req.id(), req.fingerprint())
	if err != nil {
		return nil, err
	}
	if rec.state != Absent {
		return rec.answer(req)
	}
	if !req.NotAfter.IsZero() && rec.now > req.NotAfter.UnixMilli() {
		return nil, ErrTooLate
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
	header, err := json.Marshal(kept(res.Header))
	if err != nil {
		return nil, fmt.Errorf("receiver: encode header: %w", err)
	}
	body, sum := res.Body, sha256.Sum256(res.Body)
	if len(body) > t.MaxKept {
		body = nil
	}
	if body == nil {
		body = []byte{}
	}
	n, err := tx.Exec(ctx, d.query(`INSERT INTO pawl_receipts (id, fingerprint, state, status, header, body, size, digest, created, expires, forget)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NOW, NOW + $9, NOW + $10) ON CONFLICT (id) DO NOTHING`),
		req.id(), req.fingerprint(), string(Done), res.Status, string(header), body, len(res.Body), hex.EncodeToString(sum[:]),
		millis(t.Retention), millis(t.Retention+t.Tombstone))
	if err != nil {
		return nil, fmt.Errorf("receiver: record the request: %w", err)
	}
	if n != 1 {
		return nil, ErrInFlight // another one, without the lock, was faster: roll back
	}
	return res, nil
}

// record is what the table says of a request, at the database's time.
type record struct {
	now, expires int64
	state        State
	fingerprint  string
	status       int
	header       string
	body         []byte
	size         int64
	digest       string
}

// take locks a key for the transaction and reads its record. The fingerprint is the
// request's; who asks about a key has none.
func take(ctx context.Context, tx DB, d Dialect, id, fingerprint string) (*record, error) {
	if d == PostgreSQL {
		if err := lockKey(ctx, tx, id, fingerprint); err != nil {
			return nil, err
		}
	} else if _, err := tx.Exec(ctx, d.query(`UPDATE pawl_receipts SET id = id WHERE id = $1`), id); err != nil {
		return nil, fmt.Errorf("receiver: begin to write: %w", err) // takes the write lock where the transaction has none yet
	}
	return read(ctx, tx, d, id)
}

// lockKey takes the key's lock, one of one number. A request then takes one of two numbers,
// which shows what it holds the key for: the key's and the fingerprint's. Whoever finds the
// key held only looks at the locks, so no two that look can mislead each other, and a holder
// that shows nothing, or nothing yet, is no other request.
func lockKey(ctx context.Context, tx DB, id, fingerprint string) error {
	key := lockOf(id)
	purpose, what := int32(lockOf("fingerprint "+id)), int32(lockOf(fingerprint))
	var got, other bool
	if _, err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, []any{key}, &got); err != nil {
		return fmt.Errorf("receiver: lock the key: %w", err)
	}
	switch {
	case fingerprint == "" && !got:
		return ErrInFlight
	case fingerprint == "":
		return nil
	case got:
		if _, err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock_shared($1::int, $2::int)`, []any{purpose, what}, &got); err != nil {
			return fmt.Errorf("receiver: lock the key: %w", err)
		}
		return nil
	}
	_, err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks k JOIN pg_locks f ON f.pid = k.pid AND f.database = k.database
		WHERE k.locktype = 'advisory' AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND k.classid::bigint = $1 AND k.objid::bigint = $2 AND k.objsubid = 1 AND k.granted
		AND f.locktype = 'advisory' AND f.classid::bigint = $3 AND f.objid::bigint <> $4 AND f.objsubid = 2 AND f.granted)`,
		[]any{int64(uint64(key) >> 32), int64(uint32(key)), int64(uint32(purpose)), int64(uint32(what))}, &other)
	if err != nil {
		return fmt.Errorf("receiver: look who has the key: %w", err)
	}
	if other {
		return ErrMismatch
	}
	return ErrInFlight
}

func lockOf(name string) int64 {
	sum := sha256.Sum256([]byte("pawl receiver " + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func read(ctx context.Context, tx DB, d Dialect, id string) (*record, error) {
	r := &record{state: Absent}
	var state string
	found, err := tx.QueryRow(ctx, d.query(`SELECT NOW, expires, state, fingerprint, status, header, body, size, digest FROM pawl_receipts WHERE id = $1`),
		[]any{id}, &r.now, &r.expires, &state, &r.fingerprint, &r.status, &r.header, &r.body, &r.size, &r.digest)
	if err == nil && !found {
		_, err = tx.QueryRow(ctx, d.query(`SELECT NOW`), nil, &r.now)
	}
	if err != nil {
		return nil, fmt.Errorf("receiver: read the record: %w", err)
	}
	if found {
		r.state = State(state)
	}
	if r.state == Done && r.now >= r.expires {
		r.state = Expired
	}
	return r, nil
}

// answer is what a request gets whose key is known.
func (r *record) answer(req *Request) (*Response, error) {
	switch {
	case r.state == Fenced:
		return nil, ErrFenced
	case r.fingerprint != "" && r.fingerprint != req.fingerprint():
		return nil, ErrMismatch
	case r.state == Undone:
		return nil, ErrUndone
	case r.state == Unknown:
		return nil, ErrUnknown
	case r.state == Expired:
		return nil, ErrExpired
	}
	return r.response()
}

func (r *record) response() (*Response, error) {
	if int64(len(r.body)) != r.size {
		return nil, ErrNotKept
	}
	res := &Response{Status: r.status, Header: http.Header{}, Body: r.body, Replayed: true}
	if err := json.Unmarshal([]byte(r.header), &res.Header); err != nil {
		return nil, fmt.Errorf("receiver: the kept header: %w", err)
	}
	return res, nil
}

// notKept are headers of one exchange or one session, which no other may get.
var notKept = []string{
	"Set-Cookie", "Date", "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Trailer", "Upgrade", "Server-Timing",
	"Traceparent", "Tracestate", "X-Request-Id", "Idempotent-Replayed",
}

func kept(h http.Header) http.Header {
	h = h.Clone()
	for name := range h { // a handler may set it in any spelling
		if slices.Contains(notKept, http.CanonicalHeaderKey(name)) {
			delete(h, name)
		}
	}
	return h
}
