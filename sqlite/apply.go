package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rule"
)

const (
	selectByID  = `SELECT op FROM intents WHERE id = ?1`
	updateState = `UPDATE OR IGNORE states SET held = ?1, open = ?2, status = ?3, version = ?4, review = ?5, ref = ?6,
		state_sum = ?7, token = ?8, lease = ?9, due = ?10, claim_sum = ?11
		WHERE op = ?12 AND version = ?13 AND token = ?14 AND held & 2 = ?1 & 2`
	updateHeld    = `UPDATE states SET held = held & ~2 | ?2 & 2 WHERE op = ?1`
	insertChange  = `INSERT INTO changes (line, entry, state) VALUES (?1 << 20 | ?2, ?3, ?4)`
	selectVersion = `SELECT version, token, held, once_claim FROM states WHERE op = ?1`
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
	changed, err := a.update(w, op)
	if err == nil && !changed {
		changed, err = a.explain(w, op)
	}
	if !changed || err != nil {
		return err
	}
	p := params{s: w.stmt.insertChange}
	p.int(op)
	p.int(a.row.version)
	p.raw(a.entry)
	p.raw(a.row.state)
	_, err = p.exec()
	return err
}

// update writes the new state, unless the row moved on, a claim that it takes up again is
// held, or the once-claim is to be let go or taken up.
func (a *application) update(w *writer, op int64) (bool, error) {
	p := params{s: w.stmt.updateState}
	p.state(a.row)
	p.int(op)
	p.int(a.version)
	p.int(a.token)
	return p.exec()
}

// explain finds out why nothing was changed. It moves the once-claim where that was why, and
// then writes the new state.
func (a *application) explain(w *writer, op int64) (changed bool, err error) {
	var version, token, held int64
	var once pawl.Digest
	p := params{s: w.stmt.version}
	p.int(op)
	if _, err = p.query(func(s *sqlite3.Stmt) {
		version, token, held = s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2)
		copy(once[:], s.ColumnRawBlob(3))
	}); err != nil {
		return false, err
	}
	same := (version == a.version && token == a.token) || !rule.Holds(rule.WritesAreCompared)
	switch {
	case !same:
		a.refusal = pawl.ErrStale
		return false, nil
	case held&heldOnce == a.row.held&heldOnce:
		a.refusal = pawl.ErrHeld
		return false, nil
	}
	takes := a.row.held&heldOnce != 0
	if takes && claimed(once) {
		p = params{s: w.stmt.byOnce}
		p.blob(once[:])
		if _, taken, err := p.one(); taken || err != nil {
			a.refusal = pawl.ErrHeld
			return false, err
		}
	}
	p = params{s: w.stmt.updateHeld}
	p.int(op)
	p.int(a.row.held)
	if _, err := p.exec(); err != nil {
		return false, err
	}
	if changed, err = a.update(w, op); err != nil {
		return false, err
	}
	if !changed { // another claim is held: what was written is undone
		p = params{s: w.stmt.updateHeld}
		p.int(op)
		p.int(held)
		a.refusal = pawl.ErrHeld
		_, err = p.exec()
		return false, err
	}
	switch {
	case !claimed(once):
		return true, nil
	case takes:
		_, err = w.claim(once[:], onceClaim, op)
		return true, err
	}
	p = params{s: w.stmt.deleteClaim}
	p.blob(once[:])
	p.int(onceClaim)
	_, err = p.exec()
	return true, err
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
func (w *writer) know(id pawl.ID, op int64) { remember(w.ops, id, op) }

// remember keeps what was seen, up to a limit.
func remember[K comparable, V any](known map[K]V, key K, value V) {
	if len(known) >= maxKnown {
		clear(known)
	}
	known[key] = value
}
