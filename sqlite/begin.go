package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

const (
	selectNewest    = `SELECT op FROM claims WHERE claim = ?1 AND n >= 0 ORDER BY n DESC LIMIT 1`
	selectByKey     = `SELECT op FROM intents WHERE key = ?1`
	selectByStep    = `SELECT op FROM states WHERE step_claim = ?1 AND step_claim IS NOT NULL AND held & 1`
	selectByOnce    = `SELECT op FROM claims WHERE claim = ?1 AND n = -1`
	selectBySubject = `SELECT op FROM states WHERE subject_claim = ?1 AND subject_claim IS NOT NULL AND held & 4`
	selectByOp      = `SELECT ` + columns + ` FROM ` + joined + ` WHERE i.op = ?1`

	selectLane = `SELECT lane FROM lanes WHERE tenant = ?1 AND tool = ?2`
	insertLane = `INSERT INTO lanes (tenant, tool) VALUES (?1, ?2)`

	insertIntent = `INSERT INTO intents (id, lane, run, key, gen, identity_claim, intent, intent_sum, entry, state)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING`
	deleteIntent = `DELETE FROM intents WHERE op = ?1`
	deleteState  = `DELETE FROM states WHERE op = ?1`
	insertState  = `INSERT INTO states (op, lane, step_claim, once_claim, subject_claim,
		held, open, status, version, review, ref, state_sum, token, lease, due, claim_sum)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) ON CONFLICT DO NOTHING`
	insertClaim    = `INSERT INTO claims (claim, n, op) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING`
	insertClaims   = `INSERT INTO claims (claim, n, op) VALUES (?1, -1, ?4), (?2, ?3, ?4) ON CONFLICT DO NOTHING`
	deleteClaim    = `DELETE FROM claims WHERE claim = ?1 AND n = ?2`
	insertContract = `INSERT INTO contracts (hash, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING`
)

var errForeign = errors.New("its id is taken, or one of its claims is held by another tenant")

// beginning is the write of Begin.
type beginning struct {
	header
	row      *row
	first    []byte
	contract []byte // its JSON, where the store may not have it yet

	op  *pawl.Operation
	run pawl.Digest // of the run's record; zero without a run

	standing *row
	kind     pawl.ClaimKind
	barred   *runRow
	foreign  bool
}

// Begin inserts op with its first history entry, or returns the operation in its way.
func (db *DB) Begin(ctx context.Context, op *pawl.Operation, first []byte) (*pawl.Standing, error) {
	b, err := db.newBeginning(op, first)
	if err != nil {
		return nil, fmt.Errorf("sqlite: begin %s: %w", op.ID, err)
	}
	if err := db.submit(ctx, b); err != nil {
		return nil, err
	}
	switch {
	case b.foreign:
		return nil, fmt.Errorf("sqlite: begin %s: %w", op.ID, errForeign)
	case b.standing != nil:
		standing, err := db.operation(ctx, b.standing)
		if err != nil {
			return nil, err
		}
		return &pawl.Standing{Kind: b.kind, Op: standing}, nil
	case b.barred != nil:
		run, err := b.barred.decode()
		if err != nil {
			return nil, err
		}
		return &pawl.Standing{Kind: pawl.ClaimRun, Run: run}, nil
	}
	db.contracts.saved(op)
	return nil, nil
}

func (db *DB) newBeginning(op *pawl.Operation, first []byte) (*beginning, error) {
	if op.Version != 1 {
		return nil, fmt.Errorf("version is %d, want 1", op.Version)
	}
	if len(first) == 0 || len(first) > maxDocument {
		return nil, fmt.Errorf("entry has %d bytes, want 1 to %d", len(first), maxDocument)
	}
	if err := db.reserve.admit(); err != nil {
		return nil, err
	}
	r, err := newRow(op)
	if err != nil {
		return nil, err
	}
	b := &beginning{row: r, first: first, op: op}
	if op.Run != "" {
		b.run = pawl.RunDigest(op.Tenant, op.Run)
	}
	b.size, b.opens = len(r.intent)+len(r.state)+len(first), true
	b.contract, err = db.contracts.unsaved(op)
	return b, err
}

func (b *beginning) apply(w *writer) error {
	b.standing, b.barred, b.foreign = nil, nil, false
	if found, err := b.lookForIdentity(w); found || err != nil {
		return err
	}
	known, err := b.lookForRun(w)
	if err != nil {
		return err
	}
	if b.barred == nil {
		inserted, err := b.insert(w)
		if inserted && !known {
			err = b.beginRun(w)
		}
		if inserted || err != nil {
			return err
		}
	}
	r := b.row
	for _, c := range []struct {
		stmt *sqlite3.Stmt
		kind pawl.ClaimKind
		held [16]byte
	}{
		{w.stmt.byKey, pawl.ClaimKey, r.key},
		{w.stmt.byStep, pawl.ClaimStep, r.claims[claimStep]},
		{w.stmt.byOnce, pawl.ClaimOnce, r.claims[claimOnce]},
		{w.stmt.bySubject, pawl.ClaimSubject, r.claims[claimSubject]},
	} {
		if c.kind != pawl.ClaimKey && !claimed(c.held) {
			continue
		}
		p := params{s: c.stmt}
		p.blob(c.held[:])
		if found, err := b.look(w, &p, c.kind, always); found || err != nil {
			return err
		}
	}
	b.foreign = b.barred == nil
	return nil
}

// lookForRun reports whether there is nothing to record about the run, and keeps a record
// that bars the operation.
func (b *beginning) lookForRun(w *writer) (known bool, err error) {
	if !claimed(b.run) || w.openRuns[b.run] {
		return true, nil
	}
	p := params{s: w.stmt.run}
	p.blob(b.run[:])
	return p.query(func(s *sqlite3.Stmt) {
		if x := viewRun(s); x.bars(&b.op.Intent) {
			b.barred = x.kept()
		} else if x.free() {
			remember(w.openRuns, b.run, true)
		}
	})
}

// beginRun records the run with its first operation.
func (b *beginning) beginRun(w *writer) error {
	x, err := newRunRow(pawl.NewRun(b.op))
	if err == nil {
		_, err = w.insertRun(x)
	}
	return err
}

// lookForIdentity looks at the latest generation: it is in the way unless it is older
// and over without an effect that stands.
func (b *beginning) lookForIdentity(w *writer) (bool, error) {
	if !claimed(b.row.claims[claimIdentity]) {
		return false, nil
	}
	p := params{s: w.stmt.newest}
	p.blob(b.row.claims[claimIdentity][:])
	return b.look(w, &p, pawl.ClaimIdentity, func(holder *row) bool {
		return holder.gen >= b.row.gen || holder.open || holder.status == string(pawl.Succeeded)
	})
}

func always(*row) bool { return true }

// look reports whether an operation with a claim is in the way, and keeps it.
func (b *beginning) look(w *writer, p *params, kind pawl.ClaimKind, inTheWay func(holder *row) bool) (bool, error) {
	op, found, err := p.one()
	if !found || err != nil {
		return false, err
	}
	holder, err := w.row(op)
	if err != nil || !inTheWay(holder) {
		return false, err
	}
	if holder.tenant != b.row.tenant {
		b.foreign = true
	} else {
		b.standing, b.kind = holder, kind
	}
	return true, nil
}

// insert reports false, and leaves nothing behind, where a claim is held.
func (b *beginning) insert(w *writer) (bool, error) {
	r := b.row
	lane, err := w.laneOf(r.tenant, r.tool)
	if err != nil {
		return false, err
	}
	p := params{s: w.stmt.insertIntent}
	p.blob(r.id[:])
	p.int(lane)
	p.text(r.run)
	p.blob(r.key[:])
	p.int(r.gen)
	p.claim(&r.claims[claimIdentity])
	p.raw(r.intent)
	p.int(r.intentSum)
	p.raw(b.first)
	p.raw(r.state)
	if changed, err := p.exec(); !changed || err != nil {
		return false, err
	}
	op := w.conn.LastInsertRowID()
	p = params{s: w.stmt.insertState}
	p.int(op)
	p.int(lane)
	p.claim(&r.claims[claimStep])
	p.claim(&r.claims[claimOnce])
	p.claim(&r.claims[claimSubject])
	p.state(r)
	free, err := p.exec()
	if err != nil {
		return false, err
	}
	identity, once := r.claims[claimIdentity], r.claims[claimOnce]
	switch takes := claimed(once) && r.held&heldOnce != 0; {
	case !free:
	case takes && claimed(identity):
		free, err = w.claimBoth(&once, &identity, r.gen, op)
	case takes:
		free, err = w.claim(once[:], onceClaim, op)
	case claimed(identity):
		_, err = w.claim(identity[:], r.gen, op)
	}
	if err != nil {
		return false, err
	}
	if !free {
		return false, b.undo(w, op)
	}
	if place := pawl.RunPlace(r.run); r.run != "" && place != [4]byte(r.claims[claimIdentity][:4]) {
		if _, err := w.claim(place[:], op, op); err != nil {
			return false, err
		}
	}
	w.know(r.id, op)
	if b.contract == nil {
		return true, nil
	}
	p = params{s: w.stmt.insertContract}
	p.text(contractHash(b.contract))
	p.raw(b.contract)
	_, err = p.exec()
	return true, err
}

// undo takes back what insert wrote before it met a claim that is held.
func (b *beginning) undo(w *writer, op int64) error {
	for _, s := range []*sqlite3.Stmt{w.stmt.deleteIntent, w.stmt.deleteState} {
		p := params{s: s}
		p.int(op)
		if _, err := p.exec(); err != nil {
			return err
		}
	}
	return nil
}

// onceClaim is claims.n of a once-claim.
const onceClaim = -1

// claim takes a claim and reports whether it could be had.
func (w *writer) claim(claim []byte, n, op int64) (bool, error) {
	p := params{s: w.stmt.insertClaim}
	p.blob(claim)
	p.int(n)
	p.int(op)
	return p.exec()
}

// claimBoth takes the once-claim with the claim of an identity, which was found to be free, by
// one statement, or neither.
func (w *writer) claimBoth(once, identity *pawl.Digest, gen, op int64) (bool, error) {
	p := params{s: w.stmt.insertClaims}
	p.blob(once[:])
	p.blob(identity[:])
	p.int(gen)
	p.int(op)
	if changed, err := p.exec(); !changed || err != nil {
		return false, err
	}
	if w.conn.Changes() == 2 {
		return true, nil
	}
	p = params{s: w.stmt.deleteClaim}
	p.blob(identity[:])
	p.int(gen)
	_, err := p.exec()
	return false, err
}

// row copies one operation out.
func (w *writer) row(op int64) (r *row, err error) {
	p := params{s: w.stmt.byOp}
	p.int(op)
	found, err := p.query(func(s *sqlite3.Stmt) { r = scan(s) })
	if err == nil && !found {
		err = fmt.Errorf("intent %d has no state: %w", op, sqlite3.CORRUPT)
	}
	return r, err
}

// laneOf finds a lane or makes it.
func (w *writer) laneOf(tenant, tool string) (int64, error) {
	key := [2]string{tenant, tool}
	if lane, known := w.lanes[key]; known {
		return lane, nil
	}
	p := params{s: w.stmt.lane}
	p.text(tenant)
	p.text(tool)
	lane, found, err := p.one()
	if err != nil {
		return 0, err
	}
	if !found {
		p = params{s: w.stmt.insertLane}
		p.text(tenant)
		p.text(tool)
		if _, err := p.exec(); err != nil {
			return 0, err
		}
		lane = w.conn.LastInsertRowID()
	}
	remember(w.lanes, key, lane)
	return lane, nil
}

func claimed(d pawl.Digest) bool { return d != pawl.Digest{} }
