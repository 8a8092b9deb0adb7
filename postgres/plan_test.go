package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/storetest"
)

// planNode is one step of a plan as EXPLAIN tells it.
type planNode struct {
	Type  string     `json:"Node Type"`
	Table string     `json:"Relation Name"`
	Index string     `json:"Index Name"`
	Hit   int64      `json:"Shared Hit Blocks"`
	Read  int64      `json:"Shared Read Blocks"`
	Plans []planNode `json:"Plans"`
}

// explain runs a statement, after some others in one transaction, and returns its plan; what
// it has written is rolled back.
func explain(t *testing.T, s *DB, before []statement, st statement) planNode {
	t.Helper()
	var text []byte
	err := s.lend(t.Context(), func(ctx context.Context, c *pgconn.PgConn) error {
		st.sql, st.kept = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+st.sql, false
		all := append(append([]statement{begin}, before...), st, rollback)
		found, err := exchange(ctx, c, all...)
		if err == nil {
			text = found[len(all)-2].rows[0][0]
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", st.sql, err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return plans[0].Plan
}

// steps lists what a plan reads and by which index.
func (n *planNode) steps() (list []string) {
	if n.Table != "" || n.Index != "" {
		list = append(list, strings.TrimSpace(n.Type+" "+n.Table+" "+n.Index))
	}
	for i := range n.Plans {
		list = append(list, n.Plans[i].steps()...)
	}
	return list
}

// settledRows fills a store with settled operations of 10 lanes, as they are after years.
func settledRows(t *testing.T, at string, s *DB, n int) {
	t.Helper()
	schema := s.opts.Schema
	id := func(kind string) string { return `CAST(md5('` + kind + `' || n) AS uuid)` }
	run(t, at, `INSERT INTO `+schema+`.lanes SELECT CAST(md5('lane' || n) AS uuid), 'tenant' || n, 'tool' || n FROM generate_series(0, 9) n`)
	run(t, at, fmt.Sprintf(`INSERT INTO %s.intents SELECT %s, CAST(md5('lane' || n %% 10) AS uuid), 'run' || n / 10, %s, 0, %s, repeat('i', 500), 0, 'e', 's' FROM generate_series(1, %d) n`,
		schema, id("id"), id("key"), id("identity"), n))
	run(t, at, fmt.Sprintf(`INSERT INTO %s.states SELECT %s, CAST(md5('lane' || n %% 10) AS uuid), %s, %s, NULL, 2, false, CASE n %% 50 WHEN 0 THEN 'FAILED_NO_EFFECT' ELSE 'SUCCEEDED' END,
		2, NULL, 'ref' || n, 0, 1, NULL, NULL, 0 FROM generate_series(1, %d) n`, schema, id("id"), id("step"), id("once"), n))
	run(t, at, fmt.Sprintf(`INSERT INTO %s.changes SELECT %s, 2, 'e', 's' FROM generate_series(1, %d) n`, schema, id("id"), n))
}

// TestPlans holds every statement to its indexes, with 100,000 settled rows and few open
// ones, whether the planner has looked at the tables or not, and to a number of pages that
// does not depend on how many rows there are.
func TestPlans(t *testing.T) {
	t.Parallel()
	at := pgtest.Database(t)
	s := openTest(t, at, nil)
	rows := 100_000
	if testing.Short() {
		rows = 10_000
	}
	run(t, at, fmt.Sprintf(`ALTER TABLE %[1]s.intents SET (autovacuum_enabled = off)`, s.opts.Schema))
	run(t, at, fmt.Sprintf(`ALTER TABLE %[1]s.states SET (autovacuum_enabled = off)`, s.opts.Schema))
	run(t, at, fmt.Sprintf(`ALTER TABLE %[1]s.changes SET (autovacuum_enabled = off)`, s.opts.Schema))
	begun(t, s, "before", 3) // plans are made while the tables are empty
	settledRows(t, at, s, rows)
	open := begun(t, s, "run", 20)
	for _, analysed := range []bool{false, true} {
		if analysed {
			run(t, at, `ANALYZE`)
		}
		for _, c := range planCases(t, s, open) {
			plan := explain(t, s, c.before, c.statement)
			steps := plan.steps()
			for _, step := range steps {
				for _, table := range []string{"Seq Scan intents", "Seq Scan states", "Seq Scan changes"} {
					if step == table {
						t.Errorf("%s (analysed: %t): the whole table is read: %q", c.name, analysed, steps)
					}
				}
			}
			if c.index != "" && !slices.ContainsFunc(steps, func(s string) bool { return strings.HasSuffix(s, " "+c.index) }) {
				t.Errorf("%s (analysed: %t): got %q, want %s", c.name, analysed, steps, c.index)
			}
			if pages := plan.Hit + plan.Read; pages > c.pages {
				t.Errorf("%s (analysed: %t): got %d pages, want at most %d: %q", c.name, analysed, pages, c.pages, steps)
			}
		}
	}
}

type planCase struct {
	name      string
	before    []statement
	statement statement
	index     string
	pages     int64
}

func planCases(t *testing.T, s *DB, open []*pawl.Operation) []planCase {
	t.Helper()
	expected := []byte(s.footing.Load().witness)
	pinned := []statement{pinPlans}
	var cases []planCase
	for _, n := range []int{1, 20} {
		var begins, applies, renews, doubts, applied []*tuple
		for i := range n {
			op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: "plan", Step: fmt.Sprint(i), Identity: fmt.Sprint("plan", i)})
			b, err := s.newBeginning(op, first)
			if err != nil {
				t.Fatal(err)
			}
			begins = append(begins, b.params)
			a, err := newApplication(storetest.Move(open[i], pawl.Succeeded, nil))
			if err != nil {
				t.Fatal(err)
			}
			applies = append(applies, a.params)
			renews = append(renews, (&row{id: open[i].ID, token: open[i].Token}).claimParams(open[i].Token))
			d := newTuple(2)
			d.uuid(open[i].ID)
			d.int(open[i].Token)
			doubts = append(doubts, d)
			x := newTuple(3)
			x.uuid(open[i].ID)
			x.int(2)
			x.document([]byte("{}"))
			applied = append(applied, x)
		}
		name := func(what string) string { return fmt.Sprintf("%s of %d", what, n) }
		cases = append(cases,
			planCase{name("begin"), pinned, s.sql.begin.over(begins, expected), "intents_identity", int64(60 * n)},
			planCase{name("apply"), pinned, s.sql.apply.over(applies, expected), "states_pkey", int64(60 * n)},
			planCase{name("renew"), pinned, s.sql.renew.over(renews, expected), "states_pkey", int64(40 * n)},
			planCase{name("confirm begin"), pinned, s.sql.confirmBegun.over(doubts), "states_pkey", int64(40 * n)},
			planCase{name("confirm apply"), pinned, s.sql.confirmApplied.over(applied), "states_pkey", int64(40 * n)},
		)
	}
	params := newTuple(3)
	params.uuid([16]byte{})
	params.uuid([16]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	params.int(maxRing)
	lane := laneOf("", "refund")
	soon := time.Now().Add(time.Hour).UnixMicro()
	cases = append(cases,
		planCase{"lanes", pinned, ask(s.sql.ring, []field{{"", kindUUID}, {"", kindUUID}, {"", kindInt}}, params), "states_due", 60},
		planCase{"candidates", pinned, statement{
			sql:    s.sql.candidates,
			params: [][]byte{uuids([][16]byte{lane}), bigEndian(soon), uuids(nil), bigEndian(10), bigEndian(10)},
			oids:   []uint32{kindUUID.array, kindInt.oid, kindUUID.array, kindInt.oid, kindInt.oid},
		}, "states_due", 60},
		planCase{"lock", pinned, statement{
			sql: s.sql.lock, params: [][]byte{uuids([][16]byte{open[0].ID, open[1].ID}), bigEndian(soon)}, oids: []uint32{kindUUID.array, kindInt.oid},
		}, "", 60},
		planCase{"locked", pinned, statement{
			sql: s.sql.locked, params: [][]byte{uuids([][16]byte{open[0].ID, open[1].ID})}, oids: []uint32{kindUUID.array},
		}, "intents_pkey", 80},
	)
	ref := pawl.Query{Ref: "ref77", AllTenants: true}
	for name, q := range map[string]struct {
		pawl.Query
		index string
		pages int64
	}{
		"open":                {pawl.Query{Open: true}, "states_due", 600},
		"open of all tenants": {pawl.Query{Open: true, AllTenants: true}, "states_due", 600},
		"pending":             {pawl.Query{Status: pawl.Pending}, "states_due", 600},
		"review":              {pawl.Query{Review: true}, "states_review", 60},
		"key":                 {pawl.Query{Key: open[0].Key.String()}, "intents_key", 60},
		"identity":            {pawl.Query{IdentityClaim: open[0].IdentityClaim}, "intents_identity", 60},
		"run":                 {pawl.Query{Run: "run"}, "intents_run", 600},
		"ref":                 {ref, "states_ref", 60},
		"newest":              {pawl.Query{AllTenants: true}, "intents_pkey", 2000},
		"newest of a tenant":  {pawl.Query{Tenant: "tenant7"}, "intents_lane", 2000},
		"newest of a tool":    {pawl.Query{Tool: "tool7", AllTenants: true}, "intents_lane", 2000},
		"review for a reason": {pawl.Query{ReviewReason: pawl.ReasonCandidate}, "states_review", 60},
		"failed":              {pawl.Query{Tenant: "tenant0", Status: pawl.FailedNoEffect}, "states_failed", 2000},
		"page":                {pawl.Query{Tenant: "tenant7", Before: open[0].ID}, "intents_lane", 2000},
	} {
		l, err := newListing(q.Query)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, planCase{name, pinned, l.statement(s.opts.Schema), q.index, q.pages})
	}
	b, err := s.newBeginning(open[0], []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	id := newTuple(2)
	id.uuid(open[0].ID)
	id.name("")
	cases = append(cases,
		planCase{"standing", pinned, ask(s.sql.standing, standingFields, b.standingParams()), "intents_identity", 80},
		planCase{"tally", pinned, tallyOf(s.opts.Schema, soon), "states_due", 600},
		planCase{"operation", pinned, ask(s.sql.operation, []field{{"", kindUUID}, {"", kindText}}, id), "intents_pkey", 40},
	)
	return cases
}
