package sqlite

import (
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestOpenTogether has several openers make one new store. None of them may take the
// log that another is about to make for one that was lost.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	for range 3 {
		path := newPath(t)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				db, err := Open(path, small())
				if err != nil {
					t.Error(err)
					return
				}
				if why := db.Recovery(); why != nil {
					t.Errorf("got recovery %v, want none", why)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// TestRunCalledOffElsewhere has another connection call off a run that the writer has seen
// open: the next operation in it does not begin.
func TestRunCalledOffElsewhere(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	here, there := openTest(t, path, small()), openTest(t, path, small())
	begin := func(identity string) *pawl.Standing {
		t.Helper()
		op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: "run-1", Identity: identity})
		standing, err := here.Begin(t.Context(), op, first)
		if err != nil {
			t.Fatal(err)
		}
		return standing
	}
	for _, identity := range []string{"A", "B", "C"} {
		if standing := begin(identity); standing != nil {
			t.Fatalf("begin %s: got %v in the way", identity, standing.Kind)
		}
	}
	run, err := there.GetRun(t.Context(), "", "run-1")
	if err != nil {
		t.Fatal(err)
	}
	run.Status, run.Version = pawl.RunAborting, run.Version+1
	if err := there.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if standing := begin("D"); standing == nil || standing.Kind != pawl.ClaimRun {
		t.Errorf("got %v, want the run in the way", standing)
	}
}
