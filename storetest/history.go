package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func testHistory(t *testing.T, s suite) {
	s.test(t, "oldest first, chained", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
		begin(t, store, Seed{Tool: "refund", Identity: "B"})
		for i := range 40 {
			move(t, store, op, pawl.Unknown, func(s *pawl.State) { s.Probes.Count = i })
		}
		entries, err := store.History(t.Context(), "", op.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 41 {
			t.Fatalf("history: got %d entries, want 41", len(entries))
		}
		for i, e := range entries {
			if e.Seq != int64(i+1) {
				t.Errorf("entry %d: got number %d", i+1, e.Seq)
			}
		}
	})
	s.test(t, "a broken chain is refused", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
		move(t, store, op, pawl.Unknown, func(s *pawl.State) { s.Reason = pawl.ReasonNoAnswer })
		c := Move(op, pawl.Succeeded, nil)
		c.Entry = []byte(fmt.Sprintf(`{"seq":%d,"note":"another"}`, c.State.Version))
		if err := store.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := store.History(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrCorrupt) {
			t.Errorf("history: got %v, want %v", err, pawl.ErrCorrupt)
		}
	})
	s.test(t, "no such operation", func(t *testing.T, store pawl.Store) {
		if _, err := store.History(t.Context(), "", pawl.NewID(time.Now())); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("history: got %v, want %v", err, pawl.ErrNotFound)
		}
	})
}
