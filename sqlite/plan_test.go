package sqlite

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// plan is what SQLite would do for a statement.
func plan(t *testing.T, db *DB, sql string) (steps []string) {
	t.Helper()
	c, err := db.connect("")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, _, err := c.Prepare(`EXPLAIN QUERY PLAN ` + sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer s.Close()
	for s.Step() {
		steps = append(steps, s.ColumnText(3))
	}
	return steps
}

func TestPlans(t *testing.T) {
	t.Parallel()
	db := openTest(t, newPath(t), small())
	for _, sql := range []string{
		selectNewest, selectByKey, selectByStep, selectByOnce, selectBySubject, selectByOp, selectByID, selectLane, selectTool,
		selectNextLane, selectHead, selectVersion, deleteIntent, updateState, updateClaim, updateRefused, updateAside, updateLease,
		selectOperation, selectFirst, selectLater, selectContract,
	} {
		for _, step := range plan(t, db, sql) {
			if !strings.HasPrefix(step, "SEARCH") {
				t.Errorf("%s: got %q, want only searches", sql, step)
			}
		}
	}
	for _, sql := range []string{selectTally, selectNumbered} {
		for _, step := range plan(t, db, sql) {
			if strings.HasPrefix(step, "SCAN") && step != "SCAN s USING INDEX states_due" {
				t.Errorf("%s: got %q, want the open operations alone", sql, step)
			}
		}
	}
	for _, q := range []struct {
		name  string
		query pawl.Query
		want  string // how the operations are found
	}{
		{"tenant", pawl.Query{}, "SEARCH i USING COVERING INDEX intents_lane (lane=?)"},
		{"tool", pawl.Query{Tool: "refund"}, "SEARCH i USING COVERING INDEX intents_lane (lane=?)"},
		{"tool of all tenants", pawl.Query{Tool: "refund", AllTenants: true}, "SEARCH i USING COVERING INDEX intents_lane (lane=?)"},
		{"key", pawl.Query{Key: strings.Repeat("0", 32), Open: true}, "SEARCH i USING INDEX intents_key (key=?)"},
		{"identity", pawl.Query{IdentityClaim: pawl.Digest{1}, Run: "r"}, "SEARCH c USING PRIMARY KEY (claim=? AND n>?)"},
		{"run", pawl.Query{Run: "r", Status: pawl.Succeeded}, "SEARCH c USING PRIMARY KEY (claim>? AND claim<?)"},
		{"ref", pawl.Query{Ref: "r"}, "SEARCH s USING INDEX states_ref (ref=?)"},
		{"open", pawl.Query{Open: true}, "SCAN s USING INDEX states_due"},
		{"unknown", pawl.Query{Status: pawl.Unknown}, "SCAN s USING INDEX states_due"},
		{"failed", pawl.Query{Status: pawl.FailedNoEffect}, "SEARCH s USING COVERING INDEX states_failed (lane=? AND status=?)"},
		{"review", pawl.Query{Review: true}, "SEARCH s USING INDEX states_review (lane=?)"},
		{"review of all tenants for a reason", pawl.Query{Review: true, AllTenants: true, ReviewReason: pawl.ReasonCandidate}, "SEARCH s USING INDEX states_review (lane=?)"},
		{"failed of all tenants", pawl.Query{AllTenants: true, Status: pawl.Compensated}, "SEARCH s USING COVERING INDEX states_failed (lane=? AND status=?)"},
	} {
		l, err := newListing(q.query)
		if err != nil {
			t.Fatal(err)
		}
		steps := plan(t, db, l.sql())
		found := false
		for _, step := range steps {
			found = found || strings.HasPrefix(step, q.want)
			// Partial indexes hold few rows and the lanes are few; the tables are not.
			if step == "SCAN i" || step == "SCAN s" || step == "SCAN intents" || step == "SCAN states" {
				t.Errorf("%s: the whole table is read: %q", q.name, steps)
			}
		}
		if !found {
			t.Errorf("%s: got %q, want %q", q.name, steps, q.want)
		}
	}
}
