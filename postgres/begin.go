package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

var errForeign = errors.New("its id is taken, or one of its claims is held by another tenant")

// beginning is the write of Begin.
type beginning struct {
	header
	row *row
	// contract, lane and newRun are what may not be stored yet; nil where they are.
	contract, lane, newRun *tuple
	// intent is what a run may bar. Zero where it has none, runID names the run.
	intent *pawl.Intent
	runID  pawl.Digest
}

// claimKinds are the kinds of selectStanding from 1 on; 0 is none, and ownID the last.
var claimKinds = []pawl.ClaimKind{"", pawl.ClaimIdentity, pawl.ClaimKey, pawl.ClaimStep, pawl.ClaimOnce, pawl.ClaimSubject}

// Begin inserts op with its first history entry, or returns the operation in its way.
func (db *DB) Begin(ctx context.Context, op *pawl.Operation, first []byte) (*pawl.Standing, error) {
	b, err := db.newBeginning(op, first)
	if err != nil {
		return nil, fmt.Errorf("postgres: begin %s: %w", op.ID, err)
	}
	// Who is in the way may let go before it is looked at: then the next try decides.
	for before := time.Now().Add(db.opts.BusyTimeout); ; {
		err := db.submit(ctx, b, before)
		if err != nil && !errors.Is(err, errContended) {
			return nil, err
		}
		if err == nil && b.decided {
			db.catalog.saved(op, b.row)
			db.catalog.savedRun(b.runID)
			return nil, nil
		}
		standing, err := db.standing(ctx, b)
		if standing != nil || err != nil {
			return standing, err
		}
		if time.Now().After(before) {
			return nil, db.outOfReach()
		}
	}
}

func (db *DB) newBeginning(op *pawl.Operation, first []byte) (*beginning, error) {
	if op.Version != 1 {
		return nil, fmt.Errorf("version is %d, want 1", op.Version)
	}
	if err := validEntry(first); err != nil {
		return nil, err
	}
	r, err := newRow(op)
	if err != nil {
		return nil, err
	}
	b := &beginning{row: r, intent: &op.Intent}
	if op.Run != "" {
		b.runID = pawl.RunDigest(op.Tenant, op.Run)
	}
	t := newTuple(len(beginFields))
	t.uuid(r.id)
	t.uuid(r.lane)
	t.name(r.run)
	t.uuid(r.key)
	t.int(r.gen)
	for _, c := range r.claims {
		t.claim(c)
	}
	t.document(r.intent)
	t.int(r.intentSum)
	t.document(append([]byte(nil), first...))
	t.document(r.state)
	if op.Undoes == (pawl.ID{}) {
		t.claim(b.runID)
	} else {
		t.null() // no run keeps a compensation from beginning
	}
	t.bool(op.Planned)
	t.state(r)
	b.params, b.size = t, len(r.intent)+len(r.state)+len(first)
	b.header.claims = append(b.header.claims, pawl.Digest(r.id), pawl.Digest(r.key))
	for _, c := range r.claims {
		if claimed(c) {
			b.header.claims = append(b.header.claims, c)
		}
	}
	if b.contract, b.lane, err = db.catalog.unsaved(op, r); err != nil || op.Run == "" || db.catalog.knowsRun(b.runID) {
		return b, err
	}
	run, err := newRunRow(pawl.NewRun(op))
	if err != nil {
		return nil, err
	}
	b.newRun = run.tuple()
	return b, nil
}

// standing finds what kept an operation from beginning; nil means that it is gone.
func (db *DB) standing(ctx context.Context, b *beginning) (*pawl.Standing, error) {
	t := b.standingParams()
	var kind int64
	var holder *row
	err := db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		found, err := query(ctx, c, ask(db.sql.standing, standingFields, t))
		if err != nil || len(found[0].rows) == 0 {
			return err
		}
		v := values{row: found[0].rows[0]}
		kind = v.int()
		holder = scan(&v)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case holder == nil:
		return db.barring(ctx, b)
	case holder.id == b.row.id && b.doubtful:
		// It was written after all, and a sweeper has taken it over meanwhile.
		return nil, db.undecided(fmt.Errorf("begin %s: it has another token already", b.row.id))
	case holder.id == b.row.id, holder.tenant != b.row.tenant, kind <= 0, kind >= int64(len(claimKinds)):
		return nil, fmt.Errorf("postgres: begin %s: %w", b.row.id, errForeign)
	}
	op, err := db.operation(ctx, holder)
	if err != nil {
		return nil, err
	}
	return &pawl.Standing{Kind: claimKinds[kind], Op: op}, nil
}

// standingParams are the parameters of selectStanding, as standingFields lists them.
func (b *beginning) standingParams() *tuple {
	t := newTuple(len(standingFields))
	t.uuid(b.row.id)
	t.int(b.row.gen)
	t.claim(b.row.claims[claimIdentity])
	t.uuid(b.row.key)
	for _, c := range []int{claimStep, claimOnce, claimSubject} {
		t.claim(b.row.claims[c])
	}
	return t
}
