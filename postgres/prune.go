package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

var _ pawl.Pruner = (*DB)(nil)

const (
	selectOldest = `SELECT ` + columns + ` FROM ` + sources + ` WHERE i.id > $1 ORDER BY i.id LIMIT $2`

	deleteSettled = `WITH gone AS (
			DELETE FROM {schema}.states s WHERE s.id = $1 AND s.version = $2 AND NOT s.open AND s.review IS NULL AND s.due IS NULL RETURNING s.id
		), intent AS (DELETE FROM {schema}.intents i USING gone WHERE i.id = gone.id),
		history AS (DELETE FROM {schema}.changes c USING gone WHERE c.id = gone.id),
		told AS (DELETE FROM {schema}.notices n USING gone WHERE n.id = gone.id),
		sighted AS (DELETE FROM {schema}.sightings g USING gone WHERE g.id = gone.id)
		SELECT id FROM gone`
)

// Oldest lists operations of every tenant by their ids, which begin with the time.
func (db *DB) Oldest(ctx context.Context, behind pawl.ID, limit int) ([]*pawl.Operation, error) {
	t := newTuple(2)
	t.uuid(behind)
	t.int(int64(min(max(limit, 1), maxLimit)))
	ask := db.made(strings.ReplaceAll(selectOldest, "{schema}", db.opts.Schema), t, kindUUID, kindInt)
	var rows []*row
	err := db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		found, err := query(ctx, c, ask)
		if err != nil {
			return err
		}
		rows = rows[:0]
		for _, r := range found[0].rows {
			rows = append(rows, scan(&values{row: r}))
		}
		return nil
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
func (db *DB) Forget(ctx context.Context, settled []pawl.Settled) (int, error) {
	if len(settled) == 0 {
		return 0, nil
	}
	var deletes []statement
	for _, s := range settled {
		t := newTuple(2)
		t.uuid(s.ID)
		t.int(s.Version)
		deletes = append(deletes, db.made(deleteSettled, t, kindUUID, kindInt))
	}
	results, err := db.change(ctx, deletes...)
	if err != nil {
		return 0, fmt.Errorf("postgres: forget: %w", err)
	}
	forgotten := 0
	for _, r := range results {
		forgotten += len(r.rows)
	}
	return forgotten, nil
}
