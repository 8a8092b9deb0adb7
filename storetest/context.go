package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func testContext(t *testing.T, s suite) {
	s.test(t, "that has ended stops every method", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
		other, first := Op(Seed{Tool: "refund", Identity: "B"})
		ctx := cancelled(t)
		for name, call := range map[string]func() error{
			"begin":   func() error { _, err := store.Begin(ctx, other, first); return err },
			"apply":   func() error { return store.Apply(ctx, Move(op, pawl.Succeeded, nil)) },
			"renew":   func() error { _, err := store.Renew(ctx, op.ID, op.Token, time.Time{}, time.Time{}); return err },
			"get":     func() error { _, err := store.Get(ctx, "", op.ID); return err },
			"history": func() error { _, err := store.History(ctx, "", op.ID); return err },
			"find":    func() error { _, err := store.Find(ctx, pawl.Query{}); return err },
			"now":     func() error { _, err := store.Now(ctx); return err },
			"claim": func() error {
				_, err := store.Claim(ctx, pawl.Claim{Tools: []string{"refund"}, Limit: 1, Token: 1, Lease: time.Minute})
				return err
			},
		} {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v, want %v", name, err, context.Canceled)
			}
		}
		same(t, get(t, store, op), op)
		if _, err := store.Get(t.Context(), "", other.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("get: got %v, want %v: the write was withdrawn", err, pawl.ErrNotFound)
		}
	})
	// Whatever the moment at which a context ends, the answer tells what was written.
	s.test(t, "that ends leaves nothing undecided", func(t *testing.T, store pawl.Store) {
		var wg sync.WaitGroup
		errs, ids := make([]error, 200), make([]pawl.ID, 200)
		for i := range errs {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				op, first := Op(Seed{Tool: "refund", Identity: fmt.Sprint(i)})
				ids[i] = op.ID
				go cancel()
				_, errs[i] = store.Begin(ctx, op, first)
			})
		}
		wg.Wait()
		begin(t, store, Seed{Tool: "refund", Identity: "the last write"})
		for i, err := range errs {
			_, readErr := store.Get(t.Context(), "", ids[i])
			switch {
			case err == nil && readErr != nil:
				t.Errorf("begun, but get: %v", readErr)
			case err != nil && !errors.Is(err, context.Canceled):
				t.Errorf("begin: got %v, want %v", err, context.Canceled)
			case err != nil && !errors.Is(readErr, pawl.ErrNotFound):
				t.Errorf("withdrawn, but get: got %v, want %v", readErr, pawl.ErrNotFound)
			}
		}
	})
}

func testNow(t *testing.T, s suite) {
	s.test(t, "goes forward", func(t *testing.T, store pawl.Store) {
		last := now(t, store)
		if off := time.Since(last).Abs(); off > time.Hour {
			t.Errorf("now: %v off the wall clock", off)
		}
		for range 1000 {
			next := now(t, store)
			if next.Before(last) {
				t.Fatalf("now: got %v after %v", next, last)
			}
			last = next
		}
	})
}

func testClose(t *testing.T, s suite) {
	s.test(t, "ends every method", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
		for range 2 {
			if err := store.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		other, first := Op(Seed{Tool: "refund", Identity: "B"})
		ctx := t.Context()
		for name, call := range map[string]func() error{
			"begin":   func() error { _, err := store.Begin(ctx, other, first); return err },
			"apply":   func() error { return store.Apply(ctx, Move(op, pawl.Succeeded, nil)) },
			"renew":   func() error { _, err := store.Renew(ctx, op.ID, op.Token, time.Time{}, time.Time{}); return err },
			"get":     func() error { _, err := store.Get(ctx, "", op.ID); return err },
			"history": func() error { _, err := store.History(ctx, "", op.ID); return err },
			"find":    func() error { _, err := store.Find(ctx, pawl.Query{}); return err },
			"now":     func() error { _, err := store.Now(ctx); return err },
			"claim": func() error {
				_, err := store.Claim(ctx, pawl.Claim{Tools: []string{"refund"}, Limit: 1, Token: 1, Lease: time.Minute})
				return err
			},
		} {
			if err := call(); err == nil || errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("%s after close: got %v, want an error that says so", name, err)
			}
		}
	})
	s.test(t, "while others write", func(t *testing.T, store pawl.Store) {
		var wg sync.WaitGroup
		begun := make(chan struct{}, 1)
		for i := range 32 {
			wg.Go(func() {
				for n := 0; ; n++ {
					op, first := Op(Seed{Tool: "refund", Identity: fmt.Sprint(i, n)})
					if _, err := store.Begin(t.Context(), op, first); err != nil {
						return
					}
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			})
		}
		<-begun
		together(4, func(int) {
			if err := store.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		wg.Wait()
	})
}
