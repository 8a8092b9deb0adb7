package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

func TestHostsWordCoversOneStepOnly(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Repeat = pawl.RepeatExplicit }, func(h *house) {
		ex := h.executor(nil)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Again = true })), "SUCCEEDED confirmed executed", 1)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "SUCCEEDED done_elsewhere replayed", 1)
	})
}

func TestCallWithoutAStepSeesTheSuccessOfAStep(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "" })), "SUCCEEDED done_elsewhere replayed", 1)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "SUCCEEDED confirmed executed", 2)
	})
}

func TestStepsAtTheSameTimeAreTwoEffectsOneAfterTheOther(t *testing.T) { // trial D5
	play(t, nil, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow"}, 3*time.Second
		ex := h.executor(nil)
		var wg sync.WaitGroup
		wg.Go(func() { ex.Do(context.Background(), call(nil)) })
		time.Sleep(time.Second)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "SUCCEEDED confirmed executed", 2)
		wg.Wait()
	})
}

func TestChangedScopeDoesNotOrphanAnOpenOperation(t *testing.T) {
	play(t, func(c *pawl.Contract) { keyless(c); c.Scope = pawl.ScopeRun }, func(h *house) {
		h.provider.script = []string{"lost"}
		h.do(h.executor(nil), call(nil))
		h.contract.Scope = pawl.ScopeStep
		h.want(h.do(h.executor(nil), call(nil)), "UNKNOWN review_open replayed", 1)
	})
}

func TestTermsThatOverflowAreRefused(t *testing.T) {
	t.Parallel()
	base := pawl.Contract{Tool: "x", IdentityNone: true}
	for name, edit := range map[string]func(*pawl.Contract){
		"flight":          func(c *pawl.Contract) { c.Flight = math.MaxInt64 },
		"pause":           func(c *pawl.Contract) { c.Pause = math.MaxInt64 },
		"probe.lag":       func(c *pawl.Contract) { c.Probe = &pawl.ProbeTerms{Lag: math.MaxInt64} },
		"fence.tombstone": func(c *pawl.Contract) { c.Fence = &pawl.FenceTerms{Tombstone: -1} },
		"max_attempts":    func(c *pawl.Contract) { c.MaxAttempts = -1 },
		"max_generations": func(c *pawl.Contract) { c.MaxGenerations = 1 << 30 },
	} {
		c := base
		edit(&c)
		var wrong *pawl.TermError
		if err := c.Validate(); !errors.As(err, &wrong) || wrong.Term != name {
			t.Errorf("%s: got %v, want a refusal of the term", name, err)
		}
	}
}

func TestRefusalsNeverDenyWhatTheRecordKnows(t *testing.T) {
	for name, hinder := range map[string]func(h *house, ex *pawl.Executor) context.Context{
		"stopping": func(_ *house, ex *pawl.Executor) context.Context { stop(ex); return context.Background() },
		"no time left": func(*house, *pawl.Executor) context.Context {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx
		},
		"busy store": func(h *house, _ *pawl.Executor) context.Context {
			h.store.SetFaults(storetest.Faults{BeforeBegin: func(*pawl.Operation) error { return pawl.ErrBusy }})
			return context.Background()
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, keyless, func(h *house) {
				h.provider.script = []string{"ok", "lost"}
				ex := h.executor(nil)
				h.do(ex, call(nil))
				other := call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"B"}`) })
				h.do(ex, other)
				ctx := hinder(h, ex)
				done, _ := ex.Do(ctx, call(nil))
				h.want(done, "SUCCEEDED confirmed replayed", 2)
				doubt, _ := ex.Do(ctx, other)
				h.want(doubt, "UNKNOWN review_open attached", 2)
			})
		})
	}
}

func TestIntentThatMayBeWrittenIsDoubt(t *testing.T) { // rule 14
	play(t, nil, func(h *house) {
		h.store.SetFaults(storetest.Faults{AfterBegin: func(*pawl.Operation) error { return errors.New("connection reset by peer") }})
		env, err := h.executor(nil).Do(context.Background(), call(nil))
		if err == nil || env.OperationID == "" {
			t.Errorf("got error %v and operation %q, want both", err, env.OperationID)
		}
		h.want(env, "UNKNOWN store refused", 0)
		h.store.SetFaults(storetest.Faults{Find: func(pawl.Query) error { return pawl.ErrStoreFailed }, BeforeBegin: func(*pawl.Operation) error { return pawl.ErrFull }})
		env, _ = h.executor(nil).Do(context.Background(), call(nil))
		h.want(env, "UNKNOWN store refused", 0)
	})
}

func TestDeadWorkersOperationIsReportedAsUnknown(t *testing.T) {
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"hang"}
		ex := h.executor(nil)
		h.store.SetFaults(storetest.Faults{
			BeforeApply: func(*pawl.Change) error { return pawl.ErrStoreFailed },
			BeforeRenew: func(pawl.ID) error { return pawl.ErrStoreFailed },
		})
		env, _ := ex.Do(context.Background(), call(nil))
		time.Sleep(time.Hour)
		id, _ := pawl.ParseID(env.OperationID)
		now, err := ex.Status(context.Background(), "", "", id)
		if err != nil {
			t.Fatal(err)
		}
		h.want(now, "UNKNOWN owner_lost reported", 1)
	})
}

// TestAnswerThatCannotBeWrittenLeavesNoLimbo: an UNKNOWN whose late answer was lost on the
// way to the record must still move.
func TestAnswerThatCannotBeWrittenLeavesNoLimbo(t *testing.T) {
	play(t, keyless, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow"}, 14*time.Second
		ex := h.executor(nil)
		ex.Start()
		failed := false
		h.store.SetFaults(storetest.Faults{BeforeApply: func(c *pawl.Change) error {
			if strings.Contains(string(c.Entry), `"event":"answer"`) && !failed {
				failed = true
				return errors.New("disk I/O error")
			}
			return nil
		}})
		h.do(ex, call(nil))
		if op := h.settled(); op.Status != pawl.Unknown || !failed {
			t.Errorf("got %s, want UNKNOWN with an open review", op.Status)
		}
	})
}

func TestPortThatIgnoresItsContextHoldsNothingUp(t *testing.T) {
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"deaf"}
		ex := h.executor(nil)
		ex.Start()
		h.want(h.do(ex, call(nil)), "UNKNOWN review_open executed", 1)
		began := time.Now()
		stop(ex)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Stop took %v, want it not to wait for the port", took)
		}
		time.Sleep(48 * time.Hour) // the function returns at last: late news
		if op := h.operation(); op.Status != pawl.Succeeded || op.SettledBy != pawl.ByNews {
			t.Errorf("got %s by %s, want the late answer to settle it", op.Status, op.SettledBy)
		}
	})
}

func TestSlowProbeKeepsTheLease(t *testing.T) {
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Timeout, c.Probe = 2*time.Minute, &pawl.ProbeTerms{}
	}
	play(t, edit, func(h *house) {
		h.provider.script = []string{"before"}
		var mu sync.Mutex
		running, most := 0, 0
		h.provider.slowProbe = func(ctx context.Context, enter bool) {
			mu.Lock()
			defer mu.Unlock()
			if enter {
				running++
				most = max(most, running)
				return
			}
			running--
		}
		ex := h.executor(nil)
		ex.Start()
		h.do(ex, call(nil))
		time.Sleep(20 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if most != 1 {
			t.Errorf("got %d probes of one operation at once, want 1", most)
		}
	})
}

func TestSuccessOfAnotherStepIsRecordedAlthoughItsClaimIsTaken(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Repeat = pawl.RepeatExplicit }, func(h *house) {
		h.provider.script = []string{"reject", "ok"}
		ex := h.executor(nil)
		first := h.do(ex, call(nil))
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "SUCCEEDED confirmed executed", 1)
		id, _ := pawl.ParseID(first.OperationID)
		op, err := h.store.Get(context.Background(), "", id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ex.Decide(context.Background(), "", id, pawl.Decision{Choice: pawl.ChoiceHappened, Who: "ana", Why: "it is in the books", Version: op.Version}); err != nil {
			t.Errorf("settle: got %v, want the proof to win", err)
		}
	})
}

func TestRetryThatWouldRunBesideAnotherStepWaits(t *testing.T) {
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"busy", "busy", "busy", "lost"}
		ex := h.executor(nil)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT transient executed", 0)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "UNKNOWN * executed", 1)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT subject_busy refused", 1)
	})
}

func TestPanicsOfPortsAndObserversStayWithThem(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Snapshot = true }, func(h *house) {
		ex := h.executor(&pawl.Options{Observers: []*pawl.Observer{{Changed: func(context.Context, *pawl.Operation, *pawl.Entry) { panic("observer") }}}})
		h.provider.state = "panic"
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT snapshot executed", 0)
		h.provider.state = ""
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
		h.provider.prepare = func() { panic("prepare") }
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "FAILED_NO_EFFECT invalid_arguments refused", 1)
	})
}

func TestOpenCallsAreBounded(t *testing.T) {
	play(t, keyless, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow", "slow"}, 5*time.Second
		ex := h.executor(&pawl.Options{MaxOpen: 1})
		var wg sync.WaitGroup
		wg.Go(func() { ex.Do(context.Background(), call(nil)) })
		time.Sleep(time.Second)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"B"}`) })), "FAILED_NO_EFFECT busy refused", 1)
		wg.Wait()
	})
}

func TestRepeatsDoNotGrowTheHistory(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Probe = nil }, func(h *house) {
		for range 20 {
			h.provider.script = append(h.provider.script, "before")
		}
		ex := h.executor(nil)
		ctx := func() context.Context {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			h.t.Cleanup(cancel)
			return ctx
		}
		ex.Do(ctx(), call(nil))
		for range 200 {
			ex.Do(ctx(), call(nil))
		}
		if op := h.operation(); op.Version > 40 {
			t.Errorf("got %d changes after 200 repeats, want no more than attempts make", op.Version)
		}
	})
}

// TestRepeatsAskTheProviderOnce: a call about an old UNKNOWN asks once ahead of schedule,
// however long its turn is.
func TestRepeatsAskTheProviderOnce(t *testing.T) {
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Probe = &pawl.ProbeTerms{}
	}
	play(t, edit, func(h *house) {
		h.provider.script = []string{"before"}
		ex := h.executor(nil)
		ex.Start()
		h.do(ex, call(nil))
		h.settled()
		before := h.provider.probes
		for range 10 {
			h.want(h.do(ex, call(nil)), "UNKNOWN review_open attached", 0)
			time.Sleep(time.Minute)
		}
		if n := h.provider.probes - before; n > 12 {
			t.Errorf("got %d probes for 10 repeats, want about one each", n)
		}
	})
}

func TestLateNewsInsideTheTurnIsWaitedFor(t *testing.T) { // rung 1
	play(t, keyless, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow"}, 14*time.Second
		h.want(h.do(h.executor(nil), call(nil)), "SUCCEEDED late_news executed", 1)
	})
}

func TestAttachedCallerUsesItsOwnTurn(t *testing.T) {
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Probe = &pawl.ProbeTerms{Lag: 20 * time.Second}
	}
	play(t, edit, func(h *house) {
		h.provider.script = []string{"lost"}
		h.provider.probe = func(*pawl.Operation) pawl.ProbeResult {
			if time.Since(h.began) < 8*time.Second {
				return pawl.ProbeResult{Outcome: pawl.Absent}
			}
			return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchMarker, Count: 1}
		}
		ex := h.executor(nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			defer cancel()
			ex.Do(ctx, call(nil))
		})
		time.Sleep(time.Second)
		h.want(h.do(ex, call(nil)), "SUCCEEDED probe_found attached", 1)
		wg.Wait()
	})
}

func TestHangingStoreDoesNotHoldACallerPastItsDeadline(t *testing.T) {
	play(t, nil, func(h *house) {
		hang := make(chan struct{})
		h.store.SetFaults(storetest.Faults{BeforeApply: func(*pawl.Change) error { <-hang; return nil }})
		ex := h.executor(nil)
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
		defer cancel()
		env, _ := ex.Do(ctx, call(nil))
		if took := time.Since(h.began); took > 6*time.Second || env.Status != pawl.Pending {
			t.Errorf("got %s after %v, want PENDING inside the deadline", env.Status, took)
		}
		close(hang)
	})
}

func TestResultsThatCannotBeKeptAreStillSuccesses(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Probe = nil }, func(h *house) {
		ex := h.executor(nil)
		h.provider.script = []string{"garbage"}
		h.want(h.do(ex, call(nil)), "SUCCEEDED result_lost executed", 1)
		h.provider.script = []string{"huge"}
		env := h.do(ex, call(func(c *pawl.Call) { c.Step = "2" }))
		h.want(env, "SUCCEEDED result_cut executed", 2)
		if len(env.Result) != 0 || env.ResultRef == "" {
			t.Errorf("got %d bytes of result and reference %q, want none and the reference", len(env.Result), env.ResultRef)
		}
	})
}

// TestEffectThatOthersUndoLater: the record says what was true when it was settled, and when
// that was. Nothing is sent for what somebody else has undone since.
func TestEffectThatOthersUndoLater(t *testing.T) { // RE11
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		h.want(h.do(ex, call(nil)), "SUCCEEDED", 1)
		settled := h.operation().Updated
		h.provider.mu.Lock()
		h.provider.ledger = nil
		h.provider.mu.Unlock()
		time.Sleep(48 * time.Hour)
		h.want(h.do(ex, call(nil)), "SUCCEEDED * replayed", 0)
		if op := h.operation(); !op.Updated.Equal(settled) || h.provider.requests() != 1 {
			t.Errorf("got %d requests and a record of %v, want one and that of %v", h.provider.requests(), op.Updated, settled)
		}
	})
}
