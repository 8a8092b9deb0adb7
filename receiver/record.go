package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// record is what the table says of a key, at the database's time.
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

func read(ctx context.Context, tx DB, id string) (*record, error) {
	r := &record{state: Absent}
	var state string
	d := tx.Dialect()
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

// inTime refuses a request that came too late, or that may come after a fence has ended. Both
// are judged while the key is locked, so that a request which is in time is seen as in
// flight until it ends.
func (r *record) inTime(req *Request, t *Terms) error {
	switch {
	case req.NotAfter.IsZero():
	case r.now >= req.NotAfter.UnixMilli():
		return ErrTooLate
	case req.NotAfter.UnixMilli()-r.now > millis(t.Tombstone):
		return ErrNotAfter
	}
	return nil
}

// answer is what a request gets whose key is known.
func (r *record) answer(fingerprint string) (*Response, error) {
	switch {
	case r.state == Fenced:
		return nil, ErrFenced
	case r.fingerprint != fingerprint:
		return nil, ErrMismatch
	case r.state == Undone:
		return nil, ErrUndone
	case r.state == Unknown:
		return nil, ErrUnknown
	case r.state == Expired:
		return nil, ErrExpired
	}
	res, err := r.response()
	if err == nil && res.Body == nil {
		err = ErrNotKept
	}
	return res, err
}

// response is the kept answer. Its body is nil where it was too large.
func (r *record) response() (*Response, error) {
	res := &Response{Status: r.status, Header: http.Header{}, Size: r.size, Digest: r.digest, Replayed: true}
	if err := json.Unmarshal([]byte(r.header), &res.Header); err != nil {
		return nil, fmt.Errorf("receiver: read the kept header: %w", err)
	}
	if int64(len(r.body)) == r.size {
		res.Body = append([]byte{}, r.body...)
	}
	return res, nil
}

// insert writes the record of a key that has none. Res is the answer, nil where there is none.
func insert(ctx context.Context, tx DB, id, fingerprint string, state State, claim string, res *Response, t *Terms) error {
	k, err := keep(res, t)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, tx.Dialect().query(`INSERT INTO pawl_receipts (id, fingerprint, state, claim, status, header, body, size, digest, created, expires, forget)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NOW, NOW + $10, NOW + $11) ON CONFLICT (id) DO NOTHING`),
		id, fingerprint, string(state), claim, k.status, k.header, k.body, k.size, k.digest, millis(t.Retention), millis(t.Retention+t.Tombstone))
	if err != nil {
		return fmt.Errorf("receiver: record the request: %w", err)
	}
	if n != 1 {
		return ErrInFlight // somebody without the lock was faster
	}
	return nil
}

// kept is an answer as columns.
type kept struct {
	status int
	header string
	body   []byte
	size   int64
	digest string
}

// keep says what is kept of an answer, and sets its size and digest.
func keep(res *Response, t *Terms) (*kept, error) {
	if res == nil {
		return &kept{header: "{}", body: []byte{}}, nil
	}
	header := http.Header{}
	for name, values := range res.Header { // a handler may spell it in any way
		if !slices.Contains(notKept, http.CanonicalHeaderKey(name)) {
			header[name] = values
		}
	}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("receiver: encode the header: %w", err)
	}
	sum := sha256.Sum256(res.Body)
	res.Size, res.Digest = int64(len(res.Body)), hex.EncodeToString(sum[:])
	k := &kept{status: res.Status, header: string(text), body: res.Body, size: res.Size, digest: res.Digest}
	if len(k.body) > t.MaxKept || k.body == nil {
		k.body = []byte{}
	}
	return k, nil
}

// notKept are headers of one exchange or one session, which no other may get.
var notKept = []string{
	"Set-Cookie", "Date", "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Trailer", "Upgrade", "Server-Timing",
	"Traceparent", "Tracestate", "X-Request-Id", "Idempotent-Replayed",
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
