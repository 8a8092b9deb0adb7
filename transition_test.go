package pawl

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite golden files")

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// keyedContract is a tool with every rung: key, probe with proof, fence.
func keyedContract() *Contract {
	c := Contract{
		Tool: "refund", Class: Keyed, Identity: []Field{{Name: "order_id"}}, Retention: 24 * time.Hour,
		Probe: &ProbeTerms{Lag: 5 * time.Second, NegativeProof: true}, Fence: &FenceTerms{}, Conventions: true,
	}.WithDefaults()
	return &c
}

// unsafeContract is a tool with no rung but a person.
func unsafeContract() *Contract {
	c := Contract{Tool: "mail", Class: Unsafe, Identity: []Field{{Name: "to"}}}.WithDefaults()
	return &c
}

// copyOut is a convergent operation whose resend succeeded while its first request may
// still land.
func copyOut() *Operation {
	c := Contract{
		Tool: "set", Class: Convergent, Identity: []Field{{Name: "id"}}, Serialize: []string{"id"}, ConvergentFor: time.Minute,
	}.WithDefaults()
	op := pending(&c)
	op.SubjectClaim = Digest{1}
	return after(op, answer1(1, Evidence{Class: ClassAmbiguous}), ev(EventResend, 4*time.Second, func(e *Event) { e.Lease = e.At.Add(time.Minute) }),
		answer1(2, Evidence{Class: ClassSucceeded, Result: []byte(`{}`)}))
}

func pending(c *Contract) *Operation {
	op, _, err := newOperation(&Intent{ID: NewID(t0), Tool: c.Tool, Contract: c}, t0, 30*time.Second, "worker w")
	if err != nil {
		panic(err)
	}
	op.Token = 1
	return op
}

// prepared is an operation that waits for a yes.
func prepared(c *Contract) *Operation {
	in := &Intent{ID: NewID(t0), Tool: c.Tool, Actor: "bo", Contract: c, ContractHash: keyedContract().Hash(), Created: t0, Args: []byte(`{}`)}
	op, _, err := newPrepared(in, newApproval(c, ReasonApprovalNeeded, t0), "worker w")
	if err != nil {
		panic(err)
	}
	op.Token = 1
	return op
}

// decides is a person's decision about whatever version there is: after fills that in.
func decides(at time.Duration, c Choice) *Event {
	return ev(EventDecide, at, func(e *Event) { e.Decision = &Decision{ID: "d", Choice: c, Who: "ana", Why: "looked"} })
}

// after applies events that must be accepted.
func after(op *Operation, evs ...*Event) *Operation {
	for _, ev := range evs {
		if ev.Decision != nil {
			d := *ev.Decision
			d.Version = op.Version
			seen := *ev
			seen.Decision, ev = &d, &seen
		}
		tr, err := Step(op, ev)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", ev.Kind, err))
		}
		op = &Operation{Intent: op.Intent, State: tr.State}
	}
	return op
}

func ev(kind EventKind, at time.Duration, set func(*Event)) *Event {
	e := &Event{Kind: kind, At: t0.Add(at), Asked: t0.Add(at), By: "test", Token: 1, Attempt: 1}
	if set != nil {
		set(e)
	}
	return e
}

func answer1(n int, e Evidence) *Event {
	return ev(EventAnswer, 2*time.Second, func(x *Event) { x.Attempt, x.Evidence = n, &e })
}

func probed(at time.Duration, r ProbeResult) *Event {
	return ev(EventProbe, at, func(x *Event) { x.Probe = &r })
}

// namedStates are the situations an operation can be in, reached by the rules themselves.
func namedStates() []struct {
	name string
	op   *Operation
} {
	noAnswer := ev(EventNoAnswer, time.Second, nil)
	ambiguous := answer1(1, Evidence{Class: ClassAmbiguous})
	resend := ev(EventResend, 10*time.Second, func(e *Event) { e.Lease = t0.Add(time.Hour) })
	absents := []*Event{probed(6*time.Second, ProbeResult{Outcome: Absent}), probed(8*time.Second, ProbeResult{Outcome: Absent})}
	approved := after(prepared(keyedContract()), decides(time.Second, ChoiceApprove))
	two := keyedContract()
	two.Confirm = &ConfirmTerms{TwoPersons: true}
	compensated := after(pending(keyedContract()), answer1(1, Evidence{Class: ClassSucceeded, Result: []byte(`{}`)}))
	compensated.Status = Compensated
	off := ev(EventAbort, 2*time.Second, nil)
	succeeded := answer1(1, Evidence{Class: ClassSucceeded, Result: []byte(`{}`)})
	return []struct {
		name string
		op   *Operation
	}{
		{"prepared", prepared(keyedContract())},
		{"prepared, two persons, one yes", after(prepared(two), decides(time.Second, ChoiceApprove))},
		{"approved", approved},
		{"turned down", after(prepared(keyedContract()), decides(time.Second, ChoiceReject))},
		{"unknown, resend ordered", after(pending(keyedContract()), ambiguous, decides(3*time.Second, ChoiceResend))},
		{"pending", pending(keyedContract())},
		{"pending, no rungs", pending(unsafeContract())},
		{"unknown, still out", after(pending(keyedContract()), noAnswer)},
		{"unknown, ambiguous", after(pending(keyedContract()), ambiguous)},
		{"unknown, no rungs", after(pending(unsafeContract()), ambiguous)},
		{"unknown, 2 absent", after(pending(keyedContract()), append([]*Event{ambiguous}, absents...)...)},
		{"unknown, resent", after(pending(keyedContract()), append(append([]*Event{ambiguous}, absents...), resend)...)},
		{"unknown, key mismatch", after(pending(keyedContract()), answer1(1, Evidence{Class: ClassAmbiguous, KeyMismatch: true}))},
		{"succeeded", after(pending(keyedContract()), answer1(1, Evidence{Class: ClassSucceeded, Result: []byte(`{}`)}))},
		{"succeeded, another copy out", copyOut()},
		{"succeeded, result lost", after(pending(keyedContract()), answer1(1, Evidence{Class: ClassResultLost}))},
		{"failed, not sent", after(pending(keyedContract()), answer1(1, Evidence{Class: ClassNotSent, Strength: P1}))},
		{"failed, rejected", after(pending(keyedContract()), answer1(1, Evidence{Class: ClassRejected, Strength: P4}))},
		{"compensated", compensated},
		{"unknown, run called off", after(pending(keyedContract()), ambiguous, off)},
		{"unknown, called off, cannot be undone", after(pending(unsafeContract()), ambiguous, off)},
		{"unknown, called off, person asked", after(pending(undoable()), ambiguous, off, ev(EventReview, 3*time.Second, nil))},
		{"succeeded, can be undone", after(pending(undoable()), succeeded)},
		{"succeeded, undoing ordered", after(pending(undoable()), succeeded, ev(EventDecide, 3*time.Second, func(e *Event) {
			e.Decision = &Decision{Choice: ChoiceCompensate, Who: "ana", Why: "wrong", Version: 2}
		}))},
		{"failed, not sent, run called off", after(pending(keyedContract()), answer1(1, Evidence{Class: ClassNotSent, Strength: P1}), off)},
	}
}

// undoable is a tool that another one undoes.
func undoable() *Contract {
	c := keyedContract()
	c.Compensation = &CompensationTerms{Tool: "charge_again"}
	return c
}

// namedEvents are what can happen next.
func namedEvents() []struct {
	name string
	ev   *Event
} {
	const soon, late = 12 * time.Second, 20 * time.Minute // quiescence is 16 min 5 s
	lease := func(e *Event) { e.Lease = e.At.Add(30 * time.Second) }
	answer := func(n int, e Evidence, token int64) *Event {
		return ev(EventAnswer, soon, func(x *Event) { x.Attempt, x.Evidence, x.Token = n, &e, token })
	}
	return []struct {
		name string
		ev   *Event
	}{
		{"retry", ev(EventRetry, soon, func(e *Event) { lease(e); e.NewToken = 2 })},
		{"resend", ev(EventResend, soon, lease)},
		{"resend, after retention", ev(EventResend, 25*time.Hour, lease)},
		{"snapshot", ev(EventSnapshot, soon, func(e *Event) { e.Before = []byte(`{}`) })},
		{"restore", ev(EventRestore, soon, func(e *Event) { e.NewToken, e.Restore = 2, &Restore{Copied: t0, At: e.At, Until: e.At.Add(time.Hour)} })},
		{"give back", ev(EventGiveBack, soon, nil)},
		{"give back, no snapshot", ev(EventGiveBack, soon, func(e *Event) { e.Reason = ReasonSnapshot })},
		{"no answer", ev(EventNoAnswer, soon, nil)},
		{"answer 1 succeeded", answer(1, Evidence{Class: ClassSucceeded, Result: []byte(`{"id":"r1"}`), Ref: "r1"}, 1)},
		{"answer 1 result lost", answer(1, Evidence{Class: ClassResultLost}, 1)},
		{"answer 1 not sent", answer(1, Evidence{Class: ClassNotSent, Strength: P1}, 1)},
		{"answer 1 rejected by contract", answer(1, Evidence{Class: ClassRejected, Strength: P3}, 1)},
		{"answer 1 rejected, conflict", answer(1, Evidence{Class: ClassRejected, Strength: P4, Conflict: true}, 1)},
		{"answer 1 transient", answer(1, Evidence{Class: ClassRejected, Strength: P3, Transient: true}, 1)},
		{"answer 1 ambiguous", answer(1, Evidence{Class: ClassAmbiguous}, 1)},
		{"answer 1 effect possible", answer(1, Evidence{Class: ClassEffectPossible}, 1)},
		{"answer 1 accepted", answer(1, Evidence{Class: ClassAccepted}, 1)},
		{"answer 2 rejected by contract", answer(2, Evidence{Class: ClassRejected, Strength: P3}, 1)},
		{"answer 2 rejected, conflict", answer(2, Evidence{Class: ClassRejected, Strength: P3, Conflict: true}, 1)},
		{"answer 2 succeeded", answer(2, Evidence{Class: ClassSucceeded, Result: []byte(`{}`)}, 1)},
		{"stale answer 1 succeeded", answer(1, Evidence{Class: ClassSucceeded, Result: []byte(`{}`)}, 9)},
		{"stale answer 1 not sent", answer(1, Evidence{Class: ClassNotSent, Strength: P1}, 9)},
		{"takeover, lease held", ev(EventTakeover, soon, func(e *Event) { lease(e); e.NewToken = 2 })},
		{"takeover, lease lapsed", ev(EventTakeover, time.Hour*2, func(e *Event) { lease(e); e.NewToken = 2 })},
		{"probe found by key", probed(soon, ProbeResult{Outcome: Found, Match: MatchKey, Count: 1, Refs: []string{"r1"}, Result: []byte(`{}`)})},
		{"probe found a look-alike", probed(soon, ProbeResult{Outcome: Found, Match: MatchBusiness, Count: 1})},
		{"probe found two", probed(soon, ProbeResult{Outcome: Found, Match: MatchKey, Count: 2})},
		{"probe absent, early", probed(soon, ProbeResult{Outcome: Absent})},
		{"probe absent, after quiescence", probed(late, ProbeResult{Outcome: Absent})},
		{"probe in progress", probed(soon, ProbeResult{Outcome: InProgress})},
		{"probe inconclusive", probed(late, ProbeResult{Outcome: Inconclusive})},
		{"stale probe absent, after quiescence", func() *Event { e := probed(late, ProbeResult{Outcome: Absent}); e.Token = 9; return e }()},
		{"fence held", ev(EventFence, soon, func(e *Event) { e.Fence = &FenceResult{Outcome: FenceHeld} })},
		{"fence found", ev(EventFence, soon, func(e *Event) { e.Fence = &FenceResult{Outcome: FenceFound, Ref: "r1"} })},
		{"review", ev(EventReview, soon, nil)},
		{"quiet, early", ev(EventQuiet, soon, nil)},
		{"quiet, in time", ev(EventQuiet, late, nil)},
		{"permit", ev(EventPermit, soon, func(e *Event) { lease(e); e.NewToken, e.Contract = 2, keyedContract().Hash() })},
		{"permit, a day later", ev(EventPermit, 24*time.Hour, func(e *Event) { lease(e); e.NewToken, e.Contract = 2, keyedContract().Hash() })},
		{"permit, contract changed", ev(EventPermit, soon, func(e *Event) { lease(e); e.NewToken, e.Contract = 2, "another" })},
		{"lapse, early", ev(EventLapse, soon, func(e *Event) { e.Contract = keyedContract().Hash() })},
		{"lapse, in time", ev(EventLapse, 25*time.Hour, func(e *Event) { e.Contract = keyedContract().Hash() })},
		{"lapse, contract changed", ev(EventLapse, soon, func(e *Event) { e.Contract = "another" })},
		{"person: approve", decides(soon, ChoiceApprove)},
		{"person: approve, a day late", decides(25*time.Hour, ChoiceApprove)},
		{"person: reject", decides(soon, ChoiceReject)},
		{"person: withdraw", decides(soon, ChoiceWithdraw)},
		{"person: resend", decides(soon, ChoiceResend)},
		{"person: resend, after retention", decides(25*time.Hour, ChoiceResend)},
		{"person: fence", decides(soon, ChoiceFence)},
		{"person: note", decides(soon, ChoiceNote)},
		{"abort", ev(EventAbort, soon, func(e *Event) { e.Token = 0 })},
		{"compensated", ev(EventCompensated, soon, func(e *Event) { e.UndoneBy, e.Token = NewID(t0), 0 })},
		{"compensated by nothing", ev(EventCompensated, soon, nil)},
		{"not undone", ev(EventNotUndone, soon, nil)},
		{"person: compensate", ev(EventDecide, soon, func(e *Event) { e.Decision = &Decision{Choice: ChoiceCompensate, Who: "ana", Why: "wrong"} })},
		{"person: happened", ev(EventDecide, soon, func(e *Event) { e.Decision = &Decision{Choice: ChoiceHappened, Who: "ana", Why: "seen", Ref: "r1"} })},
		{"person: did not, early", ev(EventDecide, soon, func(e *Event) { e.Decision = &Decision{Choice: ChoiceDidNotHappen, Who: "ana", Why: "not there"} })},
		{"person: did not, early, waiver", ev(EventDecide, soon, func(e *Event) {
			e.Decision = &Decision{Choice: ChoiceDidNotHappen, Who: "ana", Why: "not there", Waiver: "provider confirmed"}
		})},
		{"person: did not, after quiescence", ev(EventDecide, late, func(e *Event) { e.Decision = &Decision{Choice: ChoiceDidNotHappen, Who: "ana", Why: "not there"} })},
	}
}

// TestEveryPairOfStateAndEvent compares the whole table with a file that people review.
func TestEveryPairOfStateAndEvent(t *testing.T) {
	var got bytes.Buffer
	for _, s := range namedStates() {
		fmt.Fprintf(&got, "%s\n", s.name)
		for _, e := range namedEvents() {
			event := *e.ev
			if event.Decision != nil {
				d := *event.Decision
				d.Version = s.op.Version
				event.Decision = &d
			}
			if event.NewToken != 0 && event.Kind == EventTakeover && event.At.Sub(t0) > time.Hour {
				s.op.Lease = t0.Add(time.Minute)
			}
			before := *s.op
			tr, err := Step(s.op, &event)
			var r *Refusal
			switch {
			case errors.As(err, &r):
				fmt.Fprintf(&got, "    %-38s refused: %s\n", e.name, r.Why)
			case err != nil:
				t.Fatalf("%s + %s: %v", s.name, e.name, err)
			default:
				fmt.Fprintf(&got, "    %-38s %s", e.name, tr.State.Status)
				for _, x := range []string{string(tr.State.Reason), "by " + string(tr.State.SettledBy), "review " + string(tr.State.ReviewReason)} {
					if x != "" && x != "by " && x != "review " {
						fmt.Fprintf(&got, " %s", x)
					}
				}
				for _, a := range tr.Alarms {
					fmt.Fprintf(&got, " !%s", a)
				}
				got.WriteByte('\n')
				if tr.State.Version != s.op.Version+1 || tr.Entry.Seq != tr.State.Version {
					t.Errorf("%s + %s: got version %d and entry %d, want one more than %d", s.name, e.name, tr.State.Version, tr.Entry.Seq, s.op.Version)
				}
			}
			if before.Version != s.op.Version || before.Status != s.op.Status || len(before.Attempts) != len(s.op.Attempts) {
				t.Errorf("%s + %s: Step altered its argument", s.name, e.name)
			}
		}
	}
	const file = "testdata/transitions.txt"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the table of transitions changed; review the difference with -update and git diff:\n%s", got.String())
	}
}

// TestStateBeforeOfAnEarlierAttemptDecidesNothing: between a refused attempt and its retry
// others may have made the very change; a worker that dies before it has read the state
// again leaves nothing to compare with.
func TestStateBeforeOfAnEarlierAttemptDecidesNothing(t *testing.T) {
	t.Parallel()
	c := Contract{
		Tool: "address", Snapshot: true, Identity: []Field{{Name: "id"}}, Serialize: []string{"id"},
		Probe: &ProbeTerms{SoleWriter: true},
	}.WithDefaults()
	op := pending(&c)
	op.SubjectClaim, op.Before = Digest{1}, []byte(`{"zip":"1"}`)
	op = after(op,
		answer1(1, Evidence{Class: ClassRejected, Strength: P3, Transient: true}),
		ev(EventRetry, 5*time.Second, func(e *Event) { e.NewToken, e.Lease = 1, t0.Add(time.Minute) }),
		ev(EventTakeover, 2*time.Minute, func(e *Event) { e.NewToken, e.Lease = 1, t0.Add(3*time.Minute) }),
		probed(2*time.Minute, ProbeResult{Outcome: Found, Match: MatchState, Count: 1}),
	)
	if op.Before != nil || op.Status != Unknown || op.ReviewReason != ReasonCandidate {
		t.Errorf("got %s, review %s, before %s; want UNKNOWN, a candidate, and no state before", op.Status, op.ReviewReason, op.Before)
	}
}
