package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

const (
	maxClaim = 256
	// maxRing bounds the lanes that one Claim looks at; the next Claim goes on behind them.
	maxRing = 1024
	// maxTakes bounds how often a Claim tries again whose operations others took first.
	maxTakes = 4
)

const (
	// selectRing finds the lanes in a range that have open or due operations, each by one
	// seek, whatever lies in it, and their tools.
	selectRing = `WITH RECURSIVE ring(lane, place) AS (
			(SELECT s.lane, 1 FROM {schema}.states s WHERE s.lane > $1 AND s.lane <= $2 AND (s.open OR s.due IS NOT NULL) ORDER BY s.lane LIMIT 1)
			UNION ALL
			SELECT (SELECT s.lane FROM {schema}.states s WHERE s.lane > r.lane AND s.lane <= $2 AND (s.open OR s.due IS NOT NULL)
				ORDER BY s.lane LIMIT 1), r.place + 1 FROM ring r WHERE r.lane IS NOT NULL AND r.place < $3
		)
		SELECT r.lane, l.tool FROM ring r JOIN {schema}.lanes l ON l.lane = r.lane ORDER BY r.place`
	// selectCandidates lists due operations of the lanes, round by round, in each round the
	// oldest of each lane that is left.
	selectCandidates = `SELECT q.id, q.lane FROM (
			SELECT d.id, r.lane, r.place, row_number() OVER (PARTITION BY r.place ORDER BY d.due, d.id) AS turn
			FROM unnest($1::uuid[]) WITH ORDINALITY AS r(lane, place) CROSS JOIN LATERAL (
				SELECT s.id, s.due FROM {schema}.states s
				WHERE s.lane = r.lane AND (s.open OR s.due IS NOT NULL) AND s.due <= $2 AND s.id <> ALL($3::uuid[])
				ORDER BY s.due LIMIT $4) d
		) q ORDER BY q.turn, q.place LIMIT $5`
	// lockDue takes those that are still due and that nobody else is taking.
	lockDue = `SELECT s.id FROM {schema}.states s WHERE s.id = ANY($1::uuid[]) AND (s.open OR s.due IS NOT NULL) AND s.due <= $2
		ORDER BY s.id FOR UPDATE SKIP LOCKED`
	selectLocked = `SELECT ` + columns + ` FROM ` + sources + ` WHERE i.id = ANY($1::uuid[])`
)

// claiming is one Claim.
type claiming struct {
	pawl.Claim
	limit int
	seen  [][16]byte // what was looked at, so that it is not looked at again

	rows    []*row
	refused []pawl.ID
}

// Claim gives due operations of the named tools to the caller. A row that fails its check,
// or whose contract does, is passed over: it loses its due time, is listed for review, and
// is told to Options.OnCorrupt.
func (db *DB) Claim(ctx context.Context, c pawl.Claim) ([]*pawl.Operation, error) {
	if c.Lease <= 0 {
		return nil, fmt.Errorf("postgres: claim: lease of %v is not positive", c.Lease)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := db.failure(ctx); err != nil {
		return nil, err
	}
	x := &claiming{Claim: c, limit: min(c.Limit, maxClaim)}
	for range maxTakes {
		more := false
		err := db.lend(ctx, func(ctx context.Context, c *pgconn.PgConn) (err error) {
			more, err = db.take(ctx, c, x)
			return err
		})
		if errors.Is(err, errMoved) {
			if err = db.examine(ctx); err == nil {
				continue
			}
		}
		if err != nil && verdictOf(err) != repeat && len(x.rows) == 0 {
			if verdictOf(err) == unknown {
				return nil, db.undecided(err) // what was taken comes again when its lease is over
			}
			return nil, db.tell(ctx, err)
		}
		if err == nil && !more || err != nil && verdictOf(err) != repeat {
			break
		}
	}
	for _, id := range x.refused {
		db.opts.OnCorrupt(id, fmt.Errorf("postgres: claim: row of %s failed its check and leaves the queue: %w", id, pawl.ErrCorrupt))
	}
	ops := make([]*pawl.Operation, 0, len(x.rows))
	for _, r := range x.rows {
		op, err := db.operation(context.WithoutCancel(ctx), r)
		if errors.Is(err, pawl.ErrCorrupt) {
			// A row that could not be put aside comes again when this lease is over.
			db.opts.OnCorrupt(r.id, errors.Join(fmt.Errorf("claim: %w", err), db.putAside(context.WithoutCancel(ctx), r)))
			continue
		} else if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// take claims what is due once, and reports whether there may be more: others took some of
// what it found.
func (db *DB) take(ctx context.Context, c *pgconn.PgConn, x *claiming) (more bool, err error) {
	left := x.limit - len(x.rows) - len(x.refused)
	if left <= 0 || len(x.Tools) == 0 {
		return false, nil
	}
	lanes, last, now, err := db.lanes(ctx, c, x.Tools)
	if err != nil {
		return false, err
	}
	// Of many lanes the heads are enough; of few, each may have to give more.
	ids, from, err := db.candidates(ctx, c, x, lanes, now, 1, left)
	if err == nil && len(ids) < left && len(ids) > 0 {
		ids, from, err = db.candidates(ctx, c, x, distinctLanes(lanes, from), now, left, left)
	}
	if err != nil {
		return false, err
	}
	if len(ids) == left {
		last = from[len(from)-1]
	}
	if len(ids) > 0 {
		if more, err = db.lease(ctx, c, x, ids, now); err != nil {
			return false, err
		}
	}
	db.served.Store(&last)
	return more, nil
}

// distinctLanes keeps the lanes that occur in from, in their order.
func distinctLanes(lanes, from [][16]byte) [][16]byte {
	return slices.DeleteFunc(lanes, func(l [16]byte) bool { return !slices.Contains(from, l) })
}

// lanes finds the lanes of the tools that have open or due operations, in the ring that
// begins behind the lane served last, the last lane it looked at, and the server's time.
func (db *DB) lanes(ctx context.Context, c *pgconn.PgConn, tools []string) (lanes [][16]byte, last [16]byte, now int64, err error) {
	served, end := *db.served.Load(), [16]byte{}
	for i := range end {
		end[i] = 0xff
	}
	part := func(after, until [16]byte) statement {
		t := newTuple(3)
		t.uuid(after)
		t.uuid(until)
		t.int(maxRing)
		return ask(db.sql.ring, []field{{"after", kindUUID}, {"until", kindUUID}, {"most", kindInt}}, t)
	}
	sent := time.Now()
	found, err := query(ctx, c, statement{sql: "SELECT " + nowMicros}, part(served, end), part([16]byte{}, served))
	if err != nil {
		return nil, last, 0, err
	}
	if len(found[0].rows) != 1 {
		return nil, last, 0, errNoAnswer
	}
	v := values{row: found[0].rows[0]}
	now = v.int()
	db.clock.observe(now, sent, time.Now())
	last = served
	for _, r := range append(found[1].rows, found[2].rows...)[:min(maxRing, len(found[1].rows)+len(found[2].rows))] {
		v := values{row: r}
		last = v.uuid()
		if slices.Contains(tools, v.name()) {
			lanes = append(lanes, last)
		}
	}
	return lanes, last, now, nil
}

// candidates lists due operations and the lane of each.
func (db *DB) candidates(ctx context.Context, c *pgconn.PgConn, x *claiming, lanes [][16]byte, now int64, each, limit int) (ids, from [][16]byte, err error) {
	if len(lanes) == 0 {
		return nil, nil, nil
	}
	found, err := query(ctx, c, statement{
		sql:    db.sql.candidates,
		params: [][]byte{uuids(lanes), bigEndian(now), uuids(x.seen), bigEndian(int64(each)), bigEndian(int64(limit))},
		oids:   []uint32{kindUUID.array, kindInt.oid, kindUUID.array, kindInt.oid, kindInt.oid},
	})
	if err != nil {
		return nil, nil, err
	}
	for _, r := range found[0].rows {
		v := values{row: r}
		ids, from = append(ids, v.uuid()), append(from, v.uuid())
	}
	return ids, from, nil
}

// lease takes those of the operations that nobody else is taking, and reports whether there
// were others.
func (db *DB) lease(ctx context.Context, c *pgconn.PgConn, x *claiming, ids [][16]byte, now int64) (others bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.opts.ConfirmTimeout)
	defer cancel()
	locked, err := exchange(ctx, c, begin, pinPlans, statement{sql: db.sql.lock, params: [][]byte{uuids(ids), bigEndian(now)}, oids: []uint32{kindUUID.array, kindInt.oid}})
	if err != nil {
		return false, err
	}
	var mine [][16]byte
	for _, r := range locked[2].rows {
		v := values{row: r}
		mine = append(mine, v.uuid())
	}
	x.seen = append(x.seen, ids...)
	if len(mine) == 0 {
		_, err := exchange(ctx, c, commit)
		return true, err
	}
	// What is locked stays as it is while it is read and taken.
	found, err := exchange(ctx, c, statement{sql: db.sql.locked, params: [][]byte{uuids(mine)}, oids: []uint32{kindUUID.array}})
	if err != nil {
		return false, err
	}
	rows := make(map[[16]byte]*row, len(found[0].rows))
	for _, r := range found[0].rows {
		row := scan(&values{row: r})
		rows[row.id] = row
	}
	lease := now + x.Lease.Microseconds()
	var taken []*row
	var refused []pawl.ID
	var take, refuse []*tuple
	for _, id := range ids { // in the order of the candidates
		r := rows[id]
		switch {
		case r == nil && slices.Contains(mine, id), r != nil && !r.sound():
			refused = append(refused, id)
			t := newTuple(len(refuseFields))
			t.uuid(id)
			t.int(now)
			refuse = append(refuse, t)
		case r != nil:
			was := r.token
			r.setClaim(x.Token, instant(lease), instant(lease))
			taken, take = append(taken, r), append(take, r.claimParams(was))
		}
	}
	expected := db.footing.Load().witness
	var all []statement
	if len(refuse) > 0 {
		all = append(all, db.sql.refuse.over(refuse))
	}
	if len(take) > 0 {
		all = append(all, db.sql.renew.over(take, []byte(expected)))
	}
	sent := time.Now()
	answers, err := exchange(ctx, c, append(all, commit)...)
	if err != nil {
		return false, err
	}
	x.refused = append(x.refused, refused...)
	if len(take) > 0 {
		renewed, as, err := db.witnessed(answers[len(answers)-2], expected, sent)
		switch {
		case err != nil:
			return false, &exchangeError{unknown, err}
		case !as:
			x.seen = x.seen[:len(x.seen)-len(ids)]
			return false, &exchangeError{repeat, errMoved}
		case len(renewed) != len(take):
			return false, &exchangeError{unknown, errNoAnswer}
		}
		x.rows = append(x.rows, taken...)
	}
	return len(mine) < len(ids), nil
}

// putAside takes a claimed row out of the queue and into review.
func (db *DB) putAside(ctx context.Context, r *row) error {
	if r.review == 0 {
		r.review = r.lease
		r.stateSum = r.stateSeal()
	}
	r.setClaim(r.token, instant(r.lease), time.Time{})
	t := newTuple(len(asideFields))
	t.uuid(r.id)
	t.int(r.token)
	t.int(r.review)
	t.int(r.stateSum)
	t.int(r.claimSum)
	return db.lend(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		_, err := exchange(ctx, c, begin, db.sql.aside.over([]*tuple{t}), commit)
		return err
	})
}

// uuids is an array.
func uuids(ids [][16]byte) []byte {
	rows := make([]*tuple, len(ids))
	for i, id := range ids {
		rows[i] = newTuple(1)
		rows[i].uuid(id)
	}
	return arrays([]field{{"", kindUUID}}, rows)[0]
}
