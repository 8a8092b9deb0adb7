package sqlite

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

const (
	defaultLimit = 50
	maxLimit     = 1000
)

// Find lists operations, the one begun last first. A row that fails its check, or whose
// contract does, is listed as UNKNOWN with reason row_refused, and told to
// Options.OnCorrupt.
func (db *DB) Find(ctx context.Context, q pawl.Query) ([]*pawl.Operation, error) {
	l, err := newListing(q)
	if err != nil {
		return nil, fmt.Errorf("sqlite: find: %w", err)
	}
	var rows []*row
	err = db.read(ctx, func(r *reader) error {
		return r.query(l.sql(), l.bind, func(s *sqlite3.Stmt) { rows = append(rows, scan(s)) })
	})
	if err != nil {
		return nil, err
	}
	ops := make([]*pawl.Operation, len(rows))
	for i, r := range rows {
		if ops[i], err = db.shown(ctx, "find", r); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// listing is the statement for one query. The first filter that has an index decides
// which is used; it is named in the statement, so that no statistics change the plan. Of an
// index that holds few rows that match, all of them are taken; where there may be many, the
// newest are read lane by lane.
type listing struct {
	from  string   // the tables, the one with the index of few first
	walk  string   // an index of states in which the rows of a lane lie in the order of op
	first string   // the table that has the index: intents i, or states s, which then does without i
	where []string // conditions on intents i and states s
	args  []any    // int64, string or []byte, in the order of where

	lanes    string // condition on the lanes l; empty means all
	laneArgs []any
	limit    int64
}

// reviewReason is why a person is asked.
const reviewReason = `coalesce((SELECT state FROM changes WHERE line = s.op << 20 | s.version), (SELECT state FROM intents WHERE op = s.op)) ->> '$.review_reason'`

func newListing(q pawl.Query) (*listing, error) {
	l := &listing{first: "i", limit: int64(q.Limit)}
	if q.Limit <= 0 {
		l.limit = defaultLimit
	}
	l.limit = min(l.limit, maxLimit)
	if q.Key != "" {
		key, err := hex.DecodeString(q.Key)
		if err != nil || len(key) != 16 {
			return nil, fmt.Errorf("key: want 32 hex digits, got %d characters", len(q.Key))
		}
		l.intents("intents_key", "i.key = ?", key)
	}
	if claimed(q.IdentityClaim) {
		l.claims("c.claim = ? AND c.n >= 0", q.IdentityClaim[:])
		l.add("i.identity_claim = ?", q.IdentityClaim[:])
	}
	if q.Ref != "" {
		l.states("states_ref", "s.ref = ?", q.Ref)
	}
	if q.Run != "" {
		place := pawl.RunPlace(q.Run)
		l.claims("c.claim BETWEEN ? AND ?", place[:], append(place[:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"...))
		l.add("(SELECT run FROM intents WHERE op = s.op) = ?", q.Run)
	}
	if q.Review || q.ReviewReason != "" {
		l.newest("states_review", "s.review IS NOT NULL")
	}
	if q.ReviewReason != "" {
		l.add(reviewReason+" = ?", string(q.ReviewReason))
	}
	if q.Open {
		l.states("states_due", "s.open AND (s.open OR s.due IS NOT NULL)")
	}
	switch q.Status {
	case "":
	case pawl.Prepared, pawl.Pending, pawl.Unknown:
		l.states("states_due", "s.status = ? AND s.open AND (s.open OR s.due IS NOT NULL)", string(q.Status))
	case pawl.FailedNoEffect, pawl.Compensated:
		l.newest("states_failed", "s.status = '"+string(q.Status)+"'")
	case pawl.Succeeded:
		l.add("s.status = ?", string(q.Status))
	default:
		return nil, fmt.Errorf("status: there is no %q", q.Status)
	}
	if q.Before != (pawl.ID{}) {
		l.add(l.first+".op < (SELECT op FROM intents WHERE id = ?)", q.Before[:])
	}
	if !q.AllTenants {
		l.lanes, l.laneArgs = "l.tenant = ?", append(l.laneArgs, q.Tenant)
	}
	if q.Tool != "" {
		l.lanes, l.laneArgs = strings.TrimPrefix(l.lanes+" AND l.tool = ?", " AND "), append(l.laneArgs, q.Tool)
	}
	return l, nil
}

func (l *listing) add(condition string, args ...any) {
	l.where, l.args = append(l.where, condition), append(l.args, args...)
}

func (l *listing) claims(condition string, args ...any) {
	if l.from == "" {
		l.from = "(SELECT DISTINCT c.op FROM claims c WHERE " + condition + ") c CROSS JOIN intents i ON i.op = c.op CROSS JOIN states s ON s.op = c.op"
		l.args = append(args, l.args...)
	}
}

func (l *listing) intents(index, condition string, args ...any) {
	if l.from == "" {
		l.from = "intents i INDEXED BY " + index + " CROSS JOIN states s ON s.op = i.op"
	}
	l.add(condition, args...)
}

func (l *listing) states(index, condition string, args ...any) {
	if l.from == "" && l.walk == "" {
		l.from, l.first = "states s INDEXED BY "+index, "s"
	}
	l.add(condition, args...)
}

func (l *listing) newest(index, condition string) {
	if l.from == "" && l.walk == "" {
		l.walk, l.first = index, "s"
	}
	l.add(condition)
}

// sql selects the numbers of the newest operations first and reads those rows alone.
func (l *listing) sql() string {
	where := strings.Join(append([]string{"1"}, l.where...), " AND ")
	var newest string
	switch {
	case l.from != "" && l.lanes == "":
		newest = "SELECT " + l.first + ".op FROM " + l.from + " WHERE " + where
	case l.from != "":
		newest = "SELECT " + l.first + ".op FROM " + l.from + " CROSS JOIN lanes l ON l.lane = " + l.first + ".lane WHERE " + where + " AND " + l.lanes
	case l.walk != "":
		newest = l.ofEachLane("SELECT s.op FROM states s INDEXED BY " + l.walk + " WHERE s.lane = l.lane AND " + where + " ORDER BY s.op")
	case l.lanes == "":
		newest = "SELECT i.op FROM intents i NOT INDEXED CROSS JOIN states s ON s.op = i.op WHERE " + where
	default:
		newest = l.ofEachLane("SELECT i.op FROM intents i INDEXED BY intents_lane CROSS JOIN states s ON s.op = i.op WHERE i.lane = l.lane AND " + where + " ORDER BY i.op")
	}
	return "SELECT " + columns + " FROM " + joined + " WHERE i.op IN (" + newest + " ORDER BY 1 DESC LIMIT ?) ORDER BY i.op DESC"
}

// ofEachLane selects the newest of each lane.
func (l *listing) ofEachLane(ops string) string {
	newest := "SELECT n.op AS op FROM lanes l CROSS JOIN intents n WHERE n.op IN (" + ops + " DESC LIMIT ?)"
	if l.lanes != "" {
		newest += " AND " + l.lanes
	}
	return newest
}

func (l *listing) bind(p *params) {
	args := append([]any{}, l.args...)
	if l.walk != "" || l.from == "" && l.lanes != "" {
		args = append(args, l.limit)
	}
	for _, a := range append(append(args, l.laneArgs...), l.limit) {
		switch a := a.(type) {
		case int64:
			p.int(a)
		case string:
			p.text(a)
		case []byte:
			p.blob(a)
		}
	}
}
