package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func testClaim(t *testing.T, s suite) {
	s.test(t, "gives token and lease", func(t *testing.T, store pawl.Store) {
		at := now(t, store)
		op := begin(t, store, due(Seed{Tool: "refund", Identity: "A"}, time.Second, at))
		got := claim(t, store, pawl.Claim{Tools: []string{"refund"}, Limit: 10, Token: 42, Lease: time.Minute})
		after := now(t, store)
		if len(got) != 1 {
			t.Fatalf("claim: got %d operations, want 1", len(got))
		}
		lease := got[0].Lease
		if lease.Before(at.Add(time.Minute)) || lease.After(after.Add(time.Minute)) {
			t.Errorf("lease: got %v, want a minute from now", lease)
		}
		op.Token, op.Lease, op.Due = 42, lease, lease
		same(t, got[0], op)
		same(t, get(t, store, op), op)
		if entries, err := store.History(t.Context(), "", op.ID); err != nil || len(entries) != 1 {
			t.Errorf("history: got %d entries, %v; want the 1 of its begin", len(entries), err)
		}
		if again := claim(t, store, pawl.Claim{Tools: []string{"refund"}, Limit: 10}); len(again) != 0 {
			t.Errorf("claim again: got %d operations, want none before the lease ends", len(again))
		}
		move(t, store, op, pawl.Succeeded, nil)
	})
	s.test(t, "takes only what is due, of the named tools", func(t *testing.T, store pawl.Store) {
		at := now(t, store)
		want := begin(t, store, due(Seed{Tool: "refund", Identity: "due"}, time.Second, at))
		begin(t, store, due(Seed{Tool: "mail", Identity: "other tool"}, time.Second, at))
		begin(t, store, due(Seed{Tool: "refund", Identity: "later"}, -time.Hour, at))
		settled := begin(t, store, due(Seed{Tool: "refund", Identity: "settled"}, time.Second, at))
		move(t, store, settled, pawl.Succeeded, nil)
		never := begin(t, store, due(Seed{Tool: "refund", Identity: "never by itself"}, time.Second, at))
		move(t, store, never, pawl.Unknown, func(s *pawl.State) { s.Due = time.Time{} })
		got := claim(t, store, pawl.Claim{Tools: []string{"absent", "refund", "refund"}, Limit: 10})
		if !slices.Equal(identities(got), []pawl.ID{want.ID}) {
			t.Errorf("claim: got %v, want only %v", identities(got), want.ID)
		}
		if got := claim(t, store, pawl.Claim{Tools: nil, Limit: 10}); len(got) != 0 {
			t.Errorf("claim without tools: got %d operations, want none", len(got))
		}
		if got := claim(t, store, pawl.Claim{Tools: []string{"mail"}}); len(got) != 0 {
			t.Errorf("claim with limit 0: got %d operations, want none", len(got))
		}
	})
	s.test(t, "oldest due first", func(t *testing.T, store pawl.Store) {
		at := now(t, store)
		var want []pawl.ID
		for i := range 5 {
			op := begin(t, store, due(Seed{Tool: "refund", Identity: fmt.Sprint(i)}, time.Duration(i+1)*time.Minute, at))
			want = append([]pawl.ID{op.ID}, want...)
		}
		for len(want) > 0 {
			n := min(2, len(want))
			got := identities(claim(t, store, pawl.Claim{Tools: []string{"refund"}, Limit: n}))
			if !slices.Equal(got, want[:n]) {
				t.Fatalf("claim: got %v, want %v", got, want[:n])
			}
			want = want[n:]
		}
	})
	s.test(t, "fair across tools and tenants", func(t *testing.T, store pawl.Store) {
		at := now(t, store)
		for i := range 100 {
			begin(t, store, due(Seed{Tenant: "big", Tool: "refund", Identity: fmt.Sprint(i)}, time.Hour, at))
		}
		for _, tenant := range []string{"", "small", "tiny"} {
			for _, tool := range []string{"mail", "refund"} {
				begin(t, store, due(Seed{Tenant: tenant, Tool: tool, Identity: "A"}, time.Second, at))
			}
		}
		lanes := map[[2]string]int{}
		take := func() {
			for _, op := range claim(t, store, pawl.Claim{Tools: []string{"refund", "mail"}, Limit: 3}) {
				lanes[[2]string{op.Tenant, op.Tool}]++
			}
		}
		for range 3 { // 9 turns for 7 lanes
			take()
		}
		for _, tenant := range []string{"", "small", "tiny"} {
			for _, tool := range []string{"mail", "refund"} {
				if got := lanes[[2]string{tenant, tool}]; got != 1 {
					t.Errorf("lane %q %q: got %d claimed of 1", tenant, tool, got)
				}
			}
		}
		take()
		if got := lanes[[2]string{"big", "refund"}]; got != 4*3-6 {
			t.Errorf("lane of the big tenant: got %d, want the rest, %d", got, 4*3-6)
		}
	})
	s.test(t, "turns go on where they ended", func(t *testing.T, store pawl.Store) {
		at := now(t, store)
		for lane := range 7 {
			for i := range 5 {
				begin(t, store, due(Seed{Tenant: fmt.Sprint(lane), Tool: "refund", Identity: fmt.Sprint(i)}, time.Hour, at))
			}
		}
		turns := map[string]int{}
		for range 7 {
			for _, op := range claim(t, store, pawl.Claim{Tools: []string{"refund"}, Limit: 3}) {
				turns[op.Tenant]++
			}
		}
		for tenant, got := range turns {
			if got != 3 {
				t.Errorf("tenant %s: got %d turns of 21, want 3", tenant, got)
			}
		}
	})
	s.test(t, "limit", func(t *testing.T, store pawl.Store) {
		at := now(t, store)
		for i := range 300 {
			begin(t, store, due(Seed{Tool: "refund", Identity: fmt.Sprint(i)}, time.Hour, at))
		}
		if got := len(claim(t, store, pawl.Claim{Tools: []string{"refund"}, Limit: 1000})); got > 256 || got == 0 {
			t.Errorf("claim: got %d operations, want at most 256", got)
		}
	})
	s.test(t, "needs a lease", func(t *testing.T, store pawl.Store) {
		for _, lease := range []time.Duration{0, -time.Second} {
			if _, err := store.Claim(t.Context(), pawl.Claim{Tools: []string{"refund"}, Limit: 1, Token: 1, Lease: lease}); err == nil {
				t.Errorf("claim with a lease of %v: got no error", lease)
			}
		}
	})
}

func testRenew(t *testing.T, s suite) {
	s.test(t, "extends and releases", func(t *testing.T, store pawl.Store) {
		at := now(t, store)
		op := begin(t, store, Seed{Tool: "refund", Identity: "A", Token: 7})
		renew := func(token int64, lease, due time.Time, want bool) {
			t.Helper()
			got, err := store.Renew(t.Context(), op.ID, token, lease, due)
			if err != nil || got != want {
				t.Errorf("renew: got %t, %v; want %t", got, err, want)
			}
			if want {
				op.Lease, op.Due = lease, due
			}
			same(t, get(t, store, op), op)
		}
		renew(7, at.Add(time.Hour), at.Add(time.Hour), true)
		renew(8, at.Add(2*time.Hour), at.Add(2*time.Hour), false)
		renew(7, time.Time{}, at.Add(-time.Second), true)
		if got := claim(t, store, pawl.Claim{Tools: []string{"refund"}, Limit: 1, Token: 9}); len(got) != 1 {
			t.Fatalf("claim after release: got %d operations, want 1", len(got))
		} else {
			op.State = got[0].State
		}
		renew(7, at.Add(time.Hour), at.Add(time.Hour), false)
		renew(9, time.Time{}, time.Time{}, true)
		if entries, err := store.History(t.Context(), "", op.ID); err != nil || len(entries) != 1 {
			t.Errorf("history: got %d entries, %v; want 1", len(entries), err)
		}
	})
	s.test(t, "no such operation", func(t *testing.T, store pawl.Store) {
		if got, err := store.Renew(t.Context(), pawl.NewID(time.Now()), 1, time.Now(), time.Now()); got || err != nil {
			t.Errorf("renew: got %t, %v; want false", got, err)
		}
	})
}

// testUntouchable puts rows that a Claim may not touch in front of one that it may.
func testUntouchable(t *testing.T, s suite) {
	kinds := map[string]func(at time.Time, i int) Seed{
		"other tool": func(at time.Time, i int) Seed {
			return due(Seed{Tool: "mail", Identity: fmt.Sprint(i)}, time.Hour, at)
		},
		"not due": func(at time.Time, i int) Seed {
			return due(Seed{Tool: "refund", Identity: fmt.Sprint(i)}, -time.Hour, at)
		},
		"never due": func(at time.Time, i int) Seed {
			return due(Seed{Tool: "refund", Identity: fmt.Sprint(i)}, -time.Hour, at)
		},
	}
	for name, seed := range kinds {
		rows := s.opts.Rows
		if name != "not due" {
			rows /= 10 // work that grows with the rows shows as well
		}
		s.test(t, name, func(t *testing.T, store pawl.Store) {
			at := now(t, store)
			contract := Contract("refund")
			ops, firsts := make([]*pawl.Operation, rows), make([][]byte, rows)
			for i := range ops {
				seed := seed(at, i)
				seed.Contract = contract
				ops[i], firsts[i] = Op(seed)
				if name == "never due" {
					ops[i].Due = time.Time{}
				}
			}
			s.fill(t, store, ops, firsts)
			want := begin(t, store, due(Seed{Tenant: "last", Tool: "refund", Identity: "due"}, time.Second, at))
			var before int64
			if s.opts.Work != nil {
				before = s.opts.Work(store)
			}
			got := identities(claim(t, store, pawl.Claim{Tools: []string{"refund"}, Limit: 10}))
			if !slices.Equal(got, []pawl.ID{want.ID}) {
				t.Errorf("claim: got %v, want %v", got, want.ID)
			}
			if s.opts.Work == nil {
				return
			}
			if work := s.opts.Work(store) - before; work > 5000 {
				t.Errorf("work for one claim with %d rows in front: got %d, want at most 5000", rows, work)
			}
		})
	}
}

// fill writes many operations that have nothing in their way.
func (s suite) fill(t *testing.T, store pawl.Store, ops []*pawl.Operation, firsts [][]byte) {
	t.Helper()
	if s.opts.Fill != nil {
		s.opts.Fill(t, store, ops, firsts)
		return
	}
	for i, op := range ops {
		if standing, err := store.Begin(t.Context(), op, firsts[i]); standing != nil || err != nil {
			t.Fatalf("begin: got %v, %v", standing, err)
		}
	}
}
