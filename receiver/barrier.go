package receiver

import (
	"context"
	"fmt"
)

// Undo carries out the undoing of an earlier request, which has a key of its own: call it
// inside Once of the undoing. Undo is called with the original's answer if it was carried out,
// once; nil is passed where its answer was too large to keep. If the original never came it
// is fenced, so that it changes nothing when it arrives late, and undo is not called. What
// was undone or fenced before is refused for another tombstone.
//
// It returns what it found: Done (and now undone), Absent (and now fenced), Undone, Fenced,
// Unknown (nothing was done). ErrInFlight means that the original is being worked on.
func Undo(ctx context.Context, tx DB, d Dialect, original *Request, undo func(ctx context.Context, done *Response) error, terms *Terms) (State, error) {
	rec, err := take(ctx, tx, d, original.id(), "")
	if err != nil {
		return "", err
	}
	switch rec.state {
	case Absent:
		return Absent, fence(ctx, tx, d, original.id(), terms)
	case Done, Expired:
		res, err := rec.response()
		if err != nil && err != ErrNotKept {
			return "", err
		}
		if err := undo(ctx, res); err != nil {
			return "", err
		}
		return Done, refuseOn(ctx, tx, d, original.id(), Undone, terms)
	case Undone, Fenced:
		return rec.state, refuseOn(ctx, tx, d, original.id(), rec.state, terms)
	}
	return rec.state, nil
}

// Fence makes it final that a request was not carried out: if its key is unknown, it is
// refused from now on, for a whole tombstone, and so it is if it was fenced before. It returns what it found, and the answer
// where the request was Done. ErrInFlight means that it is being worked on: ask again.
func Fence(ctx context.Context, tx DB, d Dialect, req *Request, terms *Terms) (State, *Response, error) {
	rec, err := take(ctx, tx, d, req.id(), "")
	if err != nil {
		return "", nil, err
	}
	if rec.state == Absent {
		return Fenced, nil, fence(ctx, tx, d, req.id(), terms)
	}
	if rec.state == Fenced {
		return Fenced, nil, refuseOn(ctx, tx, d, req.id(), Fenced, terms)
	}
	res, err := rec.response()
	if err == ErrNotKept {
		err = nil
	}
	return rec.state, res, err
}

// Look returns what is recorded of a request, and its answer where that is kept. ErrInFlight
// means that it is being worked on. On PostgreSQL the transaction is READ COMMITTED: another
// one may have a snapshot older than the key's lock.
func Look(ctx context.Context, tx DB, d Dialect, req *Request) (State, *Response, error) {
	rec, err := take(ctx, tx, d, req.id(), "")
	if err != nil || rec.state != Done {
		if err == nil {
			return rec.state, nil, nil
		}
		return "", nil, err
	}
	res, err := rec.response()
	if err == ErrNotKept {
		err = nil
	}
	return rec.state, res, err
}

func fence(ctx context.Context, tx DB, d Dialect, id string, terms *Terms) error {
	t := terms.withDefaults()
	n, err := tx.Exec(ctx, d.query(`INSERT INTO pawl_receipts (id, fingerprint, state, status, header, body, size, digest, created, expires, forget)
		VALUES ($1, '', $2, 0, '{}', $3, 0, '', NOW, NOW + $4, NOW + $4) ON CONFLICT (id) DO NOTHING`), id, string(Fenced), []byte{}, millis(t.Retention+t.Tombstone))
	if err == nil && n != 1 {
		return ErrInFlight
	}
	if err != nil {
		return fmt.Errorf("receiver: record the fence: %w", err)
	}
	return nil
}

// refuseOn keeps a record's key refused, in the given state, for a whole tombstone from now.
func refuseOn(ctx context.Context, tx DB, d Dialect, id string, s State, terms *Terms) error {
	t := terms.withDefaults()
	n, err := tx.Exec(ctx, d.query(`UPDATE pawl_receipts SET state = $1, forget = NOW + $2 WHERE id = $3`), string(s), millis(t.Retention+t.Tombstone), id)
	if err == nil && n != 1 {
		err = ErrInFlight // pruned meanwhile: roll back and ask again
	}
	if err != nil {
		return fmt.Errorf("receiver: record that the key is refused: %w", err)
	}
	return nil
}

// Begin marks a request whose handler has effects outside the transaction, in a transaction
// that the caller commits before it calls the handler. A mark that no Finish takes away
// means Unknown: the request is never carried out again by itself. It returns the answer of
// an earlier request where there is one.
func Begin(ctx context.Context, tx DB, d Dialect, req *Request, terms *Terms) (*Response, error) {
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
	n, err := tx.Exec(ctx, d.query(`INSERT INTO pawl_receipts (id, fingerprint, state, status, header, body, size, digest, created, expires, forget)
		VALUES ($1, $2, $3, 0, '{}', $4, 0, '', NOW, NOW + $5, NOW + $5) ON CONFLICT (id) DO NOTHING`), req.id(), req.fingerprint(), string(Unknown), []byte{}, millis(t.Retention+t.Tombstone))
	if err == nil && n != 1 {
		err = ErrInFlight
	}
	if err != nil {
		return nil, fmt.Errorf("receiver: mark the request: %w", err)
	}
	return nil, nil
}

// Finish takes the mark of Begin away, in the transaction in which Once records the answer.
func Finish(ctx context.Context, tx DB, d Dialect, req *Request) error {
	n, err := tx.Exec(ctx, d.query(`DELETE FROM pawl_receipts WHERE id = $1 AND state = $2`), req.id(), string(Unknown))
	if err == nil && n != 1 {
		err = ErrInFlight
	}
	if err != nil {
		return fmt.Errorf("receiver: end the mark: %w", err)
	}
	return nil
}
