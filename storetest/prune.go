package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// testPrune holds a store to Pruner, if it says that it is one.
func testPrune(t *testing.T, s suite) {
	pruner := func(t *testing.T, store pawl.Store) pawl.Pruner {
		p, ok := store.(pawl.Pruner)
		if !ok {
			t.Skip("the store forgets nothing")
		}
		return p
	}
	s.test(t, "oldest first", func(t *testing.T, store pawl.Store) {
		p := pruner(t, store)
		var want []pawl.ID
		at := time.Now()
		for i := range 7 {
			op := begin(t, store, Seed{Tenant: []string{"", "acme"}[i%2], Tool: "refund", Identity: fmt.Sprint(i), At: at.Add(time.Duration(i) * 10 * time.Millisecond)})
			want = append(want, op.ID)
		}
		var got []pawl.ID
		behind := pawl.ID{}
		for {
			page, err := p.Oldest(t.Context(), behind, 3)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, op := range page {
				got = append(got, op.ID)
			}
			behind = page[len(page)-1].ID
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	s.test(t, "forgotten", func(t *testing.T, store pawl.Store) {
		p := pruner(t, store)
		seed := Seed{Tool: "refund", Run: "run", Step: "1", Identity: "a", Once: true}
		op := begin(t, store, seed)
		stays := begin(t, store, Seed{Tool: "refund", Identity: "b"})
		move(t, store, op, pawl.Succeeded, func(st *pawl.State) { st.Lease, st.Due = time.Time{}, time.Time{} })
		done, err := store.Get(t.Context(), "", op.ID)
		if err != nil {
			t.Fatal(err)
		}
		n, err := p.Forget(t.Context(), []pawl.Settled{{ID: op.ID, Version: done.Version - 1}, {ID: stays.ID, Version: stays.Version}, {ID: pawl.NewID(time.Now()), Version: 1}})
		if n != 0 || err != nil {
			t.Errorf("another version, an open one, an unknown one: got %d, %v; want none", n, err)
		}
		if n, err := p.Forget(t.Context(), []pawl.Settled{{ID: op.ID, Version: done.Version}}); n != 1 || err != nil {
			t.Errorf("got %d, %v; want 1", n, err)
		}
		if _, err := store.Get(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("get: got %v, want %v", err, pawl.ErrNotFound)
		}
		if _, err := store.History(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("history: got %v, want %v", err, pawl.ErrNotFound)
		}
		if list, err := store.Find(t.Context(), pawl.Query{AllTenants: true}); err != nil || len(list) != 1 || list[0].ID != stays.ID {
			t.Errorf("find: got %d, %v; want the one that stays", len(list), err)
		}
		if n, err := p.Forget(t.Context(), []pawl.Settled{{ID: op.ID, Version: done.Version}}); n != 0 || err != nil {
			t.Errorf("once more: got %d, %v; want none", n, err)
		}
		again := begin(t, store, seed) // none of its claims is held any more
		if _, err := store.History(t.Context(), "", again.ID); err != nil {
			t.Errorf("history of the new one: %v", err)
		}
	})
	s.test(t, "its sighting", func(t *testing.T, store pawl.Store) {
		p := pruner(t, store)
		sighter, ok := store.(pawl.Sighter)
		if !ok {
			t.Skip("the store does not watch")
		}
		at := now(t, store)
		op := begin(t, store, Seed{Tool: "refund", Identity: "a"})
		sight := func(id pawl.ID) []pawl.ID {
			t.Helper()
			found, err := sighter.Sight(t.Context(), pawl.Sighting{Look: digest("look", "a"), ID: id, At: at}, at.Add(-time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		sight(op.ID)
		other := pawl.NewID(at)
		sight(other)
		move(t, store, op, pawl.Succeeded, func(st *pawl.State) { st.Lease, st.Due = time.Time{}, time.Time{} })
		if n, err := p.Forget(t.Context(), []pawl.Settled{{ID: op.ID, Version: op.Version}}); n != 1 || err != nil {
			t.Fatalf("got %d, %v; want 1", n, err)
		}
		if found := sight(pawl.NewID(at)); len(found) != 1 || found[0] != other {
			t.Errorf("got look-alikes %v, want %v alone", found, other)
		}
	})
	s.test(t, "in review", func(t *testing.T, store pawl.Store) {
		p := pruner(t, store)
		op := begin(t, store, Seed{Tool: "refund", Identity: "a"})
		move(t, store, op, pawl.Succeeded, func(st *pawl.State) {
			st.Lease, st.Due, st.Review, st.ReviewReason = time.Time{}, time.Time{}, st.Updated, pawl.ReasonDuplicateSeen
		})
		if n, err := p.Forget(t.Context(), []pawl.Settled{{ID: op.ID, Version: op.Version}}); n != 0 || err != nil {
			t.Errorf("got %d, %v; want what waits for a person to stay", n, err)
		}
	})
	s.test(t, "generations", func(t *testing.T, store pawl.Store) {
		p := pruner(t, store)
		first := begin(t, store, Seed{Tool: "refund", Identity: "a"})
		failed := func(st *pawl.State) { st.Lease, st.Due, st.Reason = time.Time{}, time.Time{}, pawl.ReasonAbsent }
		move(t, store, first, pawl.FailedNoEffect, failed)
		second := begin(t, store, Seed{Tool: "refund", Identity: "a", Gen: 1})
		move(t, store, second, pawl.Succeeded, failed)
		if n, err := p.Forget(t.Context(), []pawl.Settled{{ID: first.ID, Version: 2}}); n != 1 || err != nil {
			t.Fatalf("got %d, %v; want 1", n, err)
		}
		op, raw := Op(Seed{Tool: "refund", Identity: "a"})
		standing, err := store.Begin(t.Context(), op, raw)
		if err != nil || standing == nil || standing.Op.ID != second.ID {
			t.Errorf("a repeat: got %+v, %v; want the second generation in its way", standing, err)
		}
	})
}
