package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

const (
	// selectTally reads what the index of open and due operations holds.
	selectTally = `SELECT l.tool, s.status, s.review IS NOT NULL, count(*), sum(coalesce(s.lease, 0) <= ?1), min(s.due), min(s.review), min(s.op)
		FROM states s INDEXED BY states_due CROSS JOIN lanes l ON l.lane = s.lane
		WHERE s.open AND (s.open OR s.due IS NOT NULL) GROUP BY 1, 2, 3`
	selectNumbered = `SELECT ` + columns + ` FROM ` + joined + ` WHERE i.op = ?1`
)

// Tally sums up the open operations of every tenant.
func (db *DB) Tally(ctx context.Context) ([]pawl.Tally, error) {
	var list []pawl.Tally
	var oldest []*row
	err := db.read(ctx, func(r *reader) error {
		var numbers []int64
		if err := r.query(selectTally, func(p *params) { p.int(micros(db.clock.now())) }, func(s *sqlite3.Stmt) {
			list = append(list, pawl.Tally{
				Tool: s.ColumnText(0), Status: pawl.Status(s.ColumnText(1)), Review: s.ColumnBool(2), Count: s.ColumnInt(3), Unheld: s.ColumnInt(4),
				Due: instant(s.ColumnInt64(5)), Asked: instant(s.ColumnInt64(6)),
			})
			numbers = append(numbers, s.ColumnInt64(7))
		}); err != nil {
			return err
		}
		for _, n := range numbers {
			if err := r.query(selectNumbered, func(p *params) { p.int(n) }, func(s *sqlite3.Stmt) { oldest = append(oldest, scan(s)) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(oldest) != len(list) {
		return nil, fmt.Errorf("sqlite: tally: a state has no intent: %w", pawl.ErrCorrupt)
	}
	for i, r := range oldest {
		if list[i].Oldest, err = db.shown(ctx, "tally", r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// shown is an operation in a listing. A row that fails its check, or whose contract does, is
// shown as refused, and told to Options.OnCorrupt.
func (db *DB) shown(ctx context.Context, what string, r *row) (*pawl.Operation, error) {
	op, err := db.operation(ctx, r)
	if errors.Is(err, pawl.ErrCorrupt) && db.failure() == nil {
		db.opts.OnCorrupt(r.id, fmt.Errorf("%s: %w", what, err))
		return r.refused(), nil
	}
	return op, err
}
