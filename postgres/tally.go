package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

// selectTally sums up what the index of open and due operations holds. Ids begin with the
// time: the least is that of the oldest.
const selectTally = `SELECT l.tool, s.status, s.review IS NOT NULL, count(*), count(*) FILTER (WHERE coalesce(s.lease, 0) <= $1),
		min(s.due), min(s.review), (array_agg(s.id ORDER BY s.id))[1]
	FROM {schema}.states s JOIN {schema}.lanes l ON l.lane = s.lane
	WHERE s.open AND (s.open OR s.due IS NOT NULL) GROUP BY 1, 2, 3`

// tallyOf is the statement for a time.
func tallyOf(schema string, now int64) statement {
	return statement{sql: strings.ReplaceAll(selectTally, "{schema}", schema), params: [][]byte{bigEndian(now)}, oids: []uint32{kindInt.oid}}
}

// Tally sums up the open operations of every tenant. One that is settled between the sums
// and the look at the oldest is shown as it is then.
func (db *DB) Tally(ctx context.Context) ([]pawl.Tally, error) {
	now, err := db.Now(ctx)
	if err != nil {
		return nil, err
	}
	var list []pawl.Tally
	var oldest [][16]byte
	rows := map[pawl.ID]*row{}
	err = db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		list, oldest = nil, nil
		found, err := query(ctx, c, tallyOf(db.opts.Schema, micros(now)))
		if err != nil {
			return err
		}
		for _, r := range found[0].rows {
			v := &values{row: r}
			list = append(list, pawl.Tally{
				Tool: v.name(), Status: pawl.Status(v.text()), Review: v.bool(), Count: int(v.int()), Unheld: int(v.int()), Due: instant(v.int()), Asked: instant(v.int()),
			})
			oldest = append(oldest, v.uuid())
		}
		found, err = query(ctx, c, statement{sql: db.sql.locked, params: [][]byte{uuids(oldest)}, oids: []uint32{kindUUID.array}})
		if err != nil {
			return err
		}
		for _, r := range found[0].rows {
			row := scan(&values{row: r})
			rows[row.id] = row
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, id := range oldest {
		r := rows[id]
		if r == nil {
			return nil, fmt.Errorf("postgres: tally: state %s has no intent: %w", pawl.ID(id), pawl.ErrCorrupt)
		}
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
	if errors.Is(err, pawl.ErrCorrupt) {
		db.opts.OnCorrupt(r.id, fmt.Errorf("%s: %w", what, err))
		return r.refused(), nil
	}
	return op, err
}
