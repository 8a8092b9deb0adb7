package receiver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// Claim is the right to carry out one request that has effects outside the database. It is
// not a lease: it does not end by itself and nobody takes it over.
type Claim struct{ id, fingerprint, token string }

// Begin claims a request, in a transaction that the caller commits before it does anything
// else. A claim that is not finished means Unknown: the request is never carried out again
// by itself. Where the key is known it returns the answer of the earlier request instead.
func Begin(ctx context.Context, tx DB, req *Request, terms *Terms) (*Claim, *Response, error) {
	t := terms.withDefaults()
	c := &Claim{id: req.id(), fingerprint: req.fingerprint()}
	if err := lock(ctx, tx, c.id, c.fingerprint); err != nil {
		return nil, nil, err
	}
	rec, err := read(ctx, tx, c.id)
	if err != nil {
		return nil, nil, err
	}
	if rec.state != Absent {
		res, err := rec.answer(c.fingerprint)
		return nil, res, err
	}
	if err := rec.inTime(req, &t); err != nil {
		return nil, nil, err
	}
	var b [16]byte
	rand.Read(b[:])
	c.token = hex.EncodeToString(b[:])
	if err := insert(ctx, tx, c.id, c.fingerprint, Unknown, c.token, nil, &t); err != nil {
		return nil, nil, err
	}
	return c, nil, nil
}

// Finish ends the claim, in the transaction in which Once then does the work and records the
// answer. ErrUnknown means that the claim was settled by somebody else: then nothing may be
// done for it.
func (c *Claim) Finish(ctx context.Context, tx DB) error {
	if err := await(ctx, tx, c.id, c.fingerprint); err != nil {
		return err
	}
	n, err := tx.Exec(ctx, tx.Dialect().query(`DELETE FROM pawl_receipts WHERE id = $1 AND state = 'unknown' AND claim = $2`), c.id, c.token)
	if err != nil {
		return fmt.Errorf("receiver: end the claim: %w", err)
	}
	if n != 1 {
		return ErrUnknown
	}
	return nil
}

// Settle ends what is Unknown by what somebody has found out: it was carried out with this
// answer, or, with nil, it was not and is fenced. It reports whether there was anything to
// settle. ErrInFlight means that it is still being worked on.
func Settle(ctx context.Context, tx DB, req *Request, found *Response, terms *Terms) (bool, error) {
	t := terms.withDefaults()
	id, state := req.id(), Fenced
	if found != nil {
		state = Done
	}
	if err := lock(ctx, tx, id, fencing); err != nil {
		return false, err
	}
	k, err := keep(found, &t)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, tx.Dialect().query(`UPDATE pawl_receipts SET state = $1, claim = '', status = $2, header = $3, body = $4, size = $5, digest = $6,
		expires = NOW + $7, forget = NOW + $8 WHERE id = $9 AND state = 'unknown'`),
		string(state), k.status, k.header, k.body, k.size, k.digest, millis(t.Retention), millis(t.Retention+t.Tombstone), id)
	if err != nil {
		return false, fmt.Errorf("receiver: settle the request: %w", err)
	}
	return n == 1, nil
}
