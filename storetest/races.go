package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// together runs f n times at once and waits.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

func testRaces(t *testing.T, s suite) {
	// The claims that two operations can contend for, apart from the key.
	for kind, seed := range map[pawl.ClaimKind]func(i int) Seed{
		pawl.ClaimIdentity: func(int) Seed { return Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A"} },
		pawl.ClaimStep: func(i int) Seed {
			return Seed{Tool: "refund", Run: "run-1", Step: fmt.Sprint(i), Identity: "A"}
		},
		pawl.ClaimOnce: func(i int) Seed {
			return Seed{Tool: "refund", Run: "run-1", Step: fmt.Sprint(i), Identity: "A", Once: true}
		},
		pawl.ClaimSubject: func(i int) Seed {
			return Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: fmt.Sprint(i), Subject: "S"}
		},
	} {
		s.test(t, string(kind)+" is held once", func(t *testing.T, store pawl.Store) {
			var inserted, stood atomic.Int64
			var winner atomic.Pointer[pawl.Operation]
			standing := make([]*pawl.Standing, 64)
			together(64, func(i int) {
				op, first := Op(seed(i))
				var err error
				switch standing[i], err = store.Begin(t.Context(), op, first); {
				case err != nil:
					t.Errorf("begin: %v", err)
				case standing[i] == nil:
					inserted.Add(1)
					winner.Store(op)
				default:
					stood.Add(1)
				}
			})
			if inserted.Load() != 1 || stood.Load() != 63 {
				t.Fatalf("begin: got %d inserted and %d told of it, want 1 and 63", inserted.Load(), stood.Load())
			}
			for _, s := range standing {
				if s != nil && (s.Kind != kind || s.Op.ID != winner.Load().ID) {
					t.Errorf("standing: got %s by %s, want the winner by %s", s.Op.ID, s.Kind, kind)
				}
			}
		})
	}
	s.test(t, "one change wins", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
		for range 10 {
			var won atomic.Pointer[pawl.Change]
			together(16, func(i int) {
				c := Move(op, pawl.Unknown, func(s *pawl.State) { s.Ref = fmt.Sprint(i) })
				switch err := store.Apply(t.Context(), c); {
				case err == nil:
					if !won.CompareAndSwap(nil, c) {
						t.Error("apply: two changes of one version were taken")
					}
				case !errors.Is(err, pawl.ErrStale):
					t.Errorf("apply: %v", err)
				}
			})
			if won.Load() == nil {
				t.Fatal("apply: no change was taken")
			}
			op.State = *won.Load().State
			same(t, get(t, store, op), op)
		}
		if _, err := store.History(t.Context(), "", op.ID); err != nil {
			t.Error(err)
		}
	})
	s.test(t, "a claim goes to one", func(t *testing.T, store pawl.Store) {
		at := now(t, store)
		for i := range 100 {
			begin(t, store, due(Seed{Tenant: fmt.Sprint(i % 7), Tool: "refund", Identity: fmt.Sprint(i)}, time.Second, at))
		}
		var mu sync.Mutex
		owner := map[pawl.ID]int64{}
		together(8, func(i int) {
			for {
				token := int64(100 + i)
				ops, err := store.Claim(t.Context(), pawl.Claim{Tools: []string{"refund"}, Limit: 3, Token: token, Lease: time.Hour})
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				if len(ops) == 0 {
					return
				}
				mu.Lock()
				for _, op := range ops {
					if _, taken := owner[op.ID]; taken || op.Token != token {
						t.Errorf("claim: %s was given twice or with token %d", op.ID, op.Token)
					}
					owner[op.ID] = token
				}
				mu.Unlock()
			}
		})
		if len(owner) != 100 {
			t.Errorf("claim: got %d operations in all, want 100", len(owner))
		}
	})
	s.test(t, "claim against apply", func(t *testing.T, store pawl.Store) {
		at := now(t, store)
		for i := range 50 {
			op := begin(t, store, due(Seed{Tool: "refund", Identity: fmt.Sprint(i)}, time.Second, at))
			var applied error
			var claimed []*pawl.Operation
			together(2, func(i int) {
				if i == 0 {
					applied = store.Apply(t.Context(), Move(op, pawl.Succeeded, nil))
				} else {
					var err error
					claimed, err = store.Claim(t.Context(), pawl.Claim{Tools: []string{"refund"}, Limit: 1, Token: 9, Lease: time.Hour})
					if err != nil {
						t.Errorf("claim: %v", err)
					}
				}
			})
			switch {
			case applied == nil && len(claimed) == 0:
			case errors.Is(applied, pawl.ErrStale) && len(claimed) == 1:
			default:
				t.Errorf("got apply %v and %d claimed, want one of them", applied, len(claimed))
			}
		}
	})
	s.test(t, "generations", func(t *testing.T, store pawl.Store) {
		seed := Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A"}
		for gen := range 5 {
			seed.Gen = gen
			var inserted atomic.Pointer[pawl.Operation]
			together(16, func(int) {
				op, first := Op(seed)
				standing, err := store.Begin(t.Context(), op, first)
				switch {
				case err != nil:
					t.Errorf("begin: %v", err)
				case standing == nil && !inserted.CompareAndSwap(nil, op):
					t.Errorf("generation %d was inserted twice", gen)
				case standing != nil && standing.Op.Gen != gen:
					t.Errorf("begin generation %d: generation %d is in the way", gen, standing.Op.Gen)
				}
			})
			if inserted.Load() == nil {
				t.Fatalf("generation %d: nobody inserted it", gen)
			}
			move(t, store, inserted.Load(), pawl.FailedNoEffect, nil)
		}
	})
}
