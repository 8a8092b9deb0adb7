package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

const (
	selectByID  = `SELECT op FROM intents WHERE id = ?1`
	updateState = `UPDATE OR IGNORE states SET held = ?1, open = ?2, status = ?3, version = ?4, review = ?5, ref = ?6,
		state_sum = ?7, token = ?8, lease = ?9, due = ?10, claim_sum = ?11
		WHERE op = ?12 AND version = ?13 AND token = ?14`
	insertChange  = `INSERT INTO changes (line, entry, state) VALUES (?1 << 20 | ?2, ?3, ?4)`
	selectVersion = `SELECT version, token FROM states WHERE op = ?1`
)

// maxVersion is the greatest version that changes.line has room for.
const maxVersion = 1<<20 - 1

// application is the write of Apply.
type application struct {
	header
	row            *row
	entry          []byte
	version, token int64 // what the row must still hold

	refusal error
}

// Apply writes one change and its history entry if version and token are still c's.
func (db *DB) Apply(ctx context.Context, c *pawl.Change) error {
	a, err := newApplication(c)
	if err != nil {
		return fmt.Errorf("sqlite: apply to %s: %w", c.ID, err)
	}
	if err := db.submit(ctx, a); err != nil {
		return err
	}
	if a.refusal != nil {
		return fmt.Errorf("sqlite: apply to %s: %w", c.ID, a.refusal)
	}
	return nil
}

func newApplication(c *pawl.Change) (*application, error) {
	if c.State == nil || c.State.Version != c.Version+1 {
		return nil, fmt.Errorf("the new state must have version %d", c.Version+1)
	}
	if c.State.Version > maxVersion {
		return nil, fmt.Errorf("version %d: an operation has at most %d changes", c.State.Version, maxVersion)
	}
	if len(c.Entry) == 0 || len(c.Entry) > maxDocument {
		return nil, fmt.Errorf("entry has %d bytes, want 1 to %d", len(c.Entry), maxDocument)
	}
	a := &application{row: &row{id: c.ID}, entry: c.Entry, version: c.Version, token: c.Token}
	if err := a.row.setState(c.State, c.Held); err != nil {
		return nil, err
	}
	a.size = len(a.row.state) + len(a.entry)
	return a, nil
}

func (a *application) apply(w *writer) error {
	a.refusal = nil
	op, found, err := w.opOf(&a.row.id)
	if err != nil {
		return err
	}
	if !found {
		a.refusal = pawl.ErrNotFound
		return nil
	}
	p := params{s: w.stmt.updateState}
	p.state(a.row)
	p.int(op)
	p.int(a.version)
	p.int(a.token)
	if changed, err := p.exec(); err != nil {
		return err
	} else if !changed {
		return a.explain(w, op)
	}
	p = params{s: w.stmt.insertChange}
	p.int(op)
	p.int(a.row.version)
	p.raw(a.entry)
	p.raw(a.row.state)
	_, err = p.exec()
	return err
}

// explain finds out why nothing was changed: the row moved on, or a claim that it takes
// up again is held.
func (a *application) explain(w *writer, op int64) error {
	p := params{s: w.stmt.version}
	p.int(op)
	a.refusal = pawl.ErrStale
	_, err := p.query(func(s *sqlite3.Stmt) {
		if s.ColumnInt64(0) == a.version && s.ColumnInt64(1) == a.token {
			a.refusal = pawl.ErrHeld
		}
	})
	return err
}

// opOf finds the row of an operation.
func (w *writer) opOf(id *pawl.ID) (op int64, found bool, err error) {
	if op, found = w.ops[*id]; found {
		return op, true, nil
	}
	p := params{s: w.stmt.byID}
	p.blob(id[:])
	if op, found, err = p.one(); found && err == nil {
		w.know(*id, op)
	}
	return op, found, err
}

// know remembers the row of an operation.
func (w *writer) know(id pawl.ID, op int64) {
	if len(w.ops) == maxKnown {
		clear(w.ops)
	}
	w.ops[id] = op
}
