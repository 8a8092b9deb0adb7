package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// bookings is a provider whose effects are undone by another one, by their reference.
type bookings struct{ *provider }

func (bookings) Compensation(op *pawl.Operation) (json.RawMessage, error) {
	if op.Ref == "" {
		return nil, errors.New("the result has no id")
	}
	return json.Marshal(map[string]string{"id": op.Ref})
}

// trip is a house with a hotel and a flight, which can be cancelled, and an e-mail, which
// cannot be called back.
type trip struct {
	*house
	tools map[string]*provider
	terms map[string]*pawl.Contract
}

func travel(t *testing.T, test func(tr *trip)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := &trip{house: &house{t: t, store: storetest.NewMemory(), began: time.Now()}, tools: map[string]*provider{}, terms: map[string]*pawl.Contract{}}
		t.Cleanup(func() { tr.store.Close() })
		for tool, undo := range map[string]string{"book_hotel": "cancel_hotel", "cancel_hotel": "", "book_flight": "cancel_flight", "cancel_flight": "", "send_email": ""} {
			tr.tools[tool] = &provider{keyed: true}
			tr.terms[tool] = &pawl.Contract{
				Tool: tool, Class: pawl.Keyed, Retention: 24 * time.Hour, Identity: []pawl.Field{pawl.Text("id")}, Probe: &pawl.ProbeTerms{NegativeProof: true},
			}
			if undo != "" {
				tr.terms[tool].Compensation = &pawl.CompensationTerms{Tool: undo}
			}
		}
		mail := tr.terms["send_email"]
		mail.Class, mail.Retention, mail.Probe, mail.Irreversible, mail.Corrective = pawl.Unsafe, 0, nil, true, "send a correction e-mail"
		tr.tools["send_email"].keyed = false
		test(tr)
	})
}

func (tr *trip) worker(o *pawl.Options) *pawl.Executor {
	tr.t.Helper()
	ex := pawl.New(tr.store, o)
	for name, p := range tr.tools {
		tool := &pawl.Tool{Contract: *tr.terms[name], Port: p}
		if tr.terms[name].Compensation != nil {
			tool.Port = bookings{p}
		}
		if err := ex.Register(tool); err != nil {
			tr.t.Fatal(err)
		}
	}
	tr.t.Cleanup(func() { stop(ex) })
	return ex
}

// started is a worker that sweeps.
func (tr *trip) started() *pawl.Executor {
	ex := tr.worker(nil)
	ex.Start()
	return ex
}

func step(n, tool string) pawl.Call {
	return pawl.Call{Tool: tool, Run: "trip-1", Step: n, Args: json.RawMessage(`{"id":"` + tool + n + `"}`)}
}

var off = pawl.Abort{Who: "ana", Why: "the trip is off"}

func (tr *trip) abort(ex *pawl.Executor) *pawl.RunReport {
	tr.t.Helper()
	r, err := ex.Abort(context.Background(), "", "trip-1", off)
	if err != nil {
		tr.t.Fatalf("abort: %v", err)
	}
	return r
}

// over waits until nothing is left to do for the run.
func (tr *trip) over(ex *pawl.Executor) *pawl.RunReport {
	tr.t.Helper()
	for range 10_000 {
		r, err := ex.RunReport(context.Background(), "", "trip-1")
		if err != nil {
			tr.t.Fatal(err)
		}
		if r.Run.Status == pawl.RunAborted {
			return r
		}
		time.Sleep(time.Second)
	}
	r, _ := ex.RunReport(context.Background(), "", "trip-1")
	tr.t.Fatalf("after %v the run is still %s: %s", time.Since(tr.began), r.Run.Status, r.Message)
	return nil
}

// outcomes lists "tool outcome" in the order of the steps.
func outcomes(r *pawl.RunReport) (list []string) {
	for _, item := range r.Items {
		list = append(list, item.Tool+" "+string(item.Outcome))
	}
	return list
}

func (tr *trip) wantOutcomes(r *pawl.RunReport, want ...string) {
	tr.t.Helper()
	if got := outcomes(r); !slices.Equal(got, want) {
		tr.t.Errorf("got %q, want %q\n%s", got, want, r.Message)
	}
}

func (tr *trip) wantEffects(want map[string]int) {
	tr.t.Helper()
	for name, p := range tr.tools {
		if got := p.effects(); got != want[name] {
			tr.t.Errorf("%s: got %d effects, want %d", name, got, want[name])
		}
	}
}

func TestTripOff(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.started()
		tr.tools["book_flight"].script = []string{"reject"}
		tr.do(ex, step("1", "book_hotel"))
		if env := tr.do(ex, step("2", "book_flight")); env.Status != pawl.FailedNoEffect {
			t.Fatalf("flight: got %s, want it refused", env.Status)
		}
		if r := tr.abort(ex); r.Run.Status != pawl.RunAborting {
			t.Errorf("got run %s, want it aborting", r.Run.Status)
		}
		r := tr.over(ex)
		tr.wantOutcomes(r, "book_hotel undone", "book_flight no_effect")
		tr.wantEffects(map[string]int{"book_hotel": 1, "cancel_hotel": 1})
		if got := tr.tools["cancel_hotel"].sends[0]; !strings.Contains(got, `{"id":"r-`) {
			t.Errorf("the cancellation was sent as %q, want the reference of the booking", got)
		}
		item := r.Items[0]
		if item.Status != pawl.Compensated || item.Compensation == (pawl.ID{}) || item.CompensationStatus != pawl.Succeeded {
			t.Errorf("got %+v, want the hotel COMPENSATED by a confirmed operation", item)
		}
		again := tr.abort(ex)
		if again.Run.Abort.Who != "ana" || tr.over(ex).Run.Status != pawl.RunAborted {
			t.Errorf("a second abort: got %+v", again.Run)
		}
		tr.wantEffects(map[string]int{"book_hotel": 1, "cancel_hotel": 1})
	})
}

func TestUndoneInReverse(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.started()
		var order []string
		for _, name := range []string{"cancel_hotel", "cancel_flight"} {
			tr.tools[name].prepare = func() { order = append(order, name) }
		}
		for _, c := range []pawl.Call{step("1", "book_hotel"), step("2", "book_flight"), step("3", "book_hotel")} {
			tr.do(ex, c)
			time.Sleep(time.Second)
		}
		other := step("1", "book_hotel")
		other.Run = "trip-2"
		tr.do(ex, other)
		tr.abort(ex)
		tr.wantOutcomes(tr.over(ex), "book_hotel undone", "book_flight undone", "book_hotel undone")
		if want := []string{"cancel_hotel", "cancel_flight", "cancel_hotel"}; !slices.Equal(order, want) {
			t.Errorf("got %q, want %q", order, want)
		}
		tr.wantEffects(map[string]int{"book_hotel": 3, "book_flight": 1, "cancel_hotel": 2, "cancel_flight": 1}) // not the other run's
	})
}

func TestDoubtIsSettledBeforeAnythingIsUndone(t *testing.T) { // trial K5
	travel(t, func(tr *trip) {
		ex := tr.started()
		tr.do(ex, step("1", "book_hotel"))
		flight := tr.tools["book_flight"]
		flight.script = []string{"lost"}
		known := false
		flight.probe = func(op *pawl.Operation) pawl.ProbeResult {
			if !known {
				return pawl.ProbeResult{Outcome: pawl.Inconclusive}
			}
			return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchKey, Count: 1, Refs: []string{"f-1"}}
		}
		tr.do(ex, step("2", "book_flight"))
		tr.abort(ex)
		time.Sleep(5 * time.Minute)
		tr.wantEffects(map[string]int{"book_hotel": 1, "book_flight": 1})
		known = true
		tr.wantOutcomes(tr.over(ex), "book_hotel undone", "book_flight undone")
		tr.wantEffects(map[string]int{"book_hotel": 1, "book_flight": 1, "cancel_hotel": 1, "cancel_flight": 1})
	})
}

func TestDoubtThatNeverHappenedIsNotUndone(t *testing.T) {
	travel(t, func(tr *trip) {
		tr.started()
		tr.terms["book_hotel"].Class, tr.terms["book_hotel"].Retention = pawl.Unsafe, 0
		ex := tr.started()
		tr.tools["book_hotel"].script = []string{"before"}
		tr.do(ex, step("1", "book_hotel"))
		tr.abort(ex)
		tr.wantOutcomes(tr.over(ex), "book_hotel no_effect")
		tr.wantEffects(nil)
	})
}

func TestCancellationsAnswerIsLost(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.started()
		tr.do(ex, step("1", "book_hotel"))
		tr.tools["cancel_hotel"].script = []string{"unsent", "busy", "lost"}
		tr.abort(ex)
		tr.wantOutcomes(tr.over(ex), "book_hotel undone")
		tr.wantEffects(map[string]int{"book_hotel": 1, "cancel_hotel": 1})
	})
}

func TestWhatCannotBeUndoneIsListed(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.started()
		tr.tools["cancel_flight"].script = []string{"reject"}
		for _, c := range []pawl.Call{step("1", "book_hotel"), step("2", "book_flight"), step("3", "send_email")} {
			tr.do(ex, c)
		}
		tr.abort(ex)
		r := tr.over(ex)
		tr.wantOutcomes(r, "book_hotel undone", "book_flight refused", "send_email not_undoable")
		want := "The run was called off by ana: 1 undone, 1 cannot be undone, 1 could not be undone. To do: send a correction e-mail."
		if r.Message != want {
			t.Errorf("got %q, want %q", r.Message, want)
		}
		tr.wantEffects(map[string]int{"book_hotel": 1, "book_flight": 1, "cancel_hotel": 1, "send_email": 1})
	})
}

// TestLateSuccessOfAnAbortedRun: a person was asked, the rest was undone, and then it turns
// out that it happened.
func TestLateSuccessOfAnAbortedRun(t *testing.T) { // trial K7
	travel(t, func(tr *trip) {
		tr.terms["book_flight"].Class, tr.terms["book_flight"].Retention, tr.terms["book_flight"].Probe = pawl.Unsafe, 0, nil
		ex := tr.started()
		tr.do(ex, step("1", "book_hotel"))
		tr.tools["book_flight"].script = []string{"lost"}
		env := tr.do(ex, step("2", "book_flight"))
		tr.abort(ex)
		time.Sleep(30 * time.Minute)
		r, err := ex.RunReport(context.Background(), "", "trip-1")
		if err != nil {
			t.Fatal(err)
		}
		tr.wantOutcomes(r, "book_hotel undone", "book_flight unknown")
		if r.Run.Status != pawl.RunAborting {
			t.Errorf("got run %s, want it aborting while something is unknown", r.Run.Status)
		}
		id, err := pawl.ParseID(env.OperationID)
		if err != nil {
			t.Fatal(err)
		}
		op, err := tr.store.Get(context.Background(), "", id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ex.Decide(context.Background(), "", id, pawl.Decision{Choice: pawl.ChoiceHappened, Who: "ben", Why: "it is in their list", Ref: "f-7", Version: op.Version}); err != nil {
			t.Fatal(err)
		}
		tr.wantOutcomes(tr.over(ex), "book_hotel undone", "book_flight undone")
		tr.wantEffects(map[string]int{"book_hotel": 1, "book_flight": 1, "cancel_hotel": 1, "cancel_flight": 1})
	})
}

func TestNothingBeginsInARunThatIsCalledOff(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.started()
		tr.do(ex, step("1", "book_hotel"))
		tr.tools["book_flight"].script = []string{"unsent", "unsent", "unsent"}
		tr.do(ex, step("2", "book_flight"))
		tr.abort(ex)
		for _, c := range []pawl.Call{step("2", "book_flight"), step("3", "book_flight"), step("4", "send_email")} {
			env := tr.do(ex, c)
			if env.Status != pawl.FailedNoEffect || env.Reason != pawl.ReasonRunAborted || env.RetrySafe || env.NextAction != pawl.Stop {
				t.Errorf("step %s: got %s %s, want it refused because the run was called off", c.Step, env.Status, env.Reason)
			}
		}
		tr.over(ex)
		tr.wantEffects(map[string]int{"book_hotel": 1, "cancel_hotel": 1})
		if env := tr.do(ex, step("1", "book_hotel")); env.Status != pawl.FailedNoEffect || env.Reason != pawl.ReasonRunAborted {
			t.Errorf("a repeat of what was undone: got %s %s, want no new generation", env.Status, env.Reason)
		}
		fresh := step("1", "book_hotel")
		fresh.Run = "trip-9"
		if _, err := ex.Abort(context.Background(), "", "trip-9", off); err != nil {
			t.Fatal(err)
		}
		if env := tr.do(ex, fresh); env.Reason != pawl.ReasonRunAborted {
			t.Errorf("a run that was called off before it began: got %s", env.Reason)
		}
	})
}

// TestIrreversibleDoubtIsNotResent: a resend might make happen what nobody can undo.
func TestIrreversibleDoubtIsNotResent(t *testing.T) {
	travel(t, func(tr *trip) {
		mail := tr.terms["send_email"]
		mail.Class, mail.Retention = pawl.Keyed, 24*time.Hour
		ex := tr.started()
		tr.tools["send_email"].script = []string{"hang"}
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		ex.Do(ctx, step("1", "send_email"))
		n := tr.tools["send_email"].requests()
		tr.abort(ex)
		time.Sleep(time.Hour)
		if got := tr.tools["send_email"].requests(); n != 1 || got != 1 {
			t.Errorf("got %d requests, and %d before the abort, want the one of the call", got, n)
		}
	})
}

func TestApprovalOfAnAbortedRun(t *testing.T) {
	travel(t, func(tr *trip) {
		tr.terms["book_flight"].Confirm = &pawl.ConfirmTerms{Always: true}
		ex := tr.started()
		env := tr.do(ex, step("1", "book_flight"))
		if env.Status != pawl.Prepared {
			t.Fatalf("got %s, want PREPARED", env.Status)
		}
		tr.abort(ex)
		r := tr.over(ex)
		tr.wantOutcomes(r, "book_flight no_effect")
		if r.Items[0].Reason != pawl.ReasonRunAborted {
			t.Errorf("got %s, want run_aborted", r.Items[0].Reason)
		}
		tr.wantEffects(nil)
	})
}

// TestAbortWithoutSweeper: a library that was not started undoes within the call.
func TestAbortWithoutSweeper(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.worker(nil)
		tr.do(ex, step("1", "book_hotel"))
		tr.tools["cancel_hotel"].script = []string{"lost"}
		r := tr.abort(ex)
		tr.wantOutcomes(r, "book_hotel undone")
		if r.Run.Status != pawl.RunAborted {
			t.Errorf("got run %s, want aborted", r.Run.Status)
		}
		tr.wantEffects(map[string]int{"book_hotel": 1, "cancel_hotel": 1})
	})
}

func TestPersonOrdersACompensation(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.started()
		env := tr.do(ex, step("1", "book_hotel"))
		id, err := pawl.ParseID(env.OperationID)
		if err != nil {
			t.Fatal(err)
		}
		op, err := tr.store.Get(context.Background(), "", id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ex.Decide(context.Background(), "", id, pawl.Decision{Choice: pawl.ChoiceCompensate, Who: "ben", Why: "wrong night", Version: op.Version}); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if op, err = tr.store.Get(context.Background(), "", id); err != nil || op.Status == pawl.Compensated {
				break
			}
			time.Sleep(time.Second)
		}
		if err != nil || op.Status != pawl.Compensated || op.UndoneBy == (pawl.ID{}) {
			t.Errorf("got %s (%v), want COMPENSATED", op.Status, err)
		}
		tr.wantEffects(map[string]int{"book_hotel": 1, "cancel_hotel": 1})
		again := tr.do(ex, step("1", "book_hotel")) // the run goes on: a new generation
		if again.Status != pawl.Succeeded || again.OperationID == env.OperationID {
			t.Errorf("a repeat: got %s of %s, want another operation", again.Status, again.OperationID)
		}
	})
}

func TestAbortNamesWhoAndWhy(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.worker(nil)
		for _, a := range []pawl.Abort{{}, {Who: "ana"}, {Who: " ", Why: "x"}, {Who: "ana", Why: strings.Repeat("x", pawl.MaxDecision+1)}} {
			var r *pawl.Refusal
			if _, err := ex.Abort(context.Background(), "", "trip-1", a); !errors.As(err, &r) || r.Why != pawl.RefusedInput {
				t.Errorf("%.20q %.20q: got %v, want a refusal", a.Who, a.Why, err)
			}
		}
		var ce *pawl.CallError
		if _, err := ex.Abort(context.Background(), "", "", off); !errors.As(err, &ce) {
			t.Errorf("no run: got %v, want a call error", err)
		}
		if _, err := ex.RunReport(context.Background(), "", "trip-1"); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("got %v, want nothing recorded", err)
		}
	})
}
