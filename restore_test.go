package pawl_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// restored puts a store in the house's place that lacks all that was done since the house
// was opened, and returns an executor on it, an hour later.
func (h *house) restored(until time.Duration) *pawl.Executor {
	h.t.Helper()
	h.store = storetest.NewMemory()
	h.t.Cleanup(func() { h.store.Close() })
	return h.recovered(until)
}

// recovered does what pawl restore does, an hour after the copy was made.
func (h *house) recovered(until time.Duration) *pawl.Executor {
	h.t.Helper()
	copied := time.Now()
	time.Sleep(time.Hour)
	r := &pawl.Restore{Copied: copied, At: time.Now(), Until: time.Now().Add(until), By: "ana"}
	for range 2 { // the second finds nothing to do
		if _, err := pawl.Recover(context.Background(), h.store, r); err != nil {
			h.t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	return h.executor(&pawl.Options{Restore: r})
}

// TestRestoredStoreAsksFirst: a call was made after the backup, and comes again after the
// restore.
func TestRestoredStoreAsksFirst(t *testing.T) { // rule 13, OP5
	for _, c := range []struct {
		name  string
		edit  func(*pawl.Contract)
		words string
		sent  int
	}{
		{"probe", nil, "SUCCEEDED probe_found", 1},
		{"keyless with a probe", func(c *pawl.Contract) { c.Class, c.Retention = pawl.Unsafe, 0 }, "SUCCEEDED probe_found", 1},
		{"key alone", func(c *pawl.Contract) { c.Probe = nil }, "SUCCEEDED", 2},
		{"key alone, perhaps forgotten", func(c *pawl.Contract) { c.Probe, c.Retention = nil, time.Hour }, "UNKNOWN", 1},
		{"neither", keyless, "UNKNOWN", 1},
		{"a yes", func(c *pawl.Contract) { c.Probe, c.Confirm = nil, &pawl.ConfirmTerms{Always: true} }, "UNKNOWN", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, c.edit, func(h *house) {
				confirmed := h.contract.Confirm
				h.contract.Confirm = nil
				h.want(h.do(h.executor(nil), call(nil)), "SUCCEEDED", 1)
				h.contract.Confirm = confirmed
				ex := h.restored(24 * time.Hour)
				h.want(h.do(ex, call(nil)), c.words, 1)
				if n := h.provider.requests(); n != c.sent {
					t.Errorf("requests: got %d, want %d", n, c.sent)
				}
				if op := h.operation(); op.Status == pawl.Unknown {
					ex.Start()
					if op := h.settled(); op.Status != pawl.Unknown || h.provider.requests() != c.sent {
						t.Errorf("got %s and %d requests, want a person asked and no more sent", op.Status, h.provider.requests())
					}
				}
			})
		})
	}
}

// TestCallsAfterTheRestoreAreSent: what cannot have been made before is sent as ever, and so
// is what was found absent.
func TestCallsAfterTheRestoreAreSent(t *testing.T) {
	t.Run("the time is over", func(t *testing.T) {
		play(t, keyless, func(h *house) {
			ex := h.restored(30 * time.Minute)
			time.Sleep(31 * time.Minute)
			h.want(h.do(ex, call(nil)), "SUCCEEDED", 1)
		})
	})
	t.Run("found absent", func(t *testing.T) {
		play(t, func(c *pawl.Contract) {
			c.Class, c.Retention, c.Probe = pawl.Unsafe, 0, &pawl.ProbeTerms{NegativeProof: true}
		}, func(h *house) {
			ex := h.restored(24 * time.Hour)
			ex.Start()
			h.want(h.do(ex, call(nil)), "UNKNOWN restored", 0)
			op := h.settled()
			if q := op.Contract.Quiescence(); op.Status != pawl.FailedNoEffect || op.Updated.Sub(op.Attempts[1].Permit) <= q {
				t.Errorf("got %s after %v, want FAILED_NO_EFFECT more than %v after the restore", op.Status, op.Updated.Sub(op.Attempts[1].Permit), q)
			}
			h.want(h.do(ex, call(nil)), "SUCCEEDED", 1)
		})
	})
}

// TestOpenOperationsOfACopyAreDoubt: the copy has operations that went on after it was made.
func TestOpenOperationsOfACopyAreDoubt(t *testing.T) {
	later := func(h *house, key string) { // what a permit after the copy did
		h.provider.mu.Lock()
		defer h.provider.mu.Unlock()
		h.provider.ledger = append(h.provider.ledger, key)
	}
	t.Run("provably unsent, then sent", func(t *testing.T) {
		play(t, nil, func(h *house) {
			h.provider.script = []string{"unsent", "unsent", "unsent"}
			h.want(h.do(h.executor(nil), call(nil)), "FAILED_NO_EFFECT not_sent", 0)
			later(h, h.operation().Key.String())
			ex := h.recovered(0)
			h.want(h.do(ex, call(nil)), "SUCCEEDED probe_found", 1)
			if n := h.provider.requests(); n != 0 {
				t.Errorf("requests: got %d, want none", n)
			}
		})
	})
	t.Run("waited for a yes, then sent", func(t *testing.T) {
		play(t, func(c *pawl.Contract) {
			keyless(c)
			c.Confirm = &pawl.ConfirmTerms{Always: true}
		}, func(h *house) {
			h.want(h.do(h.executor(nil), call(nil)), "PREPARED approval_needed", 0)
			later(h, h.operation().Key.String())
			h.recovered(0).Start()
			op := h.settled()
			if op.Status != pawl.Unknown || op.Reason != pawl.ReasonRestored || op.Review.IsZero() || op.ReviewReason != pawl.ReasonRestored {
				t.Errorf("got %s %s, want UNKNOWN restored, and a person asked", op.Status, op.Reason)
			}
			if safe := op.SafeAt(); !safe.Equal(op.Attempts[1].Permit.Add(op.Contract.Quiescence())) {
				t.Errorf("a person may deny it from %v, want the restore + quiescence", safe)
			}
			h.want(pawl.Envelope{}, "*", 1)
		})
	})
	t.Run("provably unsent under a yes that is over", func(t *testing.T) {
		play(t, func(c *pawl.Contract) {
			asking(c)
			c.Probe, c.MaxAttempts = nil, 20
		}, func(h *house) {
			h.provider.script = []string{"unsent", "unsent", "unsent"}
			ex := h.executor(nil)
			h.do(ex, call(nil))
			h.approve(ex)
			h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT not_sent", 0)
			ex = h.recovered(0) // an hour later
			h.want(h.do(ex, call(nil)), "UNKNOWN", 0)
			ex.Start()
			h.settled()
			h.want(pawl.Envelope{}, "*", 0)
		})
	})
	t.Run("in doubt", func(t *testing.T) {
		play(t, func(c *pawl.Contract) { c.Probe = &pawl.ProbeTerms{NegativeProof: true}; c.Retention = 0 }, func(h *house) {
			h.provider.script = []string{"before"}
			h.want(h.do(h.executor(nil), call(nil)), "UNKNOWN", 0)
			time.Sleep(time.Hour)
			h.recovered(0).Start()
			op := h.settled()
			i := slices.IndexFunc(op.Attempts, func(a pawl.Attempt) bool { return a.Kind == pawl.AttemptPresumed })
			if i < 0 || op.Status != pawl.FailedNoEffect || op.Updated.Sub(op.Attempts[i].Permit) <= op.Contract.Quiescence() {
				t.Errorf("got %s at %v with %+v, want quiescence counted from the restore", op.Status, op.Updated, op.Attempts)
			}
		})
	})
}

// TestCompensationAfterARestoreAsksFirst: it may have been made after the copy. No caller has
// to come again for it, so the window says nothing.
func TestCompensationAfterARestoreAsksFirst(t *testing.T) {
	travel(t, func(tr *trip) {
		cancel := tr.terms["cancel_hotel"]
		cancel.Class, cancel.Retention = pawl.Unsafe, 0
		ex := tr.worker(nil)
		tr.do(ex, step("1", "book_hotel"))
		stop(ex)
		r := &pawl.Restore{Copied: time.Now(), At: time.Now().Add(time.Hour), Until: time.Now().Add(2 * time.Hour), By: "ana"}
		time.Sleep(24 * time.Hour)
		var made atomic.Bool
		made.Store(true)
		tr.tools["cancel_hotel"].probe = func(*pawl.Operation) pawl.ProbeResult {
			if !made.Load() {
				return pawl.ProbeResult{Outcome: pawl.Absent}
			}
			return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchKey, Count: 1}
		}
		ex = tr.worker(&pawl.Options{Restore: r})
		ex.Start()
		tr.abort(ex)
		tr.wantOutcomes(tr.over(ex), "book_hotel undone")
		tr.wantEffects(map[string]int{"book_hotel": 1}) // this ledger has not seen what was made before

		made.Store(false)
		late := step("2", "book_flight")
		late.Run = "trip-2"
		tr.do(ex, late)
		if _, err := ex.Abort(context.Background(), "", "trip-2", off); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		tr.wantEffects(map[string]int{"book_hotel": 1, "book_flight": 1, "cancel_flight": 1}) // begun since, undone at once
	})
}
