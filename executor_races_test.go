package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestAttachedCallerDoesNotSpin: while another call's attempt is listened to beyond this
// turn, or the record cannot be read, the attached call waits. In fake time a call that
// looks again without waiting never ends.
func TestAttachedCallerDoesNotSpin(t *testing.T) {
	play(t, keyless, func(h *house) {
		h.provider.script = []string{"hang"}
		owner, other := h.executor(nil), h.executor(nil)
		go owner.Do(context.Background(), call(nil))
		time.Sleep(12 * time.Second)
		short := func(ex *pawl.Executor) pawl.Envelope {
			ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
			defer cancel()
			env, err := ex.Do(ctx, call(nil))
			if err != nil {
				t.Fatal(err)
			}
			return env
		}
		h.want(short(owner), "UNKNOWN no_answer attached", 1)
		h.store.SetFaults(storetest.Faults{Get: func(pawl.ID) error { return pawl.ErrBusy }})
		h.want(short(other), "UNKNOWN no_answer attached", 1)
		h.store.SetFaults(storetest.Faults{})
	})
}

// TestRetryThatMayBeRecordedIsDoubt: the store keeps the permit of a retry and says that it
// failed. Whoever reads it next takes it for used and may send; "no effect" would be false.
func TestRetryThatMayBeRecordedIsDoubt(t *testing.T) { // rule 14, K24
	play(t, nil, func(h *house) {
		h.provider.script = []string{"unsent"}
		h.store.SetFaults(storetest.Faults{AfterApply: func(c *pawl.Change) error {
			if bytes.Contains(c.Entry, []byte(`"event":"retry"`)) {
				return pawl.ErrStoreFailed
			}
			return nil
		}})
		h.want(h.do(h.executor(nil), call(nil)), "UNKNOWN store executed", 0)
		h.store.SetFaults(storetest.Faults{})
		next := h.executor(nil)
		next.Start()
		if op := h.settled(); op.Status != pawl.Succeeded || h.provider.effects() != 1 {
			t.Errorf("got %s and %d effects, want SUCCEEDED and one: the permit was on record", op.Status, h.provider.effects())
		}
	})
}

// TestRetryOvertakenByAnotherWorkerTellsItsOutcome: while one worker pauses before its
// retry, a call at another one reopens the operation and sends.
func TestRetryOvertakenByAnotherWorkerTellsItsOutcome(t *testing.T) {
	play(t, keyless, func(h *house) {
		h.provider.script, h.provider.delay = []string{"unsent", "slow"}, 5*time.Second
		slow, fast := h.executor(nil), h.executor(nil)
		var wg sync.WaitGroup
		wg.Go(func() { h.want(h.do(slow, call(nil)), "SUCCEEDED confirmed executed", 1) })
		time.Sleep(50 * time.Millisecond)
		h.want(h.do(fast, call(nil)), "SUCCEEDED confirmed executed", 1)
		wg.Wait()
	})
}

// TestSubjectStaysClaimedWhileACopyMayLand: two requests of a convergent operation are out
// and one has set the state. The other one may land as late as its flight, over a later
// change of the subject, which therefore waits.
func TestSubjectStaysClaimedWhileACopyMayLand(t *testing.T) {
	for _, swept := range []bool{false, true} {
		t.Run(fmt.Sprintf("swept %v", swept), func(t *testing.T) {
			edit := func(c *pawl.Contract) {
				keyless(c)
				c.Class, c.ConvergentFor = pawl.Convergent, time.Minute
				c.Identity, c.Serialize = []pawl.Field{pawl.Text("order_id"), pawl.Text("zip")}, []string{"order_id"}
			}
			zip := func(zip string) pawl.Call {
				return call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"A","zip":"` + zip + `"}`) })
			}
			play(t, edit, func(h *house) {
				h.provider.script = []string{"before"} // for all that the client can tell
				ex := h.executor(nil)
				if swept {
					ex.Start()
				}
				h.want(h.do(ex, zip("1000")), "SUCCEEDED confirmed executed", 1)
				h.want(h.do(ex, zip("2000")), "FAILED_NO_EFFECT subject_busy refused", 1)
				time.Sleep(17 * time.Minute) // flight and pause, counted from the second permit
				if op := h.operation(); swept && (!op.Quiet.IsZero() || !op.Due.IsZero()) {
					t.Errorf("got quiet %v, due %v; want the subject let go of", op.Quiet, op.Due)
				}
				h.want(h.do(ex, zip("2000")), "SUCCEEDED confirmed executed", 2)
			})
		})
	}
}

// TestSnapshotIsReadWhileTheSubjectIsHeld: a probe compares the state with the one before
// the attempt. Read before the operation holds its subject, that would be the state before
// another operation, whose change would then be taken for this one's.
func TestSnapshotIsReadWhileTheSubjectIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := storetest.NewMemory()
		var changes atomic.Int64
		c := pawl.Contract{
			Tool: "book", Identity: []pawl.Field{pawl.Text("order_id"), pawl.Text("what")}, Serialize: []string{"order_id"}, Snapshot: true,
		}
		tool := pawl.NewFunc(c, func(context.Context, struct{}) (int64, error) { return changes.Add(1), nil }, &pawl.FuncOptions{
			Snapshot: func(context.Context, *pawl.Invocation) (json.RawMessage, error) {
				n := changes.Load()
				time.Sleep(2 * time.Second)
				return json.Marshal(n)
			},
		})
		ex := pawl.New(store, nil)
		if err := ex.Register(tool); err != nil {
			t.Fatal(err)
		}
		defer stop(ex)
		var wg sync.WaitGroup
		for _, what := range []string{"first", "second"} {
			wg.Go(func() {
				env, err := ex.Do(context.Background(), pawl.Call{Tool: "book", Run: "run-1", Step: what, Args: json.RawMessage(`{"order_id":"A","what":"` + what + `"}`)})
				if err != nil || env.Status != pawl.Succeeded {
					t.Errorf("%s: got %s, %v", what, env.Status, err)
				}
			})
			time.Sleep(time.Second)
		}
		wg.Wait()
		ops, err := store.Find(context.Background(), pawl.Query{})
		if err != nil || len(ops) != 2 || string(ops[0].Before) != "1" || string(ops[1].Before) != "0" {
			t.Errorf("got %d operations (%v), the second before it %s; want the change of the first in it", len(ops), err, ops[0].Before)
		}
	})
}

// TestTimeIsTheStoresOrNobodys: the clock of the process is three hours behind the store's.
// A permit stamped with it would look as old as that, and quiescence would be over at once.
func TestTimeIsTheStoresOrNobodys(t *testing.T) { // WO5
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Probe = &pawl.ProbeTerms{NegativeProof: true}
	}
	play(t, edit, func(h *house) {
		h.store.SetClock(func() time.Time { return time.Now().Add(3 * time.Hour) })
		silent := storetest.Faults{Now: func() error { return pawl.ErrBusy }}
		h.store.SetFaults(silent)
		ex := h.executor(nil)
		env, err := ex.Do(context.Background(), call(nil))
		if !errors.Is(err, pawl.ErrBusy) {
			t.Errorf("got %v, want that the clock cannot be read", err)
		}
		h.want(env, "UNKNOWN store refused", 0)
		h.store.SetFaults(storetest.Faults{})
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
		h.store.SetFaults(silent) // from here on by the last reading
		time.Sleep(time.Hour)
		h.provider.script = []string{"before"}
		began := time.Now().Add(3 * time.Hour)
		env = h.do(ex, call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"B"}`) }))
		h.want(env, "UNKNOWN * executed", 1)
		id, _ := pawl.ParseID(env.OperationID)
		if op, err := h.store.Get(context.Background(), "", id); err != nil || op.Created.Sub(began).Abs() > time.Minute {
			t.Errorf("begun at %v (%v), want about %v", op.Created, err, began)
		}
	})
}

// TestResultIsNotReadFromAnotherOperationsChange: the effect is confirmed and its result was
// lost. By the time a probe by state reads it, the subject has been changed once more.
func TestResultIsNotReadFromAnotherOperationsChange(t *testing.T) {
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Identity, c.Serialize = []pawl.Field{pawl.Text("order_id"), pawl.Text("what")}, []string{"order_id"}
		c.Probe = &pawl.ProbeTerms{SoleWriter: true}
	}
	play(t, edit, func(h *house) {
		h.provider.script = []string{"empty"}
		h.provider.probe = func(*pawl.Operation) pawl.ProbeResult {
			if n := len(h.provider.ledger); n > 1 {
				return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchState, Count: n, Refs: []string{"another"}, Result: json.RawMessage(`{"id":"another"}`)}
			}
			return pawl.ProbeResult{Outcome: pawl.Inconclusive}
		}
		alarms := 0
		ex := h.executor(&pawl.Options{Observers: []*pawl.Observer{{Alarm: func(context.Context, *pawl.Operation, pawl.Alarm) { alarms++ }}}})
		what := func(what string) pawl.Call {
			return call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"A","what":"` + what + `"}`) })
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if env := h.do(ex, what("first")); env.Status != pawl.Succeeded || env.Result != nil || env.ResultRef != "" {
				t.Errorf("got %s with %s %q, want SUCCEEDED and no result", env.Status, env.Result, env.ResultRef)
			}
		})
		time.Sleep(500 * time.Millisecond)
		h.want(h.do(ex, what("second")), "SUCCEEDED confirmed executed", 2)
		wg.Wait()
		if alarms != 0 {
			t.Errorf("got %d alarms, want none: each effect happened once", alarms)
		}
	})
}

// TestWaitingInVainDoesNotDenyWhatAnotherWorkerDid: two workers wait for one subject with the
// same call. The one whose turn is nearly over does not begin, but the other one has.
func TestWaitingInVainDoesNotDenyWhatAnotherWorkerDid(t *testing.T) {
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Identity, c.Serialize = []pawl.Field{pawl.Text("order_id"), pawl.Text("what")}, []string{"order_id"}
	}
	what := func(what string) pawl.Call {
		return call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"A","what":"` + what + `"}`) })
	}
	play(t, edit, func(h *house) {
		h.provider.script, h.provider.delay = []string{"slow"}, 5*time.Second
		holder, other, late := h.executor(nil), h.executor(nil), h.executor(nil)
		var wg sync.WaitGroup
		wg.Go(func() { h.do(holder, what("first")) })
		time.Sleep(time.Second)
		wg.Go(func() { h.want(h.do(other, what("second")), "SUCCEEDED confirmed executed", 2) })
		time.Sleep(50 * time.Millisecond)
		// It sees 5.1 s after the start that the subject is free and has 0.8 s left.
		ctx, cancel := context.WithTimeout(context.Background(), 6850*time.Millisecond)
		defer cancel()
		env, err := late.Do(ctx, what("second"))
		if err != nil {
			t.Error(err)
		}
		h.want(env, "SUCCEEDED confirmed replayed", 2)
		wg.Wait()
	})
}

// TestWriteThatHangsDoesNotHoldACallerPastItsDeadline: a disk that stands still keeps a write
// that has begun. The caller is told the doubt in time, and the permit that comes too late is
// given back.
func TestWriteThatHangsDoesNotHoldACallerPastItsDeadline(t *testing.T) { // SQ11
	play(t, keyless, func(h *house) {
		hang := make(chan struct{})
		ex := h.executor(nil)
		late := func(c pawl.Call) pawl.Envelope {
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
			defer cancel()
			env, err := ex.Do(ctx, c)
			if took := time.Since(began); took > 6250*time.Millisecond || err == nil {
				t.Errorf("got %v after %v, want an error inside the deadline", err, took)
			}
			return env
		}
		h.store.SetFaults(storetest.Faults{AfterBegin: func(*pawl.Operation) error { <-hang; return nil }})
		h.want(late(call(nil)), "UNKNOWN store refused", 0)
		close(hang)
		h.store.SetFaults(storetest.Faults{})
		if op := h.settled(); op.Status != pawl.FailedNoEffect || op.Reason != pawl.ReasonGivenBack || h.provider.requests() != 0 {
			t.Errorf("got %s (%s) after %d requests, want the permit given back", op.Status, op.Reason, h.provider.requests())
		}
		hang = make(chan struct{})
		h.store.SetFaults(storetest.Faults{AfterApply: func(*pawl.Change) error { <-hang; return nil }})
		h.want(late(call(nil)), "UNKNOWN store refused", 0)
		close(hang)
		h.store.SetFaults(storetest.Faults{})
		time.Sleep(time.Minute)
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
	})
}

// TestRetryUnderWayIsNotTold: the permit of a retry is being written, for long. Whoever is
// told meanwhile is not told that nothing happens.
func TestRetryUnderWayIsNotTold(t *testing.T) {
	play(t, keyless, func(h *house) {
		hang := make(chan struct{})
		h.provider.script = []string{"unsent"}
		h.store.SetFaults(storetest.Faults{AfterApply: func(c *pawl.Change) error {
			if bytes.Contains(c.Entry, []byte(`"event":"retry"`)) {
				<-hang
			}
			return nil
		}})
		ex := h.executor(nil)
		go ex.Do(context.Background(), call(nil))
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
		defer cancel()
		env, err := ex.Do(ctx, call(nil))
		if err != nil {
			t.Error(err)
		}
		h.want(env, "UNKNOWN store attached", 0)
		close(hang)
	})
}

// TestNoEffectIsToldOnlyWhileItIsTrue: one worker's write hangs. Meanwhile another one settles
// the operation, and a call there begins the next generation and has the effect.
func TestNoEffectIsToldOnlyWhileItIsTrue(t *testing.T) {
	edit := func(c *pawl.Contract) {
		keyless(c)
		c.Timeout, c.Linger, c.Flight, c.Pause = time.Second, time.Second, 3*time.Second, 2*time.Second
		c.Probe = &pawl.ProbeTerms{NegativeProof: true}
	}
	play(t, edit, func(h *house) {
		hang := make(chan struct{})
		h.provider.script = []string{"before"}
		h.store.SetFaults(storetest.Faults{AfterApply: func(c *pawl.Change) error {
			if bytes.Contains(c.Entry, []byte(`"by":"worker stuck"`)) {
				<-hang
			}
			return nil
		}})
		stuck, other := h.executor(&pawl.Options{Worker: "stuck", Turn: 10 * time.Minute}), h.executor(nil)
		other.Start()
		var wg sync.WaitGroup
		wg.Go(func() { h.want(h.do(stuck, call(nil)), "SUCCEEDED confirmed executed", 1) })
		time.Sleep(time.Minute)
		h.want(h.do(other, call(nil)), "SUCCEEDED confirmed executed", 1)
		close(hang)
		wg.Wait()
	})
}

// TestFullStoreRefusesTheNextGeneration: the earlier generation provably had no effect, and
// the next one cannot be recorded.
func TestFullStoreRefusesTheNextGeneration(t *testing.T) { // SQ1
	edit := func(c *pawl.Contract) { keyless(c); c.AfterRejection = pawl.AfterRejectionNewGeneration }
	play(t, edit, func(h *house) {
		h.provider.script = []string{"reject"}
		ex := h.executor(nil)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT rejected executed", 0)
		h.store.SetFaults(storetest.Faults{BeforeBegin: func(*pawl.Operation) error { return pawl.ErrFull }})
		env, err := ex.Do(context.Background(), call(nil))
		if !errors.Is(err, pawl.ErrFull) {
			t.Errorf("got %v, want %v", err, pawl.ErrFull)
		}
		h.want(env, "FAILED_NO_EFFECT store refused", 0)
		h.store.SetFaults(storetest.Faults{})
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed executed", 1)
	})
}

// While an attempt is listened to, an executor that stops takes no permits that it would only
// give back: each counts for life.
func TestStopTakesNoPermitThatItCannotUse(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Probe = nil }, func(h *house) {
		h.provider.script = []string{"hang"}
		ex := h.executor(nil)
		ctx, cancel := context.WithTimeout(context.Background(), 3500*time.Millisecond)
		defer cancel()
		if env, err := ex.Do(ctx, call(nil)); err != nil || env.Status != pawl.Unknown {
			t.Fatalf("got %s, %v, want UNKNOWN", env.Status, err)
		}
		stop(ex)
		if op := h.operation(); len(op.Attempts) != 1 || op.Attempts[0].Class != pawl.ClassAmbiguous || op.Due.IsZero() {
			t.Errorf("got %d permits, due %v, want the one that was used, and a time for the next worker", len(op.Attempts), op.Due)
		}
	})
}
