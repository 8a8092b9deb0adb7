package sqlite

import (
	"bytes"
	"context"
	"errors"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

var _ pawl.Pruner = (*DB)(nil)

const (
	selectOldest = `SELECT ` + columns + ` FROM ` + joined + ` WHERE i.op > coalesce((SELECT op FROM intents WHERE id = ?1), ?2) ORDER BY i.op LIMIT ?3`

	deleteSettled = `DELETE FROM states WHERE op = (SELECT op FROM intents WHERE id = ?1) AND version = ?2
		AND NOT open AND review IS NULL AND due IS NULL RETURNING op, once_claim`
	deleteIntentOf  = `DELETE FROM intents WHERE op = ?1 RETURNING identity_claim, gen, run`
	deleteClaimOf   = `DELETE FROM claims WHERE claim = ?1 AND n = ?2 AND op = ?3`
	deleteChangesOf = `DELETE FROM changes WHERE line >= ?1 << 20 AND line < (?1 + 1) << 20`
	deleteNoticesOf = `DELETE FROM notices WHERE op = ?1`
	deleteSighting  = `DELETE FROM sightings WHERE id = ?1`
)

// Oldest lists operations of every tenant in the order in which they were begun.
func (db *DB) Oldest(ctx context.Context, behind pawl.ID, limit int) ([]*pawl.Operation, error) {
	var rows []*row
	start := int64(-1)
	if behind != (pawl.ID{}) {
		start = 1<<63 - 1 // behind what is not there, there is nothing
	}
	err := db.read(ctx, func(r *reader) error {
		return r.query(selectOldest, func(p *params) {
			p.blob(behind[:])
			p.int(start)
			p.int(int64(min(max(limit, 1), maxLimit)))
		}, func(s *sqlite3.Stmt) { rows = append(rows, scan(s)) })
	})
	if err != nil {
		return nil, err
	}
	ops := make([]*pawl.Operation, len(rows))
	for i, r := range rows {
		if ops[i], err = db.shown(ctx, "oldest", r); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// Forget removes settled operations with their histories.
func (db *DB) Forget(ctx context.Context, settled []pawl.Settled) (forgotten int, err error) {
	c := &seldom{do: func(w *writer) error {
		forgotten = 0
		for _, s := range settled {
			op, held := int64(-1), map[int64][]byte{}
			if err := w.once(deleteSettled, func(p *params) { p.blob(s.ID[:]); p.int(s.Version) }, func(q *sqlite3.Stmt) {
				op, held[onceClaim] = q.ColumnInt64(0), bytes.Clone(q.ColumnRawBlob(1))
			}); err != nil {
				return err
			}
			if op < 0 {
				continue // it has changed
			}
			place := [4]byte{}
			for _, x := range []struct {
				sql  string
				each func(*sqlite3.Stmt)
			}{
				{deleteIntentOf, func(q *sqlite3.Stmt) {
					held[q.ColumnInt64(1)] = bytes.Clone(q.ColumnRawBlob(0))
					place = pawl.RunPlace(q.ColumnText(2))
				}},
				{deleteChangesOf, none}, {deleteNoticesOf, none},
			} {
				if err := w.once(x.sql, func(p *params) { p.int(op) }, x.each); err != nil {
					return err
				}
			}
			gone := func(claim []byte, n int64) error {
				return w.once(deleteClaimOf, func(p *params) { p.blob(claim); p.int(n); p.int(op) }, none)
			}
			err := errors.Join(gone(place[:], op), w.once(deleteSighting, func(p *params) { p.blob(s.ID[:]) }, none))
			for n, claim := range held {
				err = errors.Join(err, gone(claim, n))
			}
			if err != nil {
				return err
			}
			delete(w.ops, s.ID)
			forgotten++
		}
		return nil
	}}
	if err := db.submit(ctx, c); err != nil {
		return 0, err
	}
	return forgotten, nil
}
