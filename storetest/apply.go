package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func testApply(t *testing.T, s suite) {
	s.test(t, "writes state and entry", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
		move(t, store, op, pawl.Unknown, func(s *pawl.State) { s.Reason = pawl.ReasonNoAnswer })
		move(t, store, op, pawl.Succeeded, func(s *pawl.State) {
			s.Reason, s.Result, s.Ref, s.SettledBy = pawl.ReasonProbeFound, []byte(`{"id":"re_1"}`), "re_1", pawl.ByProbe
		})
		same(t, get(t, store, op), op)
		entries, err := store.History(t.Context(), "", op.ID)
		if err != nil || len(entries) != 3 || entries[2].To != pawl.Succeeded {
			t.Errorf("history: got %v, %v; want 3 entries that end in SUCCEEDED", entries, err)
		}
	})
	stale := func(name string, edit func(c *pawl.Change), want error) {
		s.test(t, name, func(t *testing.T, store pawl.Store) {
			op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
			c := Move(op, pawl.Succeeded, nil)
			edit(c)
			if err := store.Apply(t.Context(), c); !errors.Is(err, want) {
				t.Errorf("apply: got %v, want %v", err, want)
			}
			same(t, get(t, store, op), op)
			if entries, err := store.History(t.Context(), "", op.ID); err != nil || len(entries) != 1 {
				t.Errorf("history: got %d entries, %v; want 1", len(entries), err)
			}
		})
	}
	stale("another token", func(c *pawl.Change) { c.Token++ }, pawl.ErrStale)
	stale("another version", func(c *pawl.Change) { c.Version++; c.State.Version++ }, pawl.ErrStale)
	stale("no such operation", func(c *pawl.Change) { c.ID = pawl.NewID(time.Now()) }, pawl.ErrNotFound)

	s.test(t, "twice", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
		c := Move(op, pawl.Succeeded, nil)
		if err := store.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := store.Apply(t.Context(), c); !errors.Is(err, pawl.ErrStale) {
			t.Errorf("second apply: got %v, want %v", err, pawl.ErrStale)
		}
	})
	s.test(t, "a new token", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
		move(t, store, op, pawl.Pending, func(s *pawl.State) { s.Token = 77 })
		if got := get(t, store, op).Token; got != 77 {
			t.Errorf("token: got %d, want 77", got)
		}
		move(t, store, op, pawl.Succeeded, nil)
	})
	s.test(t, "takes a claim up again", func(t *testing.T, store pawl.Store) {
		seed := Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A", Subject: "S"}
		op := begin(t, store, seed)
		move(t, store, op, pawl.FailedNoEffect, nil)
		move(t, store, op, pawl.Pending, nil)
		seed.Step = "2"
		other, first := Op(seed)
		standing, err := store.Begin(t.Context(), other, first)
		if err != nil || standing == nil || standing.Kind != pawl.ClaimStep {
			t.Errorf("begin: got %v, %v; want the step of the operation that reopened in the way", standing, err)
		}
	})
	s.test(t, "cannot take up a claim that another holds", func(t *testing.T, store pawl.Store) {
		seed := Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A", Subject: "S"}
		op := begin(t, store, seed)
		move(t, store, op, pawl.FailedNoEffect, nil)
		seed.Identity = "B"
		begin(t, store, seed)
		if err := store.Apply(t.Context(), Move(op, pawl.Pending, nil)); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("apply: got %v, want %v", err, pawl.ErrHeld)
		}
		same(t, get(t, store, op), op)
	})
}
