package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

const (
	selectNextLane = `SELECT lane FROM states INDEXED BY states_due
		WHERE lane > ?1 AND (open OR due IS NOT NULL) ORDER BY lane LIMIT 1`
	selectTool = `SELECT tool FROM lanes WHERE lane = ?1`
	selectHead = `SELECT op FROM states INDEXED BY states_due
		WHERE lane = ?1 AND (open OR due IS NOT NULL) AND due <= ?2 ORDER BY due LIMIT 1`
	updateClaim = `UPDATE states SET token = ?2, lease = ?3, due = ?4, claim_sum = ?5 WHERE op = ?1`
	// A row that failed its check is never claimed again, and is shown to people.
	updateRefused = `UPDATE states SET due = NULL, review = coalesce(review, ?2) WHERE op = ?1`
	// A sound row whose contract failed its check stays sound.
	updateAside = `UPDATE states SET due = NULL, review = ?2, state_sum = ?3, claim_sum = ?4 WHERE op = ?1 AND token = ?5`
	updateLease = `UPDATE states SET lease = ?3, due = ?4, claim_sum = ?5 WHERE op = ?1 AND token = ?2`
)

const (
	maxClaim = 256
	// maxLanes bounds the lanes that one Claim looks at; the next Claim goes on behind them.
	maxLanes = 1024
)

// claiming is the write of Claim.
type claiming struct {
	header
	tools      []string
	limit      int
	token      int64
	now, lease int64

	rows    []*row
	refused []pawl.ID
}

// Claim gives due operations of the named tools to the caller. A row that fails its
// check, or whose contract does, is passed over: it loses its due time, is listed for
// review, and is told to Options.OnCorrupt.
func (db *DB) Claim(ctx context.Context, c pawl.Claim) ([]*pawl.Operation, error) {
	if c.Lease <= 0 {
		return nil, fmt.Errorf("sqlite: claim: lease of %v is not positive", c.Lease)
	}
	now := db.clock.now()
	x := &claiming{
		tools: c.Tools, limit: min(c.Limit, maxClaim), token: c.Token, now: micros(now), lease: micros(now.Add(c.Lease)),
	}
	if err := db.submit(ctx, x); err != nil {
		return nil, err
	}
	for _, id := range x.refused {
		db.opts.OnCorrupt(id, fmt.Errorf("sqlite: claim: row of %s failed its check and leaves the queue: %w", id, pawl.ErrCorrupt))
	}
	ops := make([]*pawl.Operation, 0, len(x.rows))
	for _, r := range x.rows {
		op, err := db.operation(context.WithoutCancel(ctx), r)
		if errors.Is(err, pawl.ErrCorrupt) && db.failure() == nil {
			// A row that could not be put aside comes again when this lease is over.
			failed := db.submit(context.WithoutCancel(ctx), newAside(r, x.now))
			db.opts.OnCorrupt(r.id, errors.Join(fmt.Errorf("claim: %w", err), failed))
			continue
		} else if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

func (c *claiming) apply(w *writer) error {
	c.rows, c.refused = nil, nil
	lanes, last, err := c.lanes(w)
	if err != nil {
		return err
	}
	for len(lanes) > 0 {
		due := lanes[:0]
		for _, lane := range lanes {
			if len(c.rows)+len(c.refused) >= c.limit {
				return nil
			}
			taken, err := c.takeHead(w, lane)
			if err != nil {
				return err
			}
			if taken {
				w.served = lane
				due = append(due, lane)
			}
		}
		lanes = due
	}
	w.served = last // every lane that was seen had its turn
	return nil
}

// lanes finds the lanes of the tools that have open or due operations, in the ring that
// begins behind the lane served last, and the last lane it looked at. A lane is found by
// one seek, whatever lies in it.
func (c *claiming) lanes(w *writer) (lanes []int64, last int64, err error) {
	last = w.served
	wrapped := false
	for range maxLanes {
		p := params{s: w.stmt.nextLane}
		p.int(last)
		lane, found, err := p.one()
		switch {
		case err != nil:
			return nil, 0, err
		case !found && !wrapped:
			wrapped, last = true, 0
			continue
		case !found, wrapped && lane > w.served:
			return lanes, last, nil
		}
		last = lane
		p = params{s: w.stmt.tool}
		p.int(lane)
		_, err = p.query(func(s *sqlite3.Stmt) {
			if slices.Contains(c.tools, s.ColumnText(0)) {
				lanes = append(lanes, lane)
			}
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return lanes, last, nil
}

// takeHead claims the oldest due operation of a lane and reports whether there was one.
func (c *claiming) takeHead(w *writer, lane int64) (bool, error) {
	p := params{s: w.stmt.head}
	p.int(lane)
	p.int(c.now)
	op, found, err := p.one()
	if !found || err != nil {
		return false, err
	}
	r, err := w.row(op)
	if err != nil {
		return false, err
	}
	if !r.sound() {
		c.refused = append(c.refused, r.id)
		p = params{s: w.stmt.refuse}
		p.int(op)
		p.int(c.now)
		return p.exec()
	}
	r.setClaim(c.token, instant(c.lease), instant(c.lease))
	c.rows = append(c.rows, r)
	p = params{s: w.stmt.claim}
	p.int(op)
	p.claimed(r)
	return p.exec()
}

// aside is the write that takes a claimed row out of the queue and into review.
type aside struct {
	header
	row *row
}

func newAside(r *row, now int64) *aside {
	if r.review == 0 {
		r.review = now
		r.stateSum = r.stateSeal()
	}
	r.setClaim(r.token, instant(r.lease), time.Time{})
	return &aside{row: r}
}

func (x *aside) apply(w *writer) error {
	p := params{s: w.stmt.aside}
	p.int(x.row.op)
	p.int(x.row.review)
	p.int(x.row.stateSum)
	p.int(x.row.claimSum)
	p.int(x.row.token)
	_, err := p.exec()
	return err
}

// renewal is the write of Renew.
type renewal struct {
	header
	row  row
	held bool
}

// Renew writes lease and due of an operation if its token is still the one given.
func (db *DB) Renew(ctx context.Context, id pawl.ID, token int64, lease, due time.Time) (bool, error) {
	x := &renewal{row: row{id: id}}
	x.row.setClaim(token, lease, due)
	if err := db.submit(ctx, x); err != nil {
		return false, err
	}
	return x.held, nil
}

func (x *renewal) apply(w *writer) (err error) {
	x.held = false
	op, found, err := w.opOf(&x.row.id)
	if !found || err != nil {
		return err
	}
	p := params{s: w.stmt.lease}
	p.int(op)
	p.claimed(&x.row)
	x.held, err = p.exec()
	return err
}
