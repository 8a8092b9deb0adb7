package receiver

import (
	"context"
	"errors"
	"fmt"
)

// Undo carries out the undoing of an earlier request, which has a key of its own: call it
// inside Once of the undoing. Undo is called with the original's answer if it was carried
// out, once. If the original never came it is fenced, so that it changes nothing when it
// arrives late, and undo is not called. What was undone or fenced before is refused for
// another tombstone.
//
// It returns what it found: Done (and now undone), Absent (and now fenced), Undone, Fenced,
// or Unknown (and nothing was done). ErrInFlight means that the original is being worked on:
// the undoing must not be recorded and may come again.
func Undo(ctx context.Context, tx DB, original *Request, undo func(ctx context.Context, done *Response) error, terms *Terms) (State, error) {
	t := terms.withDefaults()
	id := original.id()
	if err := lock(ctx, tx, id, fencing); err != nil {
		return "", err
	}
	rec, err := read(ctx, tx, id)
	if err != nil {
		return "", err
	}
	switch rec.state {
	case Absent:
		return Absent, insert(ctx, tx, id, "", Fenced, "", nil, &t)
	case Done, Expired:
		res, err := rec.response()
		if err != nil {
			return "", err
		}
		if err := undo(ctx, res); err != nil {
			return "", err
		}
		return Done, refuseOn(ctx, tx, id, Undone, &t)
	case Undone, Fenced:
		return rec.state, refuseOn(ctx, tx, id, rec.state, &t)
	}
	return rec.state, nil
}

// refuseOn keeps a known key refused for a whole tombstone from now.
func refuseOn(ctx context.Context, tx DB, id string, state State, t *Terms) error {
	n, err := tx.Exec(ctx, tx.Dialect().query(`UPDATE pawl_receipts SET state = $1, forget = NOW + $2 WHERE id = $3`),
		string(state), millis(t.Retention+t.Tombstone), id)
	if err != nil {
		return fmt.Errorf("receiver: refuse the key: %w", err)
	}
	if n != 1 {
		return ErrInFlight // it was pruned meanwhile: roll back and ask again
	}
	return nil
}

// Fence makes it final that a request was not carried out: if its key is unknown, it is
// refused from now on, for a whole tombstone, and so it is if it was fenced before. It
// returns what it found, InFlight too: then ask again.
func Fence(ctx context.Context, tx DB, req *Request, terms *Terms) (*Status, error) {
	t := terms.withDefaults()
	id := req.id()
	err := lock(ctx, tx, id, fencing)
	busy := errors.Is(err, ErrInFlight)
	if err != nil && !busy {
		return nil, err
	}
	rec, err := read(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case busy:
	case rec.state == Absent:
		rec.state = Fenced
		err = insert(ctx, tx, id, "", Fenced, "", nil, &t)
	case rec.state == Fenced:
		err = refuseOn(ctx, tx, id, Fenced, &t)
	}
	if err != nil {
		return nil, err
	}
	return rec.statusWhile(busy)
}

// Look returns what is known of a request, and changes nothing. Absent means that there is
// no record and that nobody is working on one: past the request's not-after it is final. On
// a replica nothing but a record is an answer, and ErrReplica is returned instead. With
// PostgreSQL the transaction is READ COMMITTED: the snapshot of another one may be older than
// what it finds out of the key's lock, and is refused.
func Look(ctx context.Context, tx DB, req *Request) (*Status, error) {
	id := req.id()
	busy, replica, err := held(ctx, tx, id) // before the record: who ends in between is seen there
	if err != nil {
		return nil, err
	}
	rec, err := read(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if replica && rec.state == Absent {
		return nil, ErrReplica
	}
	return rec.statusWhile(busy)
}
