package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

const (
	defaultLimit = 50
	maxLimit     = 1000
)

// Find lists operations, newest first by their ids. A row that fails its check, or whose
// contract does, is listed as UNKNOWN with reason row_refused, and told to
// Options.OnCorrupt.
func (db *DB) Find(ctx context.Context, q pawl.Query) ([]*pawl.Operation, error) {
	l, err := newListing(q)
	if err != nil {
		return nil, fmt.Errorf("postgres: find: %w", err)
	}
	ask := l.statement(db.opts.Schema)
	var rows []*row
	err = db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
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
		if ops[i], err = db.shown(ctx, "find", r); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// listing is the statement for one query. Where an index holds few rows that match, all of
// them are taken from it before anything else is looked at, whatever the planner thinks of
// the order and the limit; otherwise the newest rows are read, lane by lane.
type listing struct {
	few   string   // a condition on few rows of intents i or states s
	of    string   // the table of few, with its alias
	walk  bool     // states has an index in which those of a lane lie in the order of id
	where []string // further conditions on intents i and states s
	lanes []string // conditions on the lanes l; none means all lanes
	limit int64

	params *tuple
	oids   []uint32
}

// reviewReason is why a person is asked.
const reviewReason = `CAST(coalesce((SELECT c.state FROM {schema}.changes c WHERE c.id = s.id AND c.version = s.version),
	(SELECT n.state FROM {schema}.intents n WHERE n.id = s.id)) AS json) ->> 'review_reason'`

func newListing(q pawl.Query) (*listing, error) {
	l := &listing{limit: int64(q.Limit), params: newTuple(10)}
	if q.Limit <= 0 {
		l.limit = defaultLimit
	}
	l.limit = min(l.limit, maxLimit)
	if q.Key != "" {
		key, err := hex.DecodeString(q.Key)
		if err != nil || len(key) != 16 {
			return nil, fmt.Errorf("key: want 32 hex digits, got %d characters", len(q.Key))
		}
		l.index("intents i", "i.key = "+l.uuid([16]byte(key)))
	}
	if claimed(q.IdentityClaim) {
		l.index("intents i", "i.identity_claim = "+l.uuid(q.IdentityClaim))
	}
	if q.Ref != "" {
		ref := l.text(q.Ref)
		l.index("states s", "s.ref = "+ref+" AND left(s.ref, 200) = left("+ref+", 200)")
	}
	switch run := l.named(q.Run); {
	case run == "":
	case l.of == "states s":
		l.where = append(l.where, "(SELECT n.run FROM {schema}.intents n WHERE n.id = s.id) = "+run)
	default:
		l.index("intents i", "i.run = "+run+" AND i.run <> ''")
	}
	if q.Review || q.ReviewReason != "" {
		l.newest("s.review IS NOT NULL")
	}
	if q.ReviewReason != "" {
		l.where = append(l.where, reviewReason+" = "+l.text(string(q.ReviewReason)))
	}
	if q.Open {
		l.index("states s", "s.open AND (s.open OR s.due IS NOT NULL)")
	}
	switch q.Status {
	case "":
	case pawl.Prepared, pawl.Pending, pawl.Unknown:
		l.index("states s", "s.status = "+l.text(string(q.Status))+" AND s.open AND (s.open OR s.due IS NOT NULL)")
	case pawl.FailedNoEffect, pawl.Compensated:
		l.newest("s.status = " + l.text(string(q.Status)) + " AND (s.status = 'FAILED_NO_EFFECT' OR s.status = 'COMPENSATED')")
	case pawl.Succeeded:
		status := "s.status"
		if l.of == "" && !l.walk {
			status = "(SELECT s.status FROM {schema}.states s WHERE s.id = i.id)"
		}
		l.where = append(l.where, status+" = "+l.text(string(q.Status)))
	default:
		return nil, fmt.Errorf("status: there is no %q", q.Status)
	}
	if q.Before != (pawl.ID{}) {
		l.where = append(l.where, "{id} < "+l.uuid(q.Before))
	}
	if !q.AllTenants {
		l.lanes = append(l.lanes, "l.tenant = "+l.text(q.Tenant))
	}
	if q.Tool != "" {
		l.lanes = append(l.lanes, "l.tool = "+l.text(q.Tool))
	}
	return l, nil
}

// param adds a parameter and returns its place.
func (l *listing) param(k kind) string {
	l.oids = append(l.oids, k.oid)
	return fmt.Sprintf("$%d", len(l.oids))
}

func (l *listing) uuid(v [16]byte) string {
	l.params.uuid(v)
	return l.param(kindUUID)
}

func (l *listing) text(v string) string {
	l.params.name(v)
	return l.param(kindText)
}

// named is the place of a text; empty for none.
func (l *listing) named(v string) string {
	if v == "" {
		return ""
	}
	return l.text(v)
}

// index adds a condition that few rows of a table meet. The first one decides.
func (l *listing) index(table, condition string) {
	if l.of == "" && !l.walk {
		l.of, l.few = table, condition
		return
	}
	l.where = append(l.where, condition)
}

// newest adds a condition that many rows of states may meet; it has an index.
func (l *listing) newest(condition string) {
	l.walk = l.of == ""
	l.where = append(l.where, condition)
}

// statement selects the ids of the newest operations first and reads those rows alone.
func (l *listing) statement(schema string) statement {
	where := func(id string, conditions ...string) string {
		return strings.ReplaceAll(strings.Join(append(conditions, l.where...), " AND "), "{id}", id)
	}
	lanes := strings.Join(append([]string{"true"}, l.lanes...), " AND ")
	var newest string
	switch {
	case l.of == "states s":
		newest = "WITH few AS MATERIALIZED (SELECT * FROM {schema}.states s WHERE " + l.few + ") " +
			"SELECT s.id FROM few s JOIN {schema}.lanes l ON l.lane = s.lane WHERE " + where("s.id", lanes) + " ORDER BY s.id DESC LIMIT {limit}"
	case l.of != "":
		newest = "WITH few AS MATERIALIZED (SELECT * FROM {schema}.intents i WHERE " + l.few + ") " +
			"SELECT i.id FROM few i CROSS JOIN LATERAL (SELECT * FROM {schema}.states s WHERE s.id = i.id LIMIT 1) s JOIN {schema}.lanes l ON l.lane = i.lane" +
			" WHERE " + where("i.id", lanes) + " ORDER BY i.id DESC LIMIT {limit}"
	case l.walk:
		newest = "SELECT n.id FROM {schema}.lanes l CROSS JOIN LATERAL (SELECT s.id FROM {schema}.states s" +
			" WHERE " + where("s.id", "s.lane = l.lane") + " ORDER BY s.id DESC LIMIT {limit}) n WHERE " + lanes + " ORDER BY n.id DESC LIMIT {limit}"
	case len(l.lanes) == 0:
		newest = "SELECT i.id FROM {schema}.intents i WHERE " + where("i.id", "true") + " ORDER BY i.id DESC LIMIT {limit}"
	default:
		newest = "SELECT n.id FROM {schema}.lanes l CROSS JOIN LATERAL (SELECT i.id FROM {schema}.intents i" +
			" WHERE " + where("i.id", "i.lane = l.lane") + " ORDER BY i.id DESC LIMIT {limit}) n WHERE " + lanes + " ORDER BY n.id DESC LIMIT {limit}"
	}
	// The limit is no parameter: the planner would guess it, and expect thousands of rows.
	sql := strings.NewReplacer("{limit}", strconv.FormatInt(l.limit, 10), "{schema}", schema).Replace(
		"SELECT " + columns + " FROM (" + newest + ") f JOIN " + sources + " ON i.id = f.id ORDER BY i.id DESC")
	return statement{sql: sql, params: l.params.values, oids: l.oids}
}
