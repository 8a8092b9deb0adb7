package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

func keyless(c *pawl.Contract) {
	c.Class, c.Retention, c.Probe = pawl.Unsafe, 0, nil
}

func TestOneCallOneEffect(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		env := h.do(ex, call(nil))
		h.want(env, "SUCCEEDED confirmed executed", 1)
		if string(env.Result) == "" || env.ResultRef == "" || env.OperationID == "" {
			t.Errorf("got %+v, want result, reference and operation id", env)
		}
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed replayed", 1)
	})
}

func TestRewordedCallIsReplayed(t *testing.T) { // trials D2, D4, G4
	edit := func(c *pawl.Contract) {
		c.Identity = []pawl.Field{pawl.Text("order_id"), pawl.Money("amount", "currency"), {Name: "currency", Rule: pawl.Rule{Kind: pawl.RuleUpper}}}
	}
	play(t, edit, func(h *house) {
		ex := h.executor(nil)
		h.want(h.do(ex, call(func(c *pawl.Call) {
			c.Args = json.RawMessage(`{"order_id":"A","amount":49.90,"currency":"EUR","reason":"broken"}`)
		})), "SUCCEEDED * executed", 1)
		env := h.do(ex, call(func(c *pawl.Call) {
			c.Args = json.RawMessage(` {"reason":"it came broken", "currency":"eur","amount":"49.9","order_id":" A "}`)
			c.Attributes = map[string]string{"tool_call_id": "another"}
		}))
		h.want(env, "SUCCEEDED * replayed", 1)
		if len(env.Differs) != 1 || env.Differs[0] != "reason" {
			t.Errorf("got differs %q, want the reason", env.Differs)
		}
	})
}

func TestChangedGuardIsRefused(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		env := h.do(ex, call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"A","amount":59.90}`) }))
		h.want(env, "FAILED_NO_EFFECT parameter_mismatch refused", 1)
		if !strings.Contains(env.Message, "amount") || !strings.Contains(env.Message, "SUCCEEDED") || env.OperationID != "" {
			t.Errorf("got %q and operation %q, want the field, the earlier status and no operation", env.Message, env.OperationID)
		}
	})
}

func TestLostAnswerIsSettledByProbeInsideTheTurn(t *testing.T) {
	play(t, nil, func(h *house) {
		h.provider.script = []string{"lost"}
		h.want(h.do(h.executor(nil), call(nil)), "SUCCEEDED probe_found executed", 1)
		if op := h.operation(); op.SettledBy != pawl.ByProbe || h.provider.requests() != 1 {
			t.Errorf("settled by %s after %d requests, want by probe after one", op.SettledBy, h.provider.requests())
		}
	})
}

func TestLateAnswerSettlesTheRecord(t *testing.T) { // trials A11, M1
	play(t, keyless, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow"}, 14*time.Second
		ex := h.executor(nil)
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		defer cancel()
		env, err := ex.Do(ctx, call(nil))
		if err != nil {
			t.Fatal(err)
		}
		h.want(env, "UNKNOWN no_answer executed", 1)
		if took := time.Since(h.began); took > 8*time.Second {
			t.Errorf("answered after %v, want inside the deadline of 8s", took)
		}
		op := h.settled()
		if op.Status != pawl.Succeeded || op.SettledBy != pawl.ByNews || h.provider.requests() != 1 {
			t.Errorf("got %s by %s, %d requests; want SUCCEEDED by late news and one request", op.Status, op.SettledBy, h.provider.requests())
		}
	})
}

func TestToolWithoutKeyOrProbeIsSentOnceAndAsksAPerson(t *testing.T) { // trials A10, B10
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"before"}
		ex := h.executor(nil)
		ex.Start()
		h.want(h.do(ex, call(nil)), "UNKNOWN review_open executed", 0)
		for range 50 {
			h.want(h.do(ex, call(nil)), "UNKNOWN review_open attached", 0)
			time.Sleep(time.Hour)
		}
		if n := h.provider.requests(); n != 1 {
			t.Errorf("got %d requests, want 1 for ever", n)
		}
	})
}

func TestNotSentIsRetriedUnderTheSameKey(t *testing.T) {
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"unsent", "unsent"}
		h.want(h.do(h.executor(nil), call(nil)), "SUCCEEDED confirmed executed", 1)
		if op := h.operation(); len(op.Attempts) != 3 {
			t.Errorf("got %d attempts on record, want 3", len(op.Attempts))
		}
	})
}

func TestRetriesAreCountedForLife(t *testing.T) { // trials A10, M8
	play(t, func(c *pawl.Contract) { keyless(c); c.MaxAttempts = 4 }, func(h *house) {
		for range 20 {
			h.provider.script = append(h.provider.script, "unsent")
		}
		ex := h.executor(nil)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT not_sent executed", 0)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT attempts executed", 0)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT attempts replayed", 0)
		if op := h.operation(); len(op.Attempts) != 4 {
			t.Errorf("got %d attempts, want the cap of 4", len(op.Attempts))
		}
	})
}

func TestBackOffBeyondTheTurnIsNotWaitedFor(t *testing.T) { // trial M7
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"unsent"}
		ctx, cancel := context.WithTimeout(context.Background(), 3300*time.Millisecond)
		defer cancel()
		ex := h.executor(nil)
		env, _ := ex.Do(ctx, call(nil))
		h.want(env, "FAILED_NO_EFFECT not_sent executed", 0)
		if took := time.Since(h.began); took > time.Second {
			t.Errorf("answered after %v, want at once", took)
		}
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
	})
}

func TestCancelDuringBackOffSendsNothingMore(t *testing.T) { // trial M4
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"unsent"}
		ctx, cancel := context.WithCancel(context.Background())
		ex := h.executor(nil)
		time.AfterFunc(50*time.Millisecond, cancel)
		env, _ := ex.Do(ctx, call(nil))
		h.want(env, "FAILED_NO_EFFECT not_sent executed", 0)
		time.Sleep(time.Hour)
		h.want(env, "FAILED_NO_EFFECT", 0)
	})
}

func TestCallerThatHangsUpChangesNothing(t *testing.T) { // NE17
	play(t, keyless, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow"}, 5*time.Second
		ctx, cancel := context.WithCancel(context.Background())
		ex := h.executor(nil)
		time.AfterFunc(time.Second, cancel)
		if env, _ := ex.Do(ctx, call(nil)); env.Status != pawl.Pending {
			t.Errorf("got %s, want PENDING", env.Status)
		}
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed attached", 1)
	})
}

func TestTooLittleTimeStartsNothing(t *testing.T) {
	play(t, nil, func(h *house) {
		ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer cancel()
		env, err := h.executor(nil).Do(ctx, call(nil))
		if err != nil {
			t.Fatal(err)
		}
		h.want(env, "FAILED_NO_EFFECT deadline refused", 0)
		if ops, _ := h.store.Find(context.Background(), pawl.Query{}); len(ops) != 0 || h.provider.requests() != 0 {
			t.Errorf("got %d operations and %d requests, want none", len(ops), h.provider.requests())
		}
	})
}

func TestTooLittleTimeStillReplays(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		env, _ := ex.Do(ctx, call(nil))
		h.want(env, "SUCCEEDED confirmed replayed", 1)
	})
}

func TestIdenticalCallsAtOnceHaveOneEffect(t *testing.T) { // trials D1, D4
	play(t, nil, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow"}, 3*time.Second
		a, b := h.executor(nil), h.executor(nil)
		var mu sync.Mutex
		ids := map[string]int{}
		var wg sync.WaitGroup
		for i := range 20 {
			ex := a
			if i%2 == 1 {
				ex = b
			}
			wg.Go(func() {
				env := h.do(ex, call(nil))
				mu.Lock()
				defer mu.Unlock()
				ids[env.OperationID+" "+string(env.Status)]++
			})
		}
		wg.Wait()
		if len(ids) != 1 || h.provider.requests() != 1 {
			t.Errorf("got answers %v and %d requests, want one operation, SUCCEEDED, one request", ids, h.provider.requests())
		}
	})
}

func TestDeadWorkersOperationIsReconciledNotRepeated(t *testing.T) { // trials E7, E10
	play(t, nil, func(h *house) {
		h.provider.script = []string{"hang"}
		dead := h.executor(nil)
		go dead.Do(context.Background(), call(nil))
		time.Sleep(time.Second)
		h.store.SetFaults(storetest.Faults{ // what a dead worker writes is nothing
			BeforeApply: func(*pawl.Change) error { return pawl.ErrStoreFailed },
			BeforeRenew: func(pawl.ID) error { return pawl.ErrStoreFailed },
		})
		time.Sleep(time.Minute)
		h.store.SetFaults(storetest.Faults{})
		alive := h.executor(nil)
		alive.Start()
		op := h.settled()
		if op.Status != pawl.Succeeded || op.SettledBy != pawl.ByProbe || h.provider.requests() != 1 {
			t.Errorf("got %s by %s after %d requests, want SUCCEEDED by probe after one", op.Status, op.SettledBy, h.provider.requests())
		}
	})
}

func TestLongAttemptKeepsItsLease(t *testing.T) { // trials E1, F4, F5
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Timeout, c.Linger, c.Flight = 5*time.Minute, time.Minute, 20*time.Minute
	}
	play(t, edit, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow"}, 200*time.Second
		busy, other := h.executor(nil), h.executor(nil)
		other.Start()
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
		defer cancel()
		env, err := busy.Do(ctx, call(nil))
		if err != nil {
			t.Fatal(err)
		}
		h.want(env, "SUCCEEDED confirmed executed", 1)
		if op := h.operation(); op.Version != 2 {
			t.Errorf("got %d changes, want intent and outcome only: nobody took over", op.Version)
		}
	})
}

func TestResendIsByteEqualAndOnlyAfterAbsence(t *testing.T) { // trials H7, H10
	play(t, nil, func(h *house) {
		h.provider.script = []string{"before", "ok"}
		h.want(h.do(h.executor(nil), call(nil)), "SUCCEEDED confirmed executed", 1)
		if s := h.provider.sends; len(s) != 2 || s[0] != s[1] {
			t.Errorf("got requests %q, want two equal ones", s)
		}
		if op := h.operation(); op.SettledBy != pawl.ByResend || h.provider.probes < 2 {
			t.Errorf("settled by %s after %d probes, want by resend after two absent ones", op.SettledBy, h.provider.probes)
		}
	})
}

func TestNothingIsResentPastRetention(t *testing.T) { // trial H2
	play(t, func(c *pawl.Contract) { c.Retention = 10 * time.Minute }, func(h *house) {
		h.provider.script = []string{"before"}
		ex := h.executor(nil)
		ex.Start()
		h.do(ex, call(nil))
		op := h.settled()
		if op.Status != pawl.Unknown || h.provider.requests() != 1 {
			t.Errorf("got %s after %d requests, want UNKNOWN after one: flight is longer than the retention", op.Status, h.provider.requests())
		}
	})
}

func TestAbsentAfterQuiescenceSettlesAndARepeatIsANewGeneration(t *testing.T) {
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Probe = &pawl.ProbeTerms{NegativeProof: true}
	}
	play(t, edit, func(h *house) {
		h.provider.script = []string{"before"}
		ex := h.executor(nil)
		ex.Start()
		env := h.do(ex, call(nil))
		h.want(env, "UNKNOWN * executed", 0)
		op := h.settled()
		if op.Status != pawl.FailedNoEffect || op.Reason != pawl.ReasonAbsent || time.Since(h.began) < 16*time.Minute {
			t.Errorf("got %s (%s) after %v, want FAILED_NO_EFFECT absent after quiescence", op.Status, op.Reason, time.Since(h.began))
		}
		again := h.do(ex, call(nil))
		h.want(again, "SUCCEEDED confirmed executed", 1)
		if again.OperationID == env.OperationID {
			t.Error("got the same operation, want a new generation with its own key")
		}
	})
}

func TestStaleAbsenceOfALyingProbeIsNotBelieved(t *testing.T) { // trial J1
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Probe = &pawl.ProbeTerms{Lag: time.Minute, NegativeProof: true}
	}
	play(t, edit, func(h *house) {
		h.provider.script = []string{"lost"}
		h.provider.probe = func(op *pawl.Operation) pawl.ProbeResult {
			if time.Since(h.began) < 40*time.Second {
				return pawl.ProbeResult{Outcome: pawl.Absent}
			}
			return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchMarker, Count: 1}
		}
		ex := h.executor(nil)
		ex.Start()
		h.want(h.do(ex, call(nil)), "UNKNOWN * executed", 1)
		if op := h.settled(); op.Status != pawl.Succeeded || h.provider.requests() != 1 {
			t.Errorf("got %s after %d requests, want SUCCEEDED after one", op.Status, h.provider.requests())
		}
	})
}

func TestResultLostIsReadAgain(t *testing.T) { // trials C4, C5
	play(t, nil, func(h *house) {
		h.provider.script = []string{"empty"}
		env := h.do(h.executor(nil), call(nil))
		h.want(env, "SUCCEEDED confirmed executed", 1)
		if string(env.Result) == "" || h.provider.requests() != 1 {
			t.Errorf("got result %s after %d requests, want the probe's after one", env.Result, h.provider.requests())
		}
	})
}

func TestDefiniteRejectionIsReplayedUnlessTheContractOpensANewGeneration(t *testing.T) { // trials H1, C8
	play(t, nil, func(h *house) {
		h.provider.script = []string{"reject"}
		ex := h.executor(nil)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT rejected executed", 0)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT rejected replayed", 0)
	})
}

func TestNewGenerationAfterRejectionHasItsOwnKeyAndACap(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.AfterRejection = pawl.AfterRejectionNewGeneration }, func(h *house) {
		h.provider.script = []string{"reject", "reject", "reject", "reject"}
		ex := h.executor(nil)
		for range 3 {
			h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT rejected executed", 0)
		}
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT generations refused", 0)
		seen := map[string]bool{}
		for _, s := range h.provider.sends {
			seen[strings.Fields(s)[0]] = true
		}
		if len(seen) != 3 {
			t.Errorf("got %d keys, want 3", len(seen))
		}
	})
}

func TestTransientRejectionReopensUnderTheSameKey(t *testing.T) { // trial A4
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"busy", "busy", "busy"}
		ex := h.executor(nil)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT transient executed", 0)
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
		for _, s := range h.provider.sends {
			if s != h.provider.sends[0] {
				t.Errorf("got requests %q, want equal ones", h.provider.sends)
			}
		}
	})
}

func TestAnotherStepIsAnotherEffectUnlessTheContractWantsAWord(t *testing.T) { // trials D5, H11
	second := func(c *pawl.Call) { c.Step = "2" }
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		h.want(h.do(ex, call(second)), "SUCCEEDED confirmed executed", 2)
	})
}

func TestRepeatExplicitNeedsTheHostsWord(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Repeat = pawl.RepeatExplicit }, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "SUCCEEDED done_elsewhere replayed", 1)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step, c.Again = "3", true })), "SUCCEEDED confirmed executed", 2)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Again = true })), "SUCCEEDED confirmed replayed", 2)
	})
}

func TestOpenOperationHoldsEveryOtherStep(t *testing.T) { // rule 17
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"lost"}
		ex := h.executor(nil)
		first := h.do(ex, call(nil))
		env := h.do(ex, call(func(c *pawl.Call) { c.Step = "2" }))
		h.want(env, "UNKNOWN review_open replayed", 1)
		if env.OperationID != first.OperationID || h.provider.requests() != 1 {
			t.Errorf("got operation %s after %d requests, want the earlier one after one", env.OperationID, h.provider.requests())
		}
	})
}

func TestSubjectLockHoldsOtherOperationsOnTheSubject(t *testing.T) {
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Identity = []pawl.Field{pawl.Text("order_id"), pawl.Text("what")}
		c.Serialize = []string{"order_id"}
	}
	args := func(order, what string) func(*pawl.Call) {
		return func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"` + order + `","what":"` + what + `"}`) }
	}
	play(t, edit, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow", "lost"}, 5*time.Second
		ex := h.executor(nil)
		var wg sync.WaitGroup
		wg.Go(func() { h.do(ex, call(args("A", "first"))) })
		time.Sleep(time.Second)
		env := h.do(ex, call(args("A", "second"))) // waits for the first, then is lost itself
		wg.Wait()
		h.want(env, "UNKNOWN review_open executed", 2)
		h.want(h.do(ex, call(args("A", "third"))), "FAILED_NO_EFFECT subject_busy refused", 2)
		h.want(h.do(ex, call(args("B", "first"))), "SUCCEEDED confirmed executed", 3)
	})
}

func TestActorsAndTenantsDoNotMeet(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		ana := h.do(ex, call(func(c *pawl.Call) { c.Tenant, c.Actor = "acme", "ana" }))
		bob := h.do(ex, call(func(c *pawl.Call) { c.Tenant, c.Actor = "acme", "bob" }))
		h.want(bob, "SUCCEEDED not_yours replayed", 1)
		if bob.Result != nil || bob.ResultRef != "" {
			t.Errorf("another actor got %s %q, want neither result nor reference", bob.Result, bob.ResultRef)
		}
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Tenant, c.Actor = "other", "ana" })), "SUCCEEDED confirmed executed", 2)
		id, err := pawl.ParseID(ana.OperationID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ex.Status(context.Background(), "other", "ana", id); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("status across tenants: got %v, want ErrNotFound", err)
		}
	})
}

func TestPanicOfAPortIsUnknown(t *testing.T) { // PR16
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"panic"}
		h.want(h.do(h.executor(nil), call(nil)), "UNKNOWN review_open executed", 1)
	})
}

func TestStopLosesNothing(t *testing.T) { // PR15
	play(t, nil, func(h *house) {
		h.provider.script = []string{"hang"}
		ex := h.executor(nil)
		var env pawl.Envelope
		var wg sync.WaitGroup
		wg.Go(func() { env, _ = ex.Do(context.Background(), call(nil)) })
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		ex.Stop(ctx)
		if took := time.Since(h.began); took > 4*time.Second {
			t.Errorf("stopped after %v, want soon after its context ended", took)
		}
		wg.Wait()
		h.want(env, "UNKNOWN * executed", 1)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2"; c.Args = json.RawMessage(`{"order_id":"B"}`) })), "FAILED_NO_EFFECT stopping refused", 1)
		next := h.executor(nil)
		next.Start()
		if op := h.settled(); op.Status != pawl.Succeeded {
			t.Errorf("got %s, want SUCCEEDED", op.Status)
		}
	})
}

func TestOutcomeThatCannotBeWrittenIsNotTold(t *testing.T) { // F6
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		h.store.SetFaults(storetest.Faults{BeforeApply: func(*pawl.Change) error { return pawl.ErrStoreFailed }})
		env, _ := ex.Do(context.Background(), call(nil))
		if env.Status == pawl.Succeeded || env.Status == pawl.FailedNoEffect {
			t.Errorf("got %s, want neither success nor no effect: nothing was recorded", env.Status)
		}
		h.store.SetFaults(storetest.Faults{})
		next := h.executor(nil)
		next.Start()
		time.Sleep(time.Minute)
		if op := h.settled(); op.Status != pawl.Succeeded || h.provider.requests() != 1 {
			t.Errorf("got %s after %d requests, want SUCCEEDED after one", op.Status, h.provider.requests())
		}
	})
}

func TestIntentThatCannotBeWrittenIsNotSent(t *testing.T) { // SQ1
	for _, f := range []struct {
		err  error
		want string
	}{{pawl.ErrFull, "FAILED_NO_EFFECT store refused"}, {pawl.ErrBusy, "FAILED_NO_EFFECT store refused"}, {pawl.ErrStoreFailed, "UNKNOWN store *"}} {
		t.Run(f.err.Error(), func(t *testing.T) {
			play(t, nil, func(h *house) {
				h.store.SetFaults(storetest.Faults{BeforeBegin: func(*pawl.Operation) error { return f.err }})
				env, err := h.executor(nil).Do(context.Background(), call(nil))
				if !errors.Is(err, f.err) {
					t.Errorf("got error %v, want %v", err, f.err)
				}
				h.want(env, f.want, 0)
				if h.provider.requests() != 0 {
					t.Error("a request was sent without a record")
				}
			})
		})
	}
}

func TestSnapshotIsReadBeforeEachGenerationAndRetry(t *testing.T) {
	play(t, func(c *pawl.Contract) { keyless(c); c.Snapshot = true }, func(h *house) {
		h.provider.script, h.provider.state = []string{"unsent"}, "clean"
		ex := h.executor(nil)
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
		if n := len(h.provider.before); n != 2 {
			t.Errorf("got %d snapshots, want one before each attempt", n)
		}
		if op := h.operation(); string(op.Before) != `{"state":"clean"}` {
			t.Errorf("got before %s", op.Before)
		}
		h.do(ex, call(nil))
		if n := len(h.provider.before); n != 2 {
			t.Errorf("got %d snapshots after a replay, want no further one", n)
		}
		h.provider.state = "unreadable"
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "FAILED_NO_EFFECT snapshot executed", 1)
	})
}

func TestPersonDecides(t *testing.T) { // HU4, HU5
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"before"}
		ex := h.executor(nil)
		id, _ := pawl.ParseID(h.do(ex, call(nil)).OperationID)
		op := h.operation()
		settle := func(d pawl.Decision) error {
			_, err := ex.Decide(context.Background(), "", id, d)
			return err
		}
		refusal := func(err error) pawl.RefusalCode {
			var r *pawl.Refusal
			errors.As(err, &r)
			if r == nil {
				return ""
			}
			return r.Why
		}
		for _, x := range []struct {
			d    pawl.Decision
			want pawl.RefusalCode
		}{
			{pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Version: op.Version, Who: "ana"}, pawl.RefusedInput},
			{pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Version: op.Version - 1, Who: "ana", Why: "looked"}, pawl.RefusedVersion},
			{pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Version: op.Version, Who: "ana", Why: strings.Repeat("x", pawl.MaxDecision+1)}, pawl.RefusedInput},
			{pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Version: op.Version, Who: strings.Repeat("x", pawl.MaxDecision+1), Why: "looked"}, pawl.RefusedInput},
			{pawl.Decision{Choice: pawl.ChoiceHappened, Version: op.Version, Who: "ana", Why: "looked", Ref: strings.Repeat("x", pawl.MaxDecision+1)}, pawl.RefusedInput},
			{pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Version: op.Version, Who: "ana", Why: "looked", Waiver: strings.Repeat("x", pawl.MaxDecision+1)}, pawl.RefusedInput},
			{pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Version: op.Version, Who: "ana", Why: "not there"}, pawl.RefusedEarly},
		} {
			if got := refusal(settle(x.d)); got != x.want {
				t.Errorf("%+v: got %q, want %q", x.d, got, x.want)
			}
		}
		time.Sleep(20 * time.Minute)
		if err := settle(pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Version: op.Version, Who: "ana", Why: strings.Repeat("x", pawl.MaxDecision)}); err != nil {
			t.Fatal(err)
		}
		if op := h.operation(); op.Status != pawl.FailedNoEffect || op.SettledBy != pawl.ByPerson {
			t.Errorf("got %s by %s", op.Status, op.SettledBy)
		}
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
	})
}

func TestBadCallsAreRefusedWithAReason(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		for args, want := range map[string]string{
			`{"order_id":"A","order_id":"B"}`: "invalid_arguments",
			`{"order_id":"A","amount":NaN}`:   "invalid_arguments",
			`["A"]`:                           "invalid_arguments",
			`{"order_id":"A"`:                 "invalid_arguments",
			`{"order_id":null}`:               "identity_missing",
			`{"order_id":""}`:                 "identity_missing",
			`{}`:                              "identity_missing",
			``:                                "identity_missing",
			`{"order_id":{"a":1}}`:            "invalid_arguments",
			`{"order_id":"A","x":"` + strings.Repeat("y", 2<<20) + `"}`: "invalid_arguments",
		} {
			env := h.do(ex, call(func(c *pawl.Call) { c.Args = json.RawMessage(args) }))
			h.want(env, "FAILED_NO_EFFECT "+want+" refused", 0)
			if len(env.Message) > 500 {
				t.Errorf("%.20s: message of %d bytes", args, len(env.Message))
			}
		}
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Tool = "nope" })), "FAILED_NO_EFFECT unknown_tool refused", 0)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Run = "" })), "FAILED_NO_EFFECT run_required refused", 0)
		long := strings.Repeat("r", 300)
		for name, change := range map[string]func(*pawl.Call){
			"run:":        func(c *pawl.Call) { c.Run = long },
			"parent run:": func(c *pawl.Call) { c.ParentRun = long },
			"step:":       func(c *pawl.Call) { c.Step = long },
			"tenant:":     func(c *pawl.Call) { c.Tenant = long },
			"actor:":      func(c *pawl.Call) { c.Actor = long },
			"attributes:": func(c *pawl.Call) { c.Attributes = map[string]string{"a": long} },
		} {
			env := h.do(ex, call(change))
			h.want(env, "FAILED_NO_EFFECT label_invalid refused", 0)
			if env.NextAction != pawl.Stop || env.RetrySafe || !strings.Contains(env.Message, name) {
				t.Errorf("%s got %s, retry safe %v, %q: the host's mistake is nothing for the model", name, env.NextAction, env.RetrySafe, env.Message)
			}
		}
	})
}

func TestReadsAreNotRecorded(t *testing.T) {
	play(t, func(c *pawl.Contract) { *c = pawl.Contract{Tool: "refund", Class: pawl.Read} }, func(h *house) {
		ex := h.executor(nil)
		env := h.do(ex, call(func(c *pawl.Call) { c.Run = "" }))
		if env.Status != pawl.Succeeded || env.OperationID != "" {
			t.Errorf("got %s, operation %q", env.Status, env.OperationID)
		}
		h.provider.script = []string{"lost"}
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT read refused", 2)
		if ops, _ := h.store.Find(context.Background(), pawl.Query{}); len(ops) != 0 {
			t.Errorf("got %d operations, want none", len(ops))
		}
	})
}
