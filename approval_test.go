package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// Confirm lets the provider be a pawl.Confirmer.
func (p *provider) Confirm(inv *pawl.Invocation) (bool, error) { return p.asks(inv) }

// asking makes every call of the tool need a yes.
func asking(c *pawl.Contract) { c.Confirm = &pawl.ConfirmTerms{Always: true} }

// decide makes a decision about the one operation as it is now.
func (h *house) decide(ex *pawl.Executor, d pawl.Decision) error {
	h.t.Helper()
	op := h.operation()
	if d.Version == 0 {
		d.Version = op.Version
	}
	if d.Who == "" {
		d.Who = "ana"
	}
	d.Why = "looked"
	_, err := ex.Decide(context.Background(), op.Tenant, op.ID, d)
	return err
}

func (h *house) approve(ex *pawl.Executor) {
	h.t.Helper()
	if err := h.decide(ex, pawl.Decision{Choice: pawl.ChoiceApprove}); err != nil {
		h.t.Fatalf("approve: %v", err)
	}
}

func refusalCode(err error) pawl.RefusalCode {
	var r *pawl.Refusal
	if errors.As(err, &r) {
		return r.Why
	}
	return ""
}

// TestCallThatNeedsAYesIsSentOnceAfterIt: by the repeat of the call, without a second question.
func TestCallThatNeedsAYesIsSentOnceAfterIt(t *testing.T) { // trials D10, L7
	play(t, asking, func(h *house) {
		ex := h.executor(nil)
		env := h.do(ex, call(nil))
		h.want(env, "PREPARED approval_needed executed", 0)
		if env.OperationID == "" || !env.Expires.Equal(h.began.Add(24*time.Hour)) || env.NextAction != pawl.Wait {
			t.Errorf("got %+v, want an operation that waits until tomorrow", env)
		}
		h.want(h.do(ex, call(nil)), "PREPARED approval_needed replayed", 0)
		h.approve(ex)
		h.want(h.do(h.executor(nil), call(func(c *pawl.Call) { c.Attributes = map[string]string{"tool_call_id": "another"} })), "SUCCEEDED confirmed executed", 1)
		h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed replayed", 1)
		op := h.operation()
		if op.Approval.Used.IsZero() || len(op.Approval.Yes) != 1 || op.Approval.Yes[0].Who != "ana" || !op.Review.IsZero() {
			t.Errorf("got %+v, want the yes of ana used and no review", op.Approval)
		}
		if len(op.Attempts) != 1 || h.provider.requests() != 1 {
			t.Errorf("got %d attempts and %d requests, want one", len(op.Attempts), h.provider.requests())
		}
	})
}

// TestSweeperSendsWhatWasApproved in a turn of its own, while nobody waits.
func TestSweeperSendsWhatWasApproved(t *testing.T) {
	play(t, asking, func(h *house) {
		ex := h.executor(nil)
		ex.Start()
		h.want(h.do(ex, call(nil)), "PREPARED approval_needed executed", 0)
		time.Sleep(10 * time.Hour) // far behind the turn in which it was asked for
		h.approve(ex)
		op := h.settled()
		if op.Status != pawl.Succeeded || h.provider.effects() != 1 {
			t.Errorf("got %s and %d effects, want SUCCEEDED and one", op.Status, h.provider.effects())
		}
	})
}

// TestWaitingCallGoesOnAfterTheYes inside its own turn.
// TestSweeperTriesAgainWhatWasApproved: the provider could not be reached at first.
func TestSweeperTriesAgainWhatWasApproved(t *testing.T) {
	play(t, asking, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		h.approve(ex)
		h.provider.script = []string{"unsent", "unsent"}
		ex.Start()
		if op := h.settled(); op.Status != pawl.Succeeded || len(op.Attempts) != 3 || h.provider.effects() != 1 {
			t.Errorf("got %s after %d attempts with %d effects, want SUCCEEDED by the third", op.Status, len(op.Attempts), h.provider.effects())
		}
	})
}

func TestWaitingCallGoesOnAfterTheYes(t *testing.T) {
	play(t, asking, func(h *house) {
		ex := h.executor(nil)
		answer := make(chan pawl.Envelope)
		go func() { answer <- h.do(ex, call(func(c *pawl.Call) { c.Await = true })) }()
		time.Sleep(20 * time.Second)
		h.approve(ex)
		h.want(<-answer, "SUCCEEDED confirmed executed", 1)

		began := time.Now()
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Await, c.Step = true, "2" })), "PREPARED approval_needed replayed", 1)
		if took := time.Since(began); took > 45*time.Second {
			t.Errorf("answered after %v, want inside the turn", took)
		}
	})
}

// TestNothingIsSentWithoutAYes: a no, a withdrawal and the end of the time.
func TestNothingIsSentWithoutAYes(t *testing.T) {
	for choice, want := range map[pawl.Choice][2]string{
		pawl.ChoiceReject:   {"FAILED_NO_EFFECT not_approved replayed", "FAILED_NO_EFFECT not_approved replayed"},
		pawl.ChoiceWithdraw: {"PREPARED approval_needed executed", "PREPARED approval_needed replayed"},
		"":                  {"PREPARED approval_needed executed", "PREPARED approval_needed replayed"},
	} {
		t.Run(string(choice), func(t *testing.T) {
			play(t, asking, func(h *house) {
				ex := h.executor(nil)
				ex.Start()
				h.do(ex, call(nil))
				first := h.operation()
				if choice == "" {
					time.Sleep(25 * time.Hour)
				} else if err := h.decide(ex, pawl.Decision{Choice: choice}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				op, err := h.store.Get(context.Background(), "", first.ID)
				if err != nil || op.Status != pawl.FailedNoEffect || len(op.Attempts) != 0 || !op.Review.IsZero() {
					t.Fatalf("got %+v, %v; want FAILED_NO_EFFECT without an attempt", op, err)
				}
				if _, err := ex.Decide(context.Background(), "", first.ID, pawl.Decision{
					Choice: pawl.ChoiceApprove, Who: "ana", Why: "late", Version: op.Version,
				}); refusalCode(err) != pawl.RefusedStatus {
					t.Errorf("a yes afterwards: got %v, want it refused", err)
				}
				for _, words := range want {
					h.want(h.do(ex, call(nil)), words, 0)
				}
			})
		})
	}
}

// TestHostMayAskAgainAfterANo, and the model may not.
func TestHostMayAskAgainAfterANo(t *testing.T) {
	play(t, asking, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		if err := h.decide(ex, pawl.Decision{Choice: pawl.ChoiceReject}); err != nil {
			t.Fatal(err)
		}
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT not_approved replayed", 0)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Again = true })), "PREPARED approval_needed executed", 0)
	})
}

// TestYesGetsTooOld: it is good for a quarter of an hour, also across a restart.
func TestYesGetsTooOld(t *testing.T) { // trial L1
	play(t, asking, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		h.approve(ex)
		time.Sleep(15*time.Minute + time.Second)
		next := h.executor(nil) // nobody swept meanwhile
		h.want(h.do(next, call(nil)), "PREPARED approval_needed executed", 0)
		next.Start()
		time.Sleep(time.Hour)
		if n := h.provider.requests(); n != 0 {
			t.Errorf("got %d requests, want none under a yes that is over", n)
		}
	})
}

// TestRepeatAfterNotSentNeedsANewYesOnceTheOldIsOver: inside its time the same yes holds.
func TestRepeatAfterNotSentNeedsANewYesOnceTheOldIsOver(t *testing.T) {
	play(t, func(c *pawl.Contract) { keyless(c); asking(c) }, func(h *house) {
		h.provider.script = []string{"unsent", "unsent", "unsent", "unsent", "unsent", "unsent"}
		ex := h.executor(nil)
		h.do(ex, call(nil))
		h.approve(ex)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT not_sent executed", 0)
		time.Sleep(time.Minute)
		h.want(h.do(ex, call(nil)), "FAILED_NO_EFFECT not_sent executed", 0)
		time.Sleep(time.Hour)
		h.want(h.do(ex, call(nil)), "PREPARED approval_needed executed", 0)
	})
}

// TestContractChangedAfterTheYes: what was approved under other rules is not sent.
func TestContractChangedAfterTheYes(t *testing.T) { // trial L1
	for _, who := range []string{"repeat", "sweeper"} {
		t.Run(who, func(t *testing.T) {
			play(t, asking, func(h *house) {
				ex := h.executor(nil)
				h.do(ex, call(nil))
				h.approve(ex)
				first := h.operation()
				h.contract.Effect = "another text"
				next := h.executor(nil)
				if who == "repeat" {
					h.want(h.do(next, call(nil)), "PREPARED approval_needed executed", 0)
				} else {
					next.Start()
					time.Sleep(time.Minute)
				}
				op, err := h.store.Get(context.Background(), "", first.ID)
				if err != nil || op.Status != pawl.FailedNoEffect || op.Reason != pawl.ReasonApprovalChanged || h.provider.requests() != 0 {
					t.Errorf("got %s %s, %v, %d requests; want approval_changed and none", op.Status, op.Reason, err, h.provider.requests())
				}
			})
		})
	}
}

// TestApprovedOneThingAnotherIsAskedFor: other arguments never run on the yes.
func TestApprovedOneThingAnotherIsAskedFor(t *testing.T) { // trials L1, L8
	play(t, asking, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		h.approve(ex)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"A","amount":100}`) })), "FAILED_NO_EFFECT parameter_mismatch refused", 0)
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"B","amount":49.90}`) })), "PREPARED approval_needed executed", 0)
	})
}

// TestConditionAsks: where it says so, and where it cannot say.
func TestConditionAsks(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Confirm = &pawl.ConfirmTerms{} }, func(h *house) {
		ex := h.executor(nil)
		for i, x := range []struct {
			asks func(*pawl.Invocation) (bool, error)
			want string
		}{
			{func(*pawl.Invocation) (bool, error) { return false, nil }, "SUCCEEDED confirmed executed"},
			{func(*pawl.Invocation) (bool, error) { return true, nil }, "PREPARED approval_needed executed"},
			{func(*pawl.Invocation) (bool, error) { return false, errors.New("no such key") }, "PREPARED approval_needed executed"},
			{func(*pawl.Invocation) (bool, error) { panic("bad") }, "PREPARED approval_needed executed"},
		} {
			h.provider.asks = x.asks
			h.want(h.do(ex, call(func(c *pawl.Call) { c.Run = fmt.Sprint("run-", i) })), x.want, 1)
		}
	})
}

// TestTwoPersons: two different people, and not who asked.
func TestTwoPersons(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Confirm = &pawl.ConfirmTerms{Always: true, TwoPersons: true} }, func(h *house) {
		ex := h.executor(nil)
		ex.Start()
		h.do(ex, call(func(c *pawl.Call) { c.Actor = "bo" }))
		yes := func(who string) pawl.RefusalCode {
			return refusalCode(h.decide(ex, pawl.Decision{Choice: pawl.ChoiceApprove, Who: who}))
		}
		for _, x := range []struct {
			who  string
			want pawl.RefusalCode
		}{{"bo", pawl.RefusedPersons}, {"BO ", pawl.RefusedPersons}, {"ana", ""}, {"Ana", pawl.RefusedPersons}} {
			if got := yes(x.who); got != x.want {
				t.Errorf("yes of %q: got %q, want %q", x.who, got, x.want)
			}
		}
		time.Sleep(time.Minute)
		if n := h.provider.requests(); n != 0 {
			t.Fatalf("got %d requests after one yes, want none", n)
		}
		if got := yes("cleo"); got != "" {
			t.Errorf("yes of the second: got %q, want it taken", got)
		}
		if op := h.settled(); op.Status != pawl.Succeeded || h.provider.effects() != 1 {
			t.Errorf("got %s and %d effects, want SUCCEEDED and one", op.Status, h.provider.effects())
		}
	})
}

// TestDecisionCountsOnce: the same id and content is the same decision, other content is none.
func TestDecisionCountsOnce(t *testing.T) { // trial L2, HU4
	play(t, asking, func(h *house) {
		ex := h.executor(nil)
		h.do(ex, call(nil))
		d := pawl.Decision{ID: "click-1", Choice: pawl.ChoiceApprove, Version: 1}
		for range 3 { // the page is stale, the click is the same
			if err := h.decide(ex, d); err != nil {
				t.Errorf("the same decision: got %v, want it taken as made", err)
			}
		}
		if op := h.operation(); op.Version != 2 || len(op.Approval.Yes) != 1 {
			t.Errorf("got version %d and %d times yes, want one change", op.Version, len(op.Approval.Yes))
		}
		d.Choice = pawl.ChoiceReject
		if got := refusalCode(h.decide(ex, d)); got != pawl.RefusedDecision {
			t.Errorf("its id with other content: got %q, want it refused", got)
		}
		d.Version = 2
		if got := refusalCode(h.decide(ex, d)); got != pawl.RefusedDecision {
			t.Errorf("the same on the present version: got %q, want it refused", got)
		}
	})
}

// TestYesRacesNoWithdrawalAndEnd: one decision, and an effect only after a yes.
func TestYesRacesNoWithdrawalAndEnd(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	var yeses atomic.Int32
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			play(t, asking, func(h *house) {
				ex, other := h.executor(nil), h.executor(nil)
				ex.Start()
				other.Start()
				h.do(ex, call(nil))
				if round%4 == 0 {
					time.Sleep(24*time.Hour - time.Duration(round)*time.Millisecond)
				}
				var wg sync.WaitGroup
				var mu sync.Mutex
				var taken []pawl.Choice
				for i, c := range []pawl.Choice{pawl.ChoiceApprove, pawl.ChoiceReject, pawl.ChoiceWithdraw, pawl.ChoiceApprove} {
					wg.Go(func() {
						time.Sleep(time.Duration((round*7+i*13)%11) * time.Millisecond)
						err := h.decide([]*pawl.Executor{ex, other}[i%2], pawl.Decision{ID: fmt.Sprint("d", i), Choice: c, Version: 1, Who: fmt.Sprint("p", i)})
						mu.Lock()
						defer mu.Unlock()
						switch code := refusalCode(err); {
						case err == nil:
							taken = append(taken, c)
						case code != pawl.RefusedVersion && code != pawl.RefusedStatus && code != pawl.RefusedLate:
							t.Errorf("round %d: %s: got %v, want it taken or refused", round, c, err)
						}
					})
				}
				wg.Wait()
				op := h.settled()
				yes := len(taken) == 1 && taken[0] == pawl.ChoiceApprove
				if yes {
					yeses.Add(1)
				}
				effects := h.provider.effects()
				if len(taken) > 1 || yes != (effects == 1) || effects > 1 || (op.Status == pawl.Succeeded) != yes {
					t.Errorf("round %d: got decisions %v, %s and %d effects; want at most one, and an effect only after a yes", round, taken, op.Status, effects)
				}
			})
		})
	}
	t.Cleanup(func() {
		if n := int(yeses.Load()); n == 0 || n == rounds {
			t.Errorf("%d of %d rounds ended with a yes: the race was never run", n, rounds)
		}
	})
}

// TestManyWorkersTakeOneYes: repeats and sweepers at once have one effect.
func TestManyWorkersTakeOneYes(t *testing.T) { // trial L4
	play(t, func(c *pawl.Contract) { keyless(c); asking(c) }, func(h *house) {
		var workers []*pawl.Executor
		for range 4 {
			ex := h.executor(nil)
			ex.Start()
			workers = append(workers, ex)
		}
		h.do(workers[0], call(nil))
		h.approve(workers[0])
		var wg sync.WaitGroup
		for _, ex := range workers {
			for range 4 {
				wg.Go(func() { h.do(ex, call(nil)) })
			}
		}
		wg.Wait()
		if op := h.settled(); op.Status != pawl.Succeeded || h.provider.requests() != 1 {
			t.Errorf("got %s and %d requests, want SUCCEEDED and one", op.Status, h.provider.requests())
		}
	})
}

// TestLookAlikeWaitsForAYes: another order number, the same amount to the same customer,
// shortly after.
func TestLookAlikeWaitsForAYes(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Watch = &pawl.WatchTerms{By: []string{"amount"}, Within: 10 * time.Minute} }, func(h *house) {
		ex := h.executor(nil)
		ask := func(order string, amount string) pawl.Envelope {
			return h.do(ex, call(func(c *pawl.Call) {
				c.Args = json.RawMessage(fmt.Sprintf(`{"order_id":%q,"amount":%s}`, order, amount))
				c.Run = "run-" + order
			}))
		}
		h.want(ask("A", "49.90"), "SUCCEEDED confirmed executed", 1)
		h.want(ask("A", "49.90"), "SUCCEEDED confirmed replayed", 1) // a repeat is no look-alike
		h.want(ask("B", "10"), "SUCCEEDED confirmed executed", 2)
		held := ask("C", "49.90")
		h.want(held, "PREPARED look_alike executed", 2)
		id, err := pawl.ParseID(held.OperationID)
		if err != nil {
			t.Fatal(err)
		}
		r, err := ex.Review(context.Background(), "", id)
		if err != nil || len(r.Operation.Approval.LookAlikes) != 1 || r.Reason != pawl.ReasonLookAlike {
			t.Errorf("got %+v, %v; want the one it looks like", r, err)
		}
		if _, err := ex.Decide(context.Background(), "", id, pawl.Decision{Choice: pawl.ChoiceApprove, Who: "ana", Why: "two customers", Version: 1}); err != nil {
			t.Fatal(err)
		}
		h.want(ask("C", "49.90"), "SUCCEEDED confirmed executed", 3)
		time.Sleep(11 * time.Minute)
		h.want(ask("D", "49.90"), "SUCCEEDED confirmed executed", 4)
	})
}

// TestStoreThatCannotWatch keeps a watched tool out, and one that fails sends nothing.
func TestStoreThatCannotWatch(t *testing.T) {
	t.Parallel()
	type bare struct{ pawl.Store }
	ex := pawl.New(bare{storetest.NewMemory()}, nil)
	c := pawl.Contract{Tool: "t", IdentityNone: true, Watch: &pawl.WatchTerms{By: []string{"a"}, Within: time.Minute}}
	if err := ex.Register(&pawl.Tool{Contract: c, Port: &provider{}}); err == nil || !strings.Contains(err.Error(), "watch") {
		t.Errorf("got %v, want the watch refused", err)
	}
}

// TestOrdersOfAPerson stay under the rules.
func TestOrdersOfAPerson(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Probe = nil }, func(h *house) {
		h.provider.keyed = true
		h.provider.script = []string{"fail", "ok"} // after a failure of the provider it does not resend by itself
		ex := h.executor(nil)
		ex.Start()
		h.want(h.do(ex, call(nil)), "UNKNOWN review_open executed", 1)
		if got := refusalCode(h.decide(ex, pawl.Decision{Choice: pawl.ChoiceResend})); got != pawl.RefusedSend {
			t.Errorf("resend after a failure without a probe: got %q, want it refused", got)
		}
		if got := refusalCode(h.decide(ex, pawl.Decision{Choice: pawl.ChoiceFence})); got != pawl.RefusedSend {
			t.Errorf("fence of a tool without one: got %q, want it refused", got)
		}
		if err := h.decide(ex, pawl.Decision{Choice: pawl.ChoiceNote}); err != nil {
			t.Errorf("note: got %v, want it kept", err)
		}
		if op := h.operation(); op.Review.IsZero() || op.Status != pawl.Unknown {
			t.Errorf("after a note: got %s, review %v; want it to wait still", op.Status, op.Review)
		}
	})
}

// TestResendThatAPersonOrders is made although the provider shows a look-alike.
func TestResendThatAPersonOrders(t *testing.T) {
	play(t, nil, func(h *house) {
		h.provider.keyed = true
		h.provider.script = []string{"before"}
		h.provider.probe = func(*pawl.Operation) pawl.ProbeResult { // it shows something that is not ours
			return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchBusiness, Count: 1}
		}
		ex := h.executor(nil)
		ex.Start()
		h.want(h.do(ex, call(nil)), "UNKNOWN review_open executed", 0)
		if err := h.decide(ex, pawl.Decision{Choice: pawl.ChoiceResend}); err != nil {
			t.Fatalf("resend: %v", err)
		}
		time.Sleep(time.Minute)
		if op := h.operation(); op.Status != pawl.Succeeded || op.SettledBy != pawl.ByResend || h.provider.effects() != 1 || op.Order != "" {
			t.Errorf("got %s by %s, order %q, %d effects; want SUCCEEDED by resend, one", op.Status, op.SettledBy, op.Order, h.provider.effects())
		}
	})
}

// TestOrderedResendStaysInsideTheRetention: a person cannot make the provider remember.
func TestOrderedResendStaysInsideTheRetention(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Probe = &pawl.ProbeTerms{} }, func(h *house) {
		h.provider.script = []string{"before"}
		h.provider.probe = func(*pawl.Operation) pawl.ProbeResult {
			return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchBusiness, Count: 1}
		}
		ex := h.executor(nil)
		h.do(ex, call(nil))
		time.Sleep(h.contract.Retention)
		if got := refusalCode(h.decide(ex, pawl.Decision{Choice: pawl.ChoiceResend})); got != pawl.RefusedSend {
			t.Errorf("past the retention: got %q, want it refused", got)
		}
	})
}

// TestOffersAreWhatIsTaken: what is offered is taken, and what is not is refused for the
// reason that is given.
func TestOffersAreWhatIsTaken(t *testing.T) {
	for _, prepared := range []bool{true, false} {
		for _, choice := range pawl.Choices {
			t.Run(fmt.Sprint(prepared, choice), func(t *testing.T) {
				play(t, func(c *pawl.Contract) {
					keyless(c)
					if prepared {
						asking(c)
					}
				}, func(h *house) {
					h.provider.script = []string{"lost"}
					ex := h.executor(nil)
					h.do(ex, call(nil))
					r, err := ex.Review(context.Background(), "", h.operation().ID)
					if err != nil || r.Since.IsZero() || len(r.Offers) != len(pawl.Choices) {
						t.Fatalf("got %+v, %v; want a review with every choice", r, err)
					}
					for _, o := range r.Offers {
						if o.Choice != choice {
							continue
						}
						if got := refusalCode(h.decide(ex, pawl.Decision{Choice: choice})); got != o.Code || (got == "") != o.Legal {
							t.Errorf("prepared %v, %s: offered %+v, decided %q", prepared, choice, o, got)
						}
					}
				})
			})
		}
	}
}
