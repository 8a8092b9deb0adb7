// Package storetest holds the one suite that every pawl.Store must pass, operations to
// test with, and Memory, a store for simulations that passes the suite too.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// Options says what a store does not do as the others. A zero field asks for the default.
type Options struct {
	// Rows is the number of rows that may not be touched in front of one that may, a tenth
	// of it where the rows are of another tool or never due; 0 means 100,000, or 2,000 with
	// -short.
	Rows int
	// Fill writes operations that nobody waits for one by one, to fill a store with Rows;
	// nil uses Begin.
	Fill func(t *testing.T, s pawl.Store, ops []*pawl.Operation, first [][]byte)
	// Work counts the work that the store has done, such as steps of its query machine, so
	// that a Claim can be held to what it may cost. Nil leaves that out.
	Work func(s pawl.Store) int64
}

// Run holds a store to what pawl.Store promises. open gives an empty store of its own to
// each test and closes it when the test ends; closing it earlier must be allowed.
func Run(t *testing.T, open func(t *testing.T) pawl.Store, o *Options) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Rows == 0 {
		opts.Rows = 100_000
		if testing.Short() {
			opts.Rows = 2_000
		}
	}
	s := suite{open: open, opts: opts}
	for _, group := range []struct {
		name string
		run  func(*testing.T, suite)
	}{
		{"Begin", testBegin}, {"Standing", testStanding}, {"Apply", testApply}, {"RoundTrip", testRoundTrip},
		{"Claim", testClaim}, {"Renew", testRenew}, {"Untouchable", testUntouchable}, {"History", testHistory},
		{"Find", testFind}, {"Reviews", testReviews}, {"Decisions", testDecisions}, {"Tenants", testTenants}, {"Races", testRaces}, {"Context", testContext},
		{"Now", testNow}, {"Close", testClose}, {"Runs", testRuns}, {"Tally", testTally}, {"Prune", testPrune},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			group.run(t, s)
		})
	}
}

type suite struct {
	open func(t *testing.T) pawl.Store
	opts Options
}

// test runs one case on a store of its own.
func (s suite) test(t *testing.T, name string, run func(t *testing.T, store pawl.Store)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		run(t, s.open(t))
	})
}

// begin begins an operation that nothing stands in the way of.
func begin(t *testing.T, s pawl.Store, seed Seed) *pawl.Operation {
	t.Helper()
	op, first := Op(seed)
	standing, err := s.Begin(t.Context(), op, first)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	if standing != nil {
		t.Fatalf("begin: got standing by %s, want none", standing.Kind)
	}
	return op
}

// move applies a change that must be taken.
func move(t *testing.T, s pawl.Store, op *pawl.Operation, to pawl.Status, edit func(*pawl.State)) {
	t.Helper()
	c := Move(op, to, edit)
	if err := s.Apply(t.Context(), c); err != nil {
		t.Fatalf("apply %s: %v", to, err)
	}
	op.State = *c.State
}

func get(t *testing.T, s pawl.Store, op *pawl.Operation) *pawl.Operation {
	t.Helper()
	got, err := s.Get(t.Context(), op.Tenant, op.ID)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return got
}

func claim(t *testing.T, s pawl.Store, c pawl.Claim) []*pawl.Operation {
	t.Helper()
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	if c.Token == 0 {
		c.Token = 100
	}
	ops, err := s.Claim(t.Context(), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return ops
}

func find(t *testing.T, s pawl.Store, q pawl.Query) []*pawl.Operation {
	t.Helper()
	ops, err := s.Find(t.Context(), q)
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	return ops
}

func now(t *testing.T, s pawl.Store) time.Time {
	t.Helper()
	at, err := s.Now(t.Context())
	if err != nil {
		t.Fatalf("now: %v", err)
	}
	return at
}

// due is a seed whose lease is over by the given time.
func due(s Seed, by time.Duration, at time.Time) Seed {
	s.At, s.Lease = at.Add(-by-time.Minute), time.Minute
	return s
}

func identities(ops []*pawl.Operation) []pawl.ID {
	ids := make([]pawl.ID, len(ops))
	for i, op := range ops {
		ids[i] = op.ID
	}
	return ids
}

// cancelled is a context that has ended.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
