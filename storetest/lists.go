package storetest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// MaxListTime is how long a page of any list may take to be read.
const MaxListTime = 20 * time.Millisecond

// Lists fills an empty store with as many operations as PAWL_LIST_ROWS says, most of them
// settled, and fails where the fastest of some readings of a page is over MaxListTime: what
// else the machine does only adds to it. It skips where the variable is not set: a million
// rows take minutes.
func Lists(t *testing.T, s pawl.Store, fill func(t *testing.T, s pawl.Store, ops []*pawl.Operation, first [][]byte)) {
	rows, err := strconv.Atoi(os.Getenv("PAWL_LIST_ROWS"))
	if err != nil {
		t.Skip("PAWL_LIST_ROWS says how many operations to list; the promise is for 1000000")
	}
	middle := fillLists(t, s, rows, fill)
	for name, q := range map[string]pawl.Query{
		"all": {AllTenants: true}, "tenant": {Tenant: "t1"}, "tool": {Tenant: "t1", Tool: "tool-3"},
		"run": {Tenant: "t1", Run: "run-1"}, "key": {Tenant: "t1", Key: middle.Key.String()}, "ref": {Tenant: "t1", Ref: "ref-7012"},
		"succeeded": {Tenant: "t1", Status: pawl.Succeeded}, "failed": {Tenant: "t1", Status: pawl.FailedNoEffect},
		"unknown": {Tenant: "t1", Status: pawl.Unknown}, "prepared": {Tenant: "t1", Status: pawl.Prepared}, "compensated": {Tenant: "t1", Status: pawl.Compensated},
		"open": {Tenant: "t1", Open: true}, "reviews": {Tenant: "t1", Review: true}, "reviews of everybody": {AllTenants: true, Review: true},
		"reviews for a reason": {Tenant: "t1", ReviewReason: pawl.ReasonApprovalNeeded}, "reviews for no reason of these": {Tenant: "t1", ReviewReason: pawl.ReasonCandidate},
		"reviews of a tool": {Tenant: "t1", Tool: "tool-3", Review: true}, "reviews that need a yes": {Tenant: "t1", Status: pawl.Prepared, Review: true},
		"from the middle": {Tenant: "t1", Before: middle.ID}, "reviews from the middle": {Tenant: "t1", Review: true, Before: middle.ID},
		"failed of a tool from the middle": {Tenant: "t1", Tool: "tool-3", Status: pawl.FailedNoEffect, Before: middle.ID},
	} {
		t.Run(name, func(t *testing.T) {
			q.Limit = 50
			measure(t, func() (int, error) {
				ops, err := s.Find(t.Context(), q)
				return len(ops), err
			})
		})
	}
	t.Run("history", func(t *testing.T) {
		measure(t, func() (int, error) {
			entries, err := s.History(t.Context(), middle.Tenant, middle.ID)
			return len(entries), err
		})
	})
	t.Run("tally", func(t *testing.T) {
		measure(t, func() (int, error) {
			tallies, err := s.Tally(t.Context())
			return len(tallies), err
		})
	})
	for name, q := range map[string]pawl.RunQuery{
		"runs": {Tenant: "t1"}, "runs of everybody": {AllTenants: true}, "runs that are called off": {Tenant: "t1", Status: pawl.RunAborted},
		"runs from the middle": {Tenant: "t1", Before: middle.Run, BeforeTenant: middle.Tenant},
	} {
		t.Run(name, func(t *testing.T) {
			q.Limit = 50
			measure(t, func() (int, error) {
				runs, err := s.FindRuns(t.Context(), q)
				return len(runs), err
			})
		})
	}
}

// fillLists writes operations of four tenants and eight tools, ten a run, and returns one
// from the middle that belongs to t1.
func fillLists(t *testing.T, s pawl.Store, rows int, fill func(t *testing.T, s pawl.Store, ops []*pawl.Operation, first [][]byte)) (middle *pawl.Operation) {
	t.Helper()
	begun := now(t, s).Add(-time.Duration(rows) * time.Millisecond)
	const chunk = 20_000
	for from := 0; from < rows; from += chunk {
		var ops []*pawl.Operation
		var firsts [][]byte
		for i := from; i < min(rows, from+chunk); i++ {
			op, first := Op(Seed{
				Tenant: fmt.Sprint("t", i/10%4), Tool: fmt.Sprint("tool-", i%8), Run: fmt.Sprint("run-", i/10), Step: fmt.Sprint(i), Identity: fmt.Sprint(i),
				At: begun.Add(time.Duration(i) * time.Millisecond),
			})
			op.Lease, op.Due, op.Ref = time.Time{}, time.Time{}, fmt.Sprint("ref-", i)
			op.Status, op.Reason, op.SettledBy = pawl.Succeeded, pawl.ReasonConfirmed, pawl.ByAnswer
			switch {
			case i%97 == 7:
				op.Status, op.Reason = pawl.FailedNoEffect, pawl.ReasonRejected
			case i%997 == 13:
				op.Status, op.Reason, op.SettledBy, op.Ref = pawl.Unknown, pawl.ReasonAmbiguous, "", ""
				op.Review, op.ReviewReason = op.Created, pawl.ReasonAmbiguous
			case i%1999 == 31:
				op.Status, op.Reason, op.SettledBy, op.Ref, op.Attempts = pawl.Prepared, pawl.ReasonApprovalNeeded, "", "", nil
				op.Review, op.ReviewReason = op.Created, pawl.ReasonApprovalNeeded
			}
			if middle == nil && i >= rows/2 && op.Tenant == "t1" {
				middle = op
			}
			ops, firsts = append(ops, op), append(firsts, first)
		}
		fill(t, s, ops, firsts)
	}
	if middle == nil {
		t.Fatal("there are too few rows")
	}
	return middle
}

// measure reads a page some times and holds the fastest to the limit.
func measure(t *testing.T, page func() (int, error)) {
	t.Helper()
	const times = 15
	took := make([]time.Duration, times)
	n := 0
	for i := range took {
		began := time.Now()
		var err error
		if n, err = page(); err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	t.Logf("%d rows, fastest %v, median %v", n, took[0], took[times/2])
	if took[0] > MaxListTime {
		t.Errorf("got a fastest of %v, want at most %v", took[0], MaxListTime)
	}
}
