package postgres

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

// application is the write of Apply.
type application struct {
	header
	id             pawl.ID
	version, token int64 // what the row must still hold
	entry          []byte
}

// Apply writes one change and its history entry if version and token are still c's.
func (db *DB) Apply(ctx context.Context, c *pawl.Change) error {
	a, err := newApplication(c)
	if err == nil {
		if err := db.submit(ctx, a, time.Now().Add(db.opts.BusyTimeout)); err != nil {
			return err
		}
		if a.decided {
			return nil
		}
		var refusal error
		if refusal, err = db.explain(ctx, a); err != nil {
			return err
		}
		err = refusal
	}
	return fmt.Errorf("postgres: apply to %s: %w", c.ID, err)
}

func newApplication(c *pawl.Change) (*application, error) {
	if c.State == nil || c.State.Version != c.Version+1 {
		return nil, fmt.Errorf("the new state must have version %d", c.Version+1)
	}
	if err := validEntry(c.Entry); err != nil {
		return nil, err
	}
	r := &row{id: c.ID}
	if err := r.setState(c.State, c.Held); err != nil {
		return nil, err
	}
	a := &application{id: c.ID, version: c.Version, token: c.Token, entry: append([]byte(nil), c.Entry...)}
	t := newTuple(len(applyFields))
	t.uuid(c.ID)
	t.int(c.Version)
	t.int(c.Token)
	t.document(a.entry)
	t.document(r.state)
	t.state(r)
	a.params, a.size, a.claims = t, len(r.state)+len(c.Entry), []pawl.Digest{pawl.Digest(c.ID)}
	return a, nil
}

func validEntry(entry []byte) error {
	switch {
	case len(entry) == 0 || len(entry) > maxDocument:
		return fmt.Errorf("entry has %d bytes, want 1 to %d", len(entry), maxDocument)
	case !utf8.Valid(entry):
		return fmt.Errorf("entry is not UTF-8")
	}
	return nil
}

// explain finds out why nothing was changed: the row moved on, or a claim that it takes up
// again is held.
func (db *DB) explain(ctx context.Context, a *application) (refusal, err error) {
	t := newTuple(1)
	t.uuid(a.id)
	refusal = pawl.ErrNotFound
	err = db.read(context.WithoutCancel(ctx), func(ctx context.Context, c *pgconn.PgConn) error {
		found, err := query(ctx, c, ask(db.sql.version, beginFields[:1], t))
		if err != nil || len(found[0].rows) == 0 {
			return err
		}
		v := values{row: found[0].rows[0]}
		refusal = pawl.ErrStale
		if a.conflicted && v.int() == a.version && v.int() == a.token {
			refusal = pawl.ErrHeld
		}
		return nil
	})
	return refusal, err
}

// renewal is the write of Renew.
type renewal struct {
	header
	id pawl.ID
}

// Renew writes lease and due of an operation if its token is still the one given.
func (db *DB) Renew(ctx context.Context, id pawl.ID, token int64, lease, due time.Time) (bool, error) {
	r := row{id: id}
	r.setClaim(token, lease, due)
	x := &renewal{id: id}
	x.params = r.claimParams(token)
	x.claims = []pawl.Digest{pawl.Digest(id)}
	if err := db.submit(ctx, x, time.Now().Add(db.opts.BusyTimeout)); err != nil {
		return false, err
	}
	return x.decided, nil
}

// claimParams are the row's lease and due under its token, if its token was the one given.
func (r *row) claimParams(was int64) *tuple {
	t := newTuple(len(claimFields))
	t.uuid(r.id)
	t.int(was)
	t.claimed(r)
	return t
}
