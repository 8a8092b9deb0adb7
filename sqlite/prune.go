package sqlite

import (
	"context"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

var _ pawl.Pruner = (*DB)(nil)

const (
	selectOldest = `SELECT ` + columns + ` FROM ` + joined + ` WHERE i.op > coalesce((SELECT op FROM intents WHERE id = ?1), ?2) ORDER BY i.op LIMIT ?3`

	deleteSettled = `DELETE FROM states WHERE op = (SELECT op FROM intents WHERE id = ?1) AND version = ?2
		AND NOT open AND review IS NULL AND due IS NULL RETURNING op`
	deleteIntentOf  = `DELETE FROM intents WHERE op = ?1`
	deleteChangesOf = `DELETE FROM changes WHERE line >= ?1 << 20 AND line < (?1 + 1) << 20`
	deleteNoticesOf = `DELETE FROM notices WHERE op = ?1`
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
			op := int64(-1)
			if err := w.once(deleteSettled, func(p *params) { p.blob(s.ID[:]); p.int(s.Version) }, func(q *sqlite3.Stmt) { op = q.ColumnInt64(0) }); err != nil {
				return err
			}
			if op < 0 {
				continue // it has changed
			}
			for _, sql := range []string{deleteIntentOf, deleteChangesOf, deleteNoticesOf} {
				if err := w.once(sql, func(p *params) { p.int(op) }, none); err != nil {
					return err
				}
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
