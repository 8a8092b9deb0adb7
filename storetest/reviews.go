package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// testReviews holds a store to Sighter and Outbox, if it says that it is one.
func testReviews(t *testing.T, s suite) {
	s.test(t, "look-alikes", func(t *testing.T, store pawl.Store) {
		sighter, ok := store.(pawl.Sighter)
		if !ok {
			t.Skip("the store does not watch")
		}
		at := now(t, store)
		sight := func(tenant, look string, at time.Time) (pawl.ID, []pawl.ID) {
			t.Helper()
			g := pawl.Sighting{Tenant: tenant, Look: digest("look", look), ID: pawl.NewID(at), At: at}
			found, err := sighter.Sight(t.Context(), g, at.Add(-time.Minute))
			if err != nil {
				t.Fatalf("sight: %v", err)
			}
			return g.ID, found
		}
		first, found := sight("", "a", at)
		if len(found) != 0 {
			t.Errorf("the first: got look-alikes %v, want none", found)
		}
		sight("", "b", at)
		sight("other", "a", at)
		second, found := sight("", "a", at.Add(time.Second))
		if len(found) != 1 || found[0] != first {
			t.Errorf("the second: got look-alikes %v, want %v", found, first)
		}
		if _, found = sight("", "a", at.Add(2*time.Second)); len(found) != 2 || found[0] != second {
			t.Errorf("the third: got look-alikes %v, want the second and the first", found)
		}
		if _, found = sight("", "a", at.Add(time.Hour)); len(found) != 0 {
			t.Errorf("an hour later: got look-alikes %v, want none", found)
		}
	})
	s.test(t, "look-alikes at once", func(t *testing.T, store pawl.Store) {
		sighter, ok := store.(pawl.Sighter)
		if !ok {
			t.Skip("the store does not watch")
		}
		at := now(t, store)
		const many = 16
		var alone sync.Map
		var wg sync.WaitGroup
		for range many {
			wg.Go(func() {
				g := pawl.Sighting{Look: digest("look", "a"), ID: pawl.NewID(at), At: at}
				found, err := sighter.Sight(context.Background(), g, at.Add(-time.Minute))
				if err != nil {
					t.Errorf("sight: %v", err)
				} else if len(found) == 0 {
					alone.Store(g.ID, true)
				}
			})
		}
		wg.Wait()
		n := 0
		alone.Range(func(any, any) bool { n++; return true })
		if n > 1 {
			t.Errorf("%d of %d at once saw no other, want at most one", n, many)
		}
	})
	s.test(t, "notices", func(t *testing.T, store pawl.Store) {
		box, ok := store.(pawl.Outbox)
		if !ok {
			t.Skip("the store has no outbox")
		}
		o := outbox{t, store, box}
		op := begin(t, store, Seed{Tool: "mail", Tenant: "acme", Identity: "A"})
		quick := begin(t, store, Seed{Tool: "mail", Identity: "B"})
		begin(t, store, Seed{Tool: "mail", Identity: "C"})
		since := now(t, store)
		ask := func(s *pawl.State) { s.Review, s.ReviewReason = since, pawl.ReasonAmbiguous }
		move(t, store, op, pawl.Unknown, ask)
		move(t, store, quick, pawl.Unknown, ask)
		o.gather(2)
		o.gather(0)
		move(t, store, quick, pawl.Succeeded, func(s *pawl.State) { s.Review, s.ReviewReason = time.Time{}, "" })
		o.gather(0) // nobody was told that it began
		o.notified(op, false)
		taken := o.take()
		if len(taken) != 1 || taken[0].Operation != op.ID || taken[0].Tenant != "acme" || taken[0].Kind != pawl.ReviewOpened || !taken[0].Since.Equal(since) || taken[0].Tries != 1 {
			t.Fatalf("got notices %+v, want that %s waits", taken, op.ID)
		}
		if again := o.take(); len(again) != 0 {
			t.Errorf("taken twice: got %+v, want nothing before its lease ends", again)
		}
		id := taken[0].ID()
		o.end(taken[0], pawl.NoticeEnd{Again: since}, true)
		o.end(&pawl.Notice{Operation: op.ID, Kind: pawl.ReviewOpened, Since: since, Token: -1}, pawl.NoticeEnd{Told: true}, false)
		o.notified(op, false)
		taken = o.take()
		if len(taken) != 1 || taken[0].ID() != id || taken[0].Tries != 2 {
			t.Fatalf("got notices %+v, want the same once more", taken)
		}
		o.end(taken[0], pawl.NoticeEnd{Told: true}, true)
		o.notified(op, true)
		if more := o.take(); len(more) != 0 {
			t.Errorf("got notices %+v, want none that was told", more)
		}
		move(t, store, op, pawl.Succeeded, func(s *pawl.State) { s.Review, s.ReviewReason = time.Time{}, "" })
		o.gather(1)
		o.gather(0)
		taken = o.take()
		if len(taken) != 1 || taken[0].Kind != pawl.ReviewClosed || taken[0].ID() == id {
			t.Errorf("got notices %+v, want that %s waits no longer", taken, op.ID)
		}
	})
	s.test(t, "notices of many workers", func(t *testing.T, store pawl.Store) {
		box, ok := store.(pawl.Outbox)
		if !ok {
			t.Skip("the store has no outbox")
		}
		const many = 20
		since := now(t, store)
		for i := range many {
			op := begin(t, store, Seed{Tool: "mail", Identity: string(rune('a' + i))})
			move(t, store, op, pawl.Unknown, func(s *pawl.State) { s.Review = since })
		}
		var mu sync.Mutex
		seen := map[string]int{}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 50 {
					if _, err := box.GatherNotices(context.Background(), 7); err != nil {
						t.Errorf("gather: %v", err)
					}
					taken, err := box.TakeNotices(context.Background(), 3, time.Hour)
					if err != nil {
						t.Errorf("take: %v", err)
					}
					mu.Lock()
					for _, n := range taken {
						seen[n.ID()]++
					}
					done := len(seen) == many
					mu.Unlock()
					if done {
						return
					}
				}
			})
		}
		wg.Wait()
		if len(seen) != many {
			t.Errorf("got %d notices, want %d", len(seen), many)
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%s was taken %d times, want once", id, n)
			}
		}
	})
}

// outbox is an Outbox under test.
type outbox struct {
	t     *testing.T
	store pawl.Store
	box   pawl.Outbox
}

func (o outbox) gather(want int) {
	o.t.Helper()
	if made, err := o.box.GatherNotices(o.t.Context(), 100); err != nil || made != want {
		o.t.Errorf("gather: got %d, %v; want %d", made, err, want)
	}
}

func (o outbox) take() []*pawl.Notice {
	o.t.Helper()
	taken, err := o.box.TakeNotices(o.t.Context(), 100, time.Hour)
	if err != nil {
		o.t.Fatalf("take: %v", err)
	}
	return taken
}

func (o outbox) end(n *pawl.Notice, end pawl.NoticeEnd, want bool) {
	o.t.Helper()
	if held, err := o.box.EndNotice(o.t.Context(), n, end); err != nil || held != want {
		o.t.Errorf("end: got %v, %v; want %v", held, err, want)
	}
}

func (o outbox) notified(op *pawl.Operation, want bool) {
	o.t.Helper()
	if told, err := o.box.Notified(o.t.Context(), op); err != nil || told != want {
		o.t.Errorf("notified: got %v, %v; want %v", told, err, want)
	}
}
