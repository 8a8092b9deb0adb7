package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

func testRuns(t *testing.T, s suite) {
	s.test(t, "the first operation makes the record", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "book", Tenant: "a", Run: "run-1", Step: "1", Identity: "x"})
		begin(t, store, Seed{Tool: "book", Tenant: "a", Run: "run-1", Step: "2", Identity: "y"})
		begin(t, store, Seed{Tool: "book", Tenant: "a", Identity: "z"})
		want := &pawl.Run{Tenant: "a", ID: "run-1", Actor: op.Actor, Status: pawl.RunOpen, Version: 1, Created: op.Created, Updated: op.Created}
		if d := cmp.Diff(want, getRun(t, store, "a", "run-1")); d != "" {
			t.Errorf("record (-want +got):\n%s", d)
		}
		for _, x := range []struct{ tenant, run string }{{"b", "run-1"}, {"", "run-1"}, {"a", "run-2"}, {"a", ""}} {
			if r, err := store.GetRun(t.Context(), x.tenant, x.run); !errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("get %+v: got %v, %v; want ErrNotFound", x, r, err)
			}
		}
	})
	s.test(t, "each write names its version", func(t *testing.T, store pawl.Store) {
		r := &pawl.Run{Tenant: "a", ID: "run-1", Status: pawl.RunOpen, Version: 1, Created: now(t, store)}
		if err := store.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := store.PutRun(t.Context(), r); !errors.Is(err, pawl.ErrStale) {
			t.Errorf("the same version again: got %v, want ErrStale", err)
		}
		r.Version, r.Plan = 3, &pawl.Plan{Steps: []pawl.PlanStep{{Step: "1", Tool: "book", MayFail: true}}}
		if err := store.PutRun(t.Context(), r); !errors.Is(err, pawl.ErrStale) {
			t.Errorf("a version too far: got %v, want ErrStale", err)
		}
		r.Version = 2
		if err := store.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, getRun(t, store, "a", "run-1")); d != "" {
			t.Errorf("record (-want +got):\n%s", d)
		}
		r = &pawl.Run{ID: "\xff\x00\\x", Status: pawl.RunOpen, Version: 1, Created: now(t, store)}
		if err := store.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := getRun(t, store, "", r.ID); got.ID != r.ID {
			t.Errorf("got id %q, want %q", got.ID, r.ID)
		}
	})
	s.test(t, "nothing begins in a run that is called off", testCalledOff)
	s.test(t, "a plan keeps out what was not held to it", func(t *testing.T, store pawl.Store) {
		if err := store.PutRun(t.Context(), &pawl.Run{ID: "run-1", Status: pawl.RunOpen, Version: 1, Plan: &pawl.Plan{}, Created: now(t, store)}); err != nil {
			t.Fatal(err)
		}
		if got := tryBegin(t, store, Seed{Tool: "book", Run: "run-1", Identity: "x"}, nil); got == nil || got.Kind != pawl.ClaimRun || got.Run.Plan == nil {
			t.Errorf("got standing %+v, want the planned run", got)
		}
		if got := tryBegin(t, store, Seed{Tool: "book", Run: "run-1", Identity: "x"}, func(op *pawl.Operation) { op.Planned = true }); got != nil {
			t.Errorf("held to the plan: got standing by %s, want none", got.Kind)
		}
	})
	s.test(t, "a call off meets every operation or keeps it out", testAbortRace)
	s.test(t, "lists and pages", testFindRuns)
	s.test(t, "claims", testClaimRuns)
}

func getRun(t *testing.T, s pawl.Store, tenant, run string) *pawl.Run {
	t.Helper()
	r, err := s.GetRun(t.Context(), tenant, run)
	if err != nil {
		t.Fatalf("get run: %v", err)
	}
	return r
}

// tryBegin begins an operation and returns what stands in its way.
func tryBegin(t *testing.T, s pawl.Store, seed Seed, edit func(*pawl.Operation)) *pawl.Standing {
	t.Helper()
	op, first := Op(seed)
	if edit != nil {
		edit(op)
	}
	standing, err := s.Begin(t.Context(), op, first)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	return standing
}

// callOff writes that a run is called off.
func callOff(t *testing.T, s pawl.Store, tenant, run string) {
	t.Helper()
	for {
		r, err := s.GetRun(t.Context(), tenant, run)
		if errors.Is(err, pawl.ErrNotFound) {
			r, err = &pawl.Run{Tenant: tenant, ID: run, Created: now(t, s)}, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Version++
		r.Status, r.Abort = pawl.RunAborting, &pawl.Abort{Who: "ana", Why: "trip off", At: now(t, s)}
		if err = s.PutRun(t.Context(), r); err == nil {
			return
		} else if !errors.Is(err, pawl.ErrStale) {
			t.Fatal(err)
		}
	}
}

func testCalledOff(t *testing.T, store pawl.Store) {
	done := begin(t, store, Seed{Tool: "book", Run: "run-1", Step: "1", Identity: "x"})
	callOff(t, store, "", "run-1")
	callOff(t, store, "", "run-2") // before anything began in it
	for _, seed := range []Seed{
		{Tool: "book", Run: "run-1", Step: "2", Identity: "y"}, {Tool: "book", Run: "run-2", Step: "1", Identity: "x"},
	} {
		got := tryBegin(t, store, seed, nil)
		if got == nil || got.Kind != pawl.ClaimRun || got.Op != nil || got.Run == nil || got.Run.Status != pawl.RunAborting || got.Run.Abort.Who != "ana" {
			t.Errorf("%s: got standing %+v, want the run that is called off", seed.Run, got)
		}
	}
	if got := tryBegin(t, store, Seed{Tool: "book", Run: "run-1", Step: "1", Identity: "x"}, nil); got == nil || got.Kind != pawl.ClaimIdentity {
		t.Errorf("a repeat: got standing %+v, want its own operation", got)
	}
	if got := tryBegin(t, store, Seed{Tool: "cancel", Run: "run-1", Identity: "z"}, func(op *pawl.Operation) { op.Undoes = done.ID }); got != nil {
		t.Errorf("a compensation: got standing by %s, want it to begin", got.Kind)
	}
	for _, seed := range []Seed{{Tool: "book", Run: "run-3", Identity: "x"}, {Tool: "book", Tenant: "b", Run: "run-1", Identity: "x"}, {Tool: "book", Identity: "x"}} {
		if got := tryBegin(t, store, seed, nil); got != nil {
			t.Errorf("%+v: got standing by %s, want it to begin", seed, got.Kind)
		}
	}
}

// testAbortRace: whatever begins while a run is called off is on record when that is
// durable; nothing comes later.
func testAbortRace(t *testing.T, store pawl.Store) {
	for round := range 20 {
		run := fmt.Sprint("run-", round)
		if round%2 == 0 {
			begin(t, store, Seed{Tool: "book", Run: run, Step: "0", Identity: "0"})
		}
		var mu sync.Mutex
		var begun []pawl.ID
		var wg sync.WaitGroup
		started := make(chan struct{})
		for i := range 8 {
			op, first := Op(Seed{Tool: "book", Run: run, Step: fmt.Sprint(i + 1), Identity: fmt.Sprint(i + 1)})
			wg.Go(func() {
				<-started
				standing, err := store.Begin(t.Context(), op, first)
				if err != nil {
					t.Errorf("begin: %v", err)
				}
				if err == nil && standing == nil {
					mu.Lock()
					begun = append(begun, op.ID)
					mu.Unlock()
				}
			})
		}
		close(started)
		callOff(t, store, "", run)
		seen := identities(find(t, store, pawl.Query{Run: run}))
		wg.Wait()
		for _, id := range begun {
			if !slices.Contains(seen, id) {
				t.Errorf("round %d: %s began and was not on record when the run was called off", round, id)
			}
		}
	}
}

func testFindRuns(t *testing.T, store pawl.Store) {
	at := now(t, store)
	var all []string
	for i := range 7 {
		run := fmt.Sprint("run-", i)
		tenant := []string{"a", "b"}[i%2]
		begin(t, store, Seed{Tool: "book", Tenant: tenant, Run: run, Identity: run, At: at.Add(time.Duration(i) * time.Millisecond)})
		all = append(all, run)
	}
	slices.Reverse(all)
	callOff(t, store, "a", "run-2")
	list := func(q pawl.RunQuery) (ids []string) {
		t.Helper()
		runs, err := store.FindRuns(t.Context(), q)
		if err != nil {
			t.Fatalf("find %+v: %v", q, err)
		}
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	for _, x := range []struct {
		q    pawl.RunQuery
		want []string
	}{
		{pawl.RunQuery{AllTenants: true}, all},
		{pawl.RunQuery{Tenant: "a"}, []string{"run-6", "run-4", "run-2", "run-0"}},
		{pawl.RunQuery{Tenant: "b", Limit: 2}, []string{"run-5", "run-3"}},
		{pawl.RunQuery{Tenant: "b", Limit: 2, Before: "run-3", BeforeTenant: "b"}, []string{"run-1"}},
		{pawl.RunQuery{AllTenants: true, Before: "run-4", BeforeTenant: "a", Limit: 3}, []string{"run-3", "run-2", "run-1"}},
		{pawl.RunQuery{AllTenants: true, Before: "run-4", BeforeTenant: "b"}, nil},
		{pawl.RunQuery{Tenant: "a", Status: pawl.RunAborting}, []string{"run-2"}},
		{pawl.RunQuery{Tenant: "a", Status: pawl.RunOpen}, []string{"run-6", "run-4", "run-0"}},
		{pawl.RunQuery{Tenant: "b", Status: pawl.RunAborting}, nil},
		{pawl.RunQuery{AllTenants: true, Status: pawl.RunAborted}, nil},
		{pawl.RunQuery{}, nil},
	} {
		if got := list(x.q); !slices.Equal(got, x.want) {
			t.Errorf("find %+v: got %v, want %v", x.q, got, x.want)
		}
	}
	if _, err := store.FindRuns(t.Context(), pawl.RunQuery{Status: "gone"}); err == nil {
		t.Error("a status that there is not: got no error")
	}
}

func testClaimRuns(t *testing.T, store pawl.Store) {
	at := now(t, store)
	for i, due := range []time.Time{at.Add(-time.Second), at.Add(-time.Minute), at.Add(time.Hour), {}} {
		r := &pawl.Run{ID: fmt.Sprint("run-", i), Status: pawl.RunAborting, Version: 1, Created: at, Due: due}
		if err := store.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(limit int) (ids []string) {
		t.Helper()
		runs, err := store.ClaimRuns(t.Context(), limit, time.Minute)
		if err != nil {
			t.Fatalf("claim: %v", err)
		}
		for _, r := range runs {
			ids = append(ids, r.ID)
			if d := cmp.Diff(r, getRun(t, store, "", r.ID)); d != "" || r.Version != 2 || r.Due != r.Lease || r.Lease.Sub(at) < time.Minute {
				t.Errorf("claimed %+v; stored differs:\n%s", r, d)
			}
		}
		return ids
	}
	for _, want := range [][]string{{"run-1"}, {"run-0"}, nil} {
		if got := claim(1); !slices.Equal(got, want) {
			t.Errorf("claim: got %v, want %v", got, want)
		}
	}
	if _, err := store.ClaimRuns(t.Context(), 1, 0); err == nil {
		t.Error("a lease of nothing: got no error")
	}
}
