package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func testTally(t *testing.T, s suite) {
	s.test(t, "sums up what is open", func(t *testing.T, store pawl.Store) {
		if list, err := store.Tally(t.Context()); err != nil || len(list) != 0 {
			t.Fatalf("empty: got %v, %v, want none", list, err)
		}
		at := now(t, store).Add(-time.Hour).Truncate(time.Second)
		after := func(seconds int) time.Time { return at.Add(time.Duration(seconds) * time.Second) }
		ops := map[string]*pawl.Operation{}
		for i, seed := range []struct {
			Seed
			to            pawl.Status
			review, lease time.Time
			due           time.Time
		}{
			{Seed: Seed{Tool: "refund", Identity: "held"}, lease: after(7200), due: after(7200)},
			{Seed: Seed{Tool: "refund", Identity: "stale", Tenant: "acme"}, lease: after(10), due: after(10)},
			{Seed: Seed{Tool: "refund", Identity: "done"}, to: pawl.Succeeded},
			{Seed: Seed{Tool: "refund", Identity: "undone"}, to: pawl.Compensated},
			{Seed: Seed{Tool: "refund", Identity: "none"}, to: pawl.FailedNoEffect},
			{Seed: Seed{Tool: "refund", Identity: "later"}, to: pawl.Unknown, due: after(60)},
			{Seed: Seed{Tool: "refund", Identity: "sooner", Tenant: "acme"}, to: pawl.Unknown, due: after(40)},
			{Seed: Seed{Tool: "mail", Identity: "asked late"}, to: pawl.Unknown, review: after(50)},
			{Seed: Seed{Tool: "mail", Identity: "asked early"}, to: pawl.Unknown, review: after(30)},
			{Seed: Seed{Tool: "mail", Identity: "waits"}, to: pawl.Prepared},
			{Seed: Seed{Tool: "mail", Identity: "quiet"}, to: pawl.Succeeded, due: after(20)},
		} {
			seed.At = after(i)
			op := begin(t, store, seed.Seed)
			ops[seed.Identity] = op
			to := seed.to
			if to == "" {
				to = pawl.Pending
			}
			move(t, store, op, to, func(s *pawl.State) { s.Review, s.Lease, s.Due = seed.review, seed.lease, seed.due })
		}
		list, err := store.Tally(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(list, func(a, b pawl.Tally) int {
			return strings.Compare(a.Tool+string(a.Status), b.Tool+string(b.Status))
		})
		want := []pawl.Tally{
			{Tool: "mail", Status: pawl.Prepared, Count: 1, Unheld: 1, Oldest: ops["waits"]},
			{Tool: "mail", Status: pawl.Unknown, Review: true, Count: 2, Unheld: 2, Asked: after(30), Oldest: ops["asked late"]},
			{Tool: "refund", Status: pawl.Pending, Count: 2, Unheld: 1, Due: after(10), Oldest: ops["held"]},
			{Tool: "refund", Status: pawl.Unknown, Count: 2, Unheld: 2, Due: after(40), Oldest: ops["later"]},
		}
		if len(list) != len(want) {
			t.Fatalf("got %d sums %+v, want %d", len(list), list, len(want))
		}
		for i, w := range want {
			got := list[i]
			if got.Oldest == nil || got.Oldest.ID != w.Oldest.ID || got.Oldest.Contract == nil || got.Oldest.Version != w.Oldest.Version {
				t.Errorf("%s %s: got oldest %+v, want %s whole", w.Tool, w.Status, got.Oldest, w.Oldest.ID)
			}
			if got.Tool != w.Tool || got.Status != w.Status || got.Review != w.Review || got.Count != w.Count || got.Unheld != w.Unheld ||
				!got.Due.Equal(w.Due) || !got.Asked.Equal(w.Asked) {
				t.Errorf("got %+v, want %+v", got, w)
			}
		}
	})
	s.test(t, "of a context that has ended", func(t *testing.T, store pawl.Store) {
		if list, err := store.Tally(cancelled(t)); err == nil {
			t.Errorf("got %v, want an error", list)
		}
	})
}
