package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// restarted kills a worker and starts another one, which sweeps.
func (tr *trip) restarted(ex *pawl.Executor) *pawl.Executor {
	gone, kill := context.WithCancel(context.Background())
	kill()
	ex.Stop(gone)
	return tr.started()
}

// TestAbortEndsWhereACompensationMayNotBeBegunAnew: it was absent, and the contract that
// holds by now allows no other generation.
func TestAbortEndsWhereACompensationMayNotBeBegunAnew(t *testing.T) {
	travel(t, func(tr *trip) {
		ex := tr.started()
		tr.do(ex, step("1", "book_hotel"))
		time.Sleep(time.Second)
		tr.do(ex, step("2", "book_flight"))
		cancel := tr.terms["cancel_flight"]
		cancel.Class, cancel.Retention = pawl.Unsafe, 0
		ex = tr.restarted(ex)
		tr.tools["cancel_flight"].script = []string{"before", "before", "before"}
		tr.abort(ex)
		time.Sleep(time.Minute)
		cancel.MaxGenerations = 1
		ex = tr.restarted(ex)
		r := tr.over(ex)
		tr.wantOutcomes(r, "book_hotel undone", "book_flight refused")
		if why := r.Items[1].Why; !strings.Contains(why, "as often as allowed") {
			t.Errorf("got %q, want it said that it was begun as often as allowed", why)
		}
		tr.wantEffects(map[string]int{"book_hotel": 1, "book_flight": 1, "cancel_hotel": 1})
	})
}

// undoes gives the arguments of compensations that a test chooses.
type undoes struct {
	*provider
	args func(op *pawl.Operation) (json.RawMessage, error)
}

func (u undoes) Compensation(op *pawl.Operation) (json.RawMessage, error) { return u.args(op) }

// TestCompensationGoesOnAsItWasBegun: a contract file that gives other arguments by now, or
// none, does not touch one that is in doubt.
func TestCompensationGoesOnAsItWasBegun(t *testing.T) {
	for name, later := range map[string]func(*pawl.Operation) (json.RawMessage, error){
		"other arguments": func(op *pawl.Operation) (json.RawMessage, error) {
			return json.Marshal(map[string]string{"id": op.Ref, "fee": "waived"})
		},
		"no arguments": func(*pawl.Operation) (json.RawMessage, error) { return nil, errors.New("it has none") },
	} {
		t.Run(name, func(t *testing.T) {
			travel(t, func(tr *trip) {
				args := later
				worker := func() *pawl.Executor {
					ex := pawl.New(tr.store, nil)
					for _, tool := range []string{"book_hotel", "cancel_hotel"} {
						port := undoes{tr.tools[tool], func(op *pawl.Operation) (json.RawMessage, error) { return args(op) }}
						if err := ex.Register(&pawl.Tool{Contract: *tr.terms[tool], Port: port}); err != nil {
							t.Fatal(err)
						}
					}
					ex.Start()
					tr.t.Cleanup(func() { stop(ex) })
					return ex
				}
				args = bookings{}.Compensation
				ex := worker()
				tr.do(ex, step("1", "book_hotel"))
				cancel := tr.tools["cancel_hotel"]
				cancel.script = []string{"hang"}
				cancel.probe = func(*pawl.Operation) pawl.ProbeResult { return pawl.ProbeResult{Outcome: pawl.Inconclusive} }
				tr.abort(ex)
				time.Sleep(10 * time.Second)
				gone, kill := context.WithCancel(context.Background())
				kill()
				ex.Stop(gone)
				args = later
				ex = worker()
				time.Sleep(2 * time.Minute)
				cancel.mu.Lock()
				cancel.probe = nil
				cancel.mu.Unlock()
				r := tr.over(ex)
				tr.wantOutcomes(r, "book_hotel undone")
				if r.Items[0].Status != pawl.Compensated {
					t.Errorf("got %s, want COMPENSATED", r.Items[0].Status)
				}
				tr.wantEffects(map[string]int{"book_hotel": 1, "cancel_hotel": 1})
			})
		})
	}
}

// TestCompensationThatAPersonFoundAbsentIsBegunAnew: the effect still stands.
func TestCompensationThatAPersonFoundAbsentIsBegunAnew(t *testing.T) {
	travel(t, func(tr *trip) {
		cancel := tr.terms["cancel_hotel"]
		cancel.Class, cancel.Retention, cancel.Probe = pawl.Unsafe, 0, nil
		ex := tr.started()
		tr.do(ex, step("1", "book_hotel"))
		tr.tools["cancel_hotel"].script = []string{"before"}
		tr.abort(ex)
		time.Sleep(30 * time.Minute)
		asked, err := ex.Reviews(context.Background(), pawl.Query{})
		if err != nil || len(asked) != 1 {
			t.Fatalf("got %d reviews (%v), want that of the cancellation", len(asked), err)
		}
		op := asked[0].Operation
		if _, err := ex.Decide(context.Background(), "", op.ID, pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Who: "ben", Why: "it is not in their list", Version: op.Version}); err != nil {
			t.Fatal(err)
		}
		tr.wantOutcomes(tr.over(ex), "book_hotel undone")
		tr.wantEffects(map[string]int{"book_hotel": 1, "cancel_hotel": 1})
	})
}

// TestNothingIsUndoneAfterItsTime: what was never begun again in time is listed.
func TestNothingIsUndoneAfterItsTime(t *testing.T) {
	travel(t, func(tr *trip) {
		tr.terms["book_hotel"].Compensation.Within = 10 * time.Minute
		cancel := tr.terms["cancel_hotel"]
		cancel.Class, cancel.Retention = pawl.Unsafe, 0
		ex := tr.started()
		tr.do(ex, step("1", "book_hotel"))
		tr.tools["cancel_hotel"].script = []string{"before"}
		tr.abort(ex)
		r := tr.over(ex) // its absence is known after more than 10 minutes
		tr.wantOutcomes(r, "book_hotel refused")
		if why := r.Items[0].Why; !strings.Contains(why, "is over") {
			t.Errorf("got %q, want it said that the time is over", why)
		}
		tr.wantEffects(map[string]int{"book_hotel": 1})
	})
}

// TestRunsLeaveHandsForOthers: however many runs are called off whose compensations are slow,
// doubt elsewhere is settled meanwhile.
func TestRunsLeaveHandsForOthers(t *testing.T) {
	travel(t, func(tr *trip) {
		tr.terms["cancel_hotel"].Timeout = 40 * time.Second
		ex := tr.worker(&pawl.Options{SweepBatch: 4})
		flight := tr.tools["book_flight"]
		flight.script = []string{"lost"}
		var known atomic.Bool
		flight.probe = func(*pawl.Operation) pawl.ProbeResult {
			if !known.Load() {
				return pawl.ProbeResult{Outcome: pawl.Inconclusive}
			}
			return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchKey, Count: 1}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		if env, err := ex.Do(ctx, step("1", "book_flight")); err != nil || env.Status != pawl.Unknown {
			t.Fatalf("flight: got %s, %v; want UNKNOWN", env.Status, err)
		}
		for i := range 8 {
			c := step("1", "book_hotel")
			c.Run = fmt.Sprint("slow-", i)
			tr.do(ex, c)
			tr.tools["cancel_hotel"].script = append(tr.tools["cancel_hotel"].script, "hang")
		}
		ex.Start()
		for i := range 8 {
			if _, err := ex.Abort(context.Background(), "", fmt.Sprint("slow-", i), off); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(8 * time.Second)
		known.Store(true)
		from := time.Now()
		for {
			found, err := tr.store.Find(context.Background(), pawl.Query{Tool: "book_flight"})
			if err != nil || len(found) != 1 {
				t.Fatalf("got %d flights, %v", len(found), err)
			}
			if found[0].Status == pawl.Succeeded {
				break
			}
			if time.Sleep(time.Second); time.Since(from) > 15*time.Second {
				t.Fatalf("after %v the flight is still %s", time.Since(from), found[0].Status)
			}
		}
	})
}
