package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// journey is a plan of a hotel, a flight that may fail, and an e-mail at the end.
var journey = []pawl.PlanStep{
	{Step: "1", Tool: "book_hotel", MayFail: true}, {Step: "2", Tool: "book_flight", MayFail: true}, {Step: "3", Tool: "send_email"},
}

func (tr *trip) register(ex *pawl.Executor, steps []pawl.PlanStep) *pawl.Run {
	tr.t.Helper()
	r, err := ex.RegisterPlan(context.Background(), "", "", "trip-1", steps)
	if err != nil {
		tr.t.Fatalf("register: %v", err)
	}
	return r
}

func TestIrreversibleStepsGoLast(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.worker(nil)
		for _, steps := range [][]pawl.PlanStep{
			{{Step: "1", Tool: "send_email"}, {Step: "2", Tool: "book_hotel"}, {Step: "3", Tool: "book_flight", MayFail: true}},
			{{Step: "1", Tool: "book_hotel", Irreversible: true}, {Step: "3", Tool: "book_flight", MayFail: true}},
		} {
			_, err := ex.RegisterPlan(context.Background(), "", "", "trip-1", steps)
			var bad *pawl.PlanError
			if !errors.As(err, &bad) || bad.Code != pawl.PlanIrreversible || bad.Step != "1" || bad.Other != "3" {
				t.Errorf("got %v, want it refused with both steps named", err)
			} else if text := err.Error(); !strings.Contains(text, steps[0].Tool) || !strings.Contains(text, "book_flight") {
				t.Errorf("got %q, want both tools named", text)
			}
		}
		warns := tr.worker(&pawl.Options{PlanWarns: true})
		r, err := warns.RegisterPlan(context.Background(), "", "", "trip-2", []pawl.PlanStep{{Step: "1", Tool: "send_email"}, {Step: "2", Tool: "book_flight", MayFail: true}})
		if err != nil || len(r.Plan.Warnings) != 1 || !r.Plan.Steps[0].Irreversible {
			t.Errorf("got %+v, %v; want it kept with a warning", r, err)
		}
	})
}

func TestPlansThatAreNoGood(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.worker(nil)
		for name, steps := range map[string][]pawl.PlanStep{
			"none": nil, "no name": {{Tool: "book_hotel"}}, "twice": {{Step: "1", Tool: "book_hotel"}, {Step: "1", Tool: "book_flight"}},
			"no tool": {{Step: "1", Tool: "book_train"}}, "too many": make([]pawl.PlanStep, pawl.MaxPlan+1),
			"long name": {{Step: strings.Repeat("x", 257), Tool: "book_hotel"}},
		} {
			var bad *pawl.PlanError
			if _, err := ex.RegisterPlan(context.Background(), "", "", "trip-1", steps); !errors.As(err, &bad) || bad.Code != pawl.PlanInvalid {
				t.Errorf("%s: got %v, want it refused", name, err)
			}
		}
		first := tr.register(ex, journey)
		if again := tr.register(ex, journey); !again.Created.Equal(first.Created) || again.Version != first.Version {
			t.Errorf("the same plan again: got %+v, want the first", again)
		}
		late := func(run string, steps []pawl.PlanStep) {
			t.Helper()
			var bad *pawl.PlanError
			if _, err := ex.RegisterPlan(context.Background(), "", "", run, steps); !errors.As(err, &bad) || bad.Code != pawl.PlanLate {
				t.Errorf("%s: got %v, want it refused as late", run, err)
			}
		}
		late("trip-1", journey[:2])
		c := step("1", "book_hotel")
		c.Run = "trip-2"
		tr.do(ex, c)
		late("trip-2", journey)
		if _, err := ex.Abort(context.Background(), "", "trip-3", off); err != nil {
			t.Fatal(err)
		}
		late("trip-3", journey)
	})
}

func TestCallsFitThePlan(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.worker(nil)
		tr.register(ex, journey)
		refused := func(c pawl.Call, why pawl.Reason, names string) {
			t.Helper()
			env := tr.do(ex, c)
			if env.ActionTaken != pawl.Refused || env.Reason != why || !strings.Contains(env.Message, names) {
				t.Errorf("step %q of %s: got %s %s %q, want it refused as %s, naming %s", c.Step, c.Tool, env.Status, env.Reason, env.Message, why, names)
			}
		}
		refused(step("", "book_hotel"), pawl.ReasonNotInPlan, "no step")
		refused(step("4", "book_hotel"), pawl.ReasonNotInPlan, `"4"`)
		refused(step("1", "book_flight"), pawl.ReasonNotInPlan, "book_hotel")
		refused(step("3", "send_email"), pawl.ReasonPlanOrder, `"1"`)
		tr.wantEffects(nil)
		if env := tr.do(ex, step("1", "book_hotel")); env.Status != pawl.Succeeded {
			t.Fatalf("got %s %s, want it to fit", env.Status, env.Reason)
		}
		other := step("1", "book_hotel")
		other.Args = json.RawMessage(`{"id":"another"}`)
		refused(other, pawl.ReasonNotInPlan, "has had its call")
		tr.tools["book_flight"].script = []string{"reject"}
		tr.do(ex, step("2", "book_flight"))
		refused(step("3", "send_email"), pawl.ReasonPlanOrder, `"2"`) // trial K4
		tr.wantEffects(map[string]int{"book_hotel": 1})
	})
}

// TestPlannedStepRepeatsAnEffect: a registered step is the host's word.
func TestPlannedStepRepeatsAnEffect(t *testing.T) {
	travel(t, func(tr *trip) {
		tr.terms["book_hotel"].Repeat = pawl.RepeatExplicit
		ex := tr.worker(nil)
		tr.register(ex, []pawl.PlanStep{{Step: "1", Tool: "book_hotel"}, {Step: "2", Tool: "book_hotel"}})
		same := func(run, n string) pawl.Envelope {
			return tr.do(ex, pawl.Call{Tool: "book_hotel", Run: run, Step: n, Args: json.RawMessage(`{"id":"H"}`)})
		}
		same("trip-1", "1")
		if env := same("trip-1", "2"); env.ActionTaken != pawl.Executed || env.Status != pawl.Succeeded {
			t.Errorf("a planned step: got %s %s, want its own effect", env.Status, env.Reason)
		}
		same("trip-2", "1")
		if env := same("trip-2", "2"); env.Reason != pawl.ReasonDoneElsewhere {
			t.Errorf("without a plan: got %s %s, want it turned away", env.Status, env.Reason)
		}
		tr.wantEffects(map[string]int{"book_hotel": 3})
	})
}

// TestResumeReplaysWhatIsSettled: a host that begins the run again gets what was done from
// the record, and what was open is reconciled.
func TestResumeReplaysWhatIsSettled(t *testing.T) { // trials E2, E7
	travel(t, func(tr *trip) {
		ex := tr.worker(nil)
		tr.register(ex, journey)
		tr.do(ex, step("1", "book_hotel"))
		flight := tr.tools["book_flight"]
		flight.script = []string{"hang"}
		flight.probe = func(*pawl.Operation) pawl.ProbeResult { return pawl.ProbeResult{Outcome: pawl.Inconclusive} }
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		if env, err := ex.Do(ctx, step("2", "book_flight")); err != nil || env.Status != pawl.Unknown {
			t.Fatalf("got %s, %v; want UNKNOWN", env.Status, err)
		}
		kill, gone := context.WithCancel(context.Background())
		gone()
		ex.Stop(kill)
		flight.probe = nil
		next := tr.worker(nil)
		tr.register(next, journey)
		if env := tr.do(next, step("1", "book_hotel")); env.ActionTaken != pawl.Replayed || env.Status != pawl.Succeeded {
			t.Errorf("the settled step: got %s %s, want it replayed", env.Status, env.ActionTaken)
		}
		if env := tr.do(next, step("2", "book_flight")); env.Status != pawl.Succeeded || env.Reason != pawl.ReasonProbeFound {
			t.Errorf("the open step: got %s %s, want the probe to settle it", env.Status, env.Reason)
		}
		if env := tr.do(next, step("3", "send_email")); env.Status != pawl.Succeeded {
			t.Errorf("the next step: got %s %s, want it done", env.Status, env.Reason)
		}
		tr.wantEffects(map[string]int{"book_hotel": 1, "book_flight": 1, "send_email": 1})
	})
}

// TestStepOfAPlanHasOneCall: also where several come at once, and where the one before it was
// provably not sent and comes again.
func TestStepOfAPlanHasOneCall(t *testing.T) {
	travel(t, func(tr *trip) {
		hotel := tr.tools["book_hotel"]
		hotel.prepare = func() { time.Sleep(time.Second) } // all have looked before the first begins
		ex := tr.worker(nil)
		tr.register(ex, journey)
		envs := make(chan pawl.Envelope)
		for i := range 8 {
			go func() {
				c := step("1", "book_hotel")
				c.Args = json.RawMessage(fmt.Sprintf(`{"id":"H-%d"}`, i))
				env, err := ex.Do(context.Background(), c)
				if err != nil {
					t.Error(err)
				}
				envs <- env
			}()
		}
		done := 0
		for range 8 {
			switch env := <-envs; {
			case env.Status == pawl.Succeeded:
				done++
			case env.ActionTaken != pawl.Refused || env.Reason != pawl.ReasonNotInPlan:
				t.Errorf("got %s %s, want it refused because the step has had its call", env.Status, env.Reason)
			}
		}
		if done != 1 {
			t.Errorf("got %d calls that succeeded, want 1", done)
		}
		hotel.prepare = nil
		flight := tr.tools["book_flight"]
		flight.script = []string{"unsent", "unsent", "unsent"}
		first, second := step("2", "book_flight"), step("2", "book_flight")
		second.Args = json.RawMessage(`{"id":"another"}`)
		if env := tr.do(ex, first); env.Reason != pawl.ReasonNotSent {
			t.Errorf("got %s %s, want it not sent", env.Status, env.Reason)
		}
		if env := tr.do(ex, second); env.Status != pawl.Succeeded {
			t.Errorf("got %s %s, want another call of the step", env.Status, env.Reason)
		}
		if env := tr.do(ex, first); env.Status != pawl.FailedNoEffect {
			t.Errorf("the first once more: got %s %s, want no effect", env.Status, env.Reason)
		}
		tr.wantEffects(map[string]int{"book_hotel": 1, "book_flight": 1})
	})
}
