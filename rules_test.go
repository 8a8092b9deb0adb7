package pawl

import (
	"errors"
	"testing"
	"time"
)

// The tests of this file hold one rule of the protocol each, at the pure functions. make
// mutants switches the rules off one at a time and shows that a test of each fails.

func doubt(c Contract, evs ...*Event) *Operation {
	c.Tool, c.Identity = "tool", []Field{{Name: "id"}}
	c = c.WithDefaults()
	return after(pending(&c), append([]*Event{answer1(1, Evidence{Class: ClassAmbiguous})}, evs...)...)
}

func refusalOf(op *Operation, e *Event) RefusalCode {
	_, err := Step(op, e)
	var r *Refusal
	if errors.As(err, &r) {
		return r.Why
	}
	return ""
}

func resendAt(at time.Duration) *Event {
	return ev(EventResend, at, func(e *Event) { e.Lease = e.At.Add(time.Minute) })
}

func TestQuiescenceSumsItsTerms(t *testing.T) { // rule 4
	t.Parallel()
	const h, m, s, ms = time.Hour, time.Minute, time.Second, time.Millisecond
	for _, x := range []struct {
		c    Contract
		want time.Duration
	}{
		{Contract{Flight: h, Pause: m, Landing: s, Probe: &ProbeTerms{Lag: ms}}, h + m + s + ms},
		{Contract{Flight: h, Pause: m, Landing: s}, h + m + s},
		{Contract{Flight: h, Pause: m, Landing: s, Probe: &ProbeTerms{Lag: ms, ShowsProgress: true}}, h + m + ms},
		{Contract{Flight: h, Pause: m, NotAfter: 5 * s, Landing: s, Probe: &ProbeTerms{Lag: ms}}, 5*s + s + ms},
		{Contract{Timeout: 3 * s, Linger: s}.WithDefaults(), DefaultFlight + DefaultPause}, // never the timeout
	} {
		if got := x.c.Quiescence(); got != x.want {
			t.Errorf("%+v: got a quiescence of %v, want %v", x.c, got, x.want)
		}
	}
}

func TestUnsafeToolIsNeverResent(t *testing.T) { // rule 3, N10
	t.Parallel()
	for _, c := range []Contract{{}, {Probe: &ProbeTerms{NegativeProof: true}}, {Class: Keyed}} {
		op := doubt(c)
		for at := time.Duration(0); at < time.Hour; at += time.Minute {
			if got := refusalOf(op, resendAt(at)); got != RefusedSend {
				t.Errorf("class %s, resend after %v: got %q, want it refused", op.Contract.Class, at, got)
			}
		}
	}
}

func TestAbsenceBeforeQuiescenceProvesNothing(t *testing.T) { // rule 4, N02
	t.Parallel()
	op := doubt(Contract{Probe: &ProbeTerms{NegativeProof: true}})
	for at := time.Minute; at <= op.Contract.Quiescence(); at += time.Minute {
		if op = after(op, probed(at, ProbeResult{Outcome: Absent})); op.Status != Unknown {
			t.Fatalf("absent after %v: got %s, want UNKNOWN until quiescence", at, op.Status)
		}
	}
}

func TestQuiescenceCountsFromTheLastPermit(t *testing.T) { // rule 4
	t.Parallel()
	op := doubt(Contract{Class: Keyed, Retention: 24 * time.Hour, Probe: &ProbeTerms{NegativeProof: true}},
		probed(5*time.Second, ProbeResult{Outcome: Absent}), probed(7*time.Second, ProbeResult{Outcome: Absent}),
		resendAt(10*time.Minute), ev(EventAnswer, 11*time.Minute, func(e *Event) { e.Attempt, e.Evidence = 2, &Evidence{Class: ClassAmbiguous} }))
	q := op.Contract.Quiescence()
	for _, x := range []struct {
		at   time.Duration
		want Status
	}{{q + time.Second, Unknown}, {10*time.Minute + q, Unknown}, {10*time.Minute + q + 1, FailedNoEffect}} {
		if got := after(op, probed(x.at, ProbeResult{Outcome: Absent})); got.Status != x.want {
			t.Errorf("absent after %v: got %s, want %s", x.at, got.Status, x.want)
		}
	}
}

func TestResendWaitsForSpacedAbsence(t *testing.T) { // rung 3
	t.Parallel()
	op := doubt(Contract{Class: Keyed, Retention: 24 * time.Hour, Probe: &ProbeTerms{}})
	for _, at := range []time.Duration{10 * time.Second, 10*time.Second + time.Millisecond} { // too close to count twice
		if got := refusalOf(op, resendAt(20*time.Second)); got != RefusedSend {
			t.Errorf("got %q with %d absent answers, want the resend refused", got, op.Probes.Absent)
		}
		op = after(op, probed(at, ProbeResult{Outcome: Absent}))
	}
	op = after(op, probed(12*time.Second, ProbeResult{Outcome: Absent}))
	if got := refusalOf(op, resendAt(20*time.Second)); got != "" {
		t.Errorf("got %q after two spaced absent answers, want the resend allowed", got)
	}
}

// TestRefusalOfAResendIsNoVerdict: the first attempt may still land, whatever becomes of the second.
func TestRefusalOfAResendIsNoVerdict(t *testing.T) { // rule 6, P07
	t.Parallel()
	for _, e := range []Evidence{
		{Class: ClassRejected, Strength: P3}, {Class: ClassRejected, Strength: P3, Transient: true}, {Class: ClassNotSent, Strength: P1},
	} {
		op := doubt(Contract{Class: Keyed, Retention: 24 * time.Hour}, resendAt(10*time.Second), answer1(2, e))
		if op.Status != Unknown || !op.Attempts[1].NoEffect || op.Attempts[0].NoEffect {
			t.Errorf("%s: got %s, want UNKNOWN with the second permit accounted for and the first not", e.Class, op.Status)
		}
	}
}

// TestConflictMayBeTheEchoOfOurSuccess: a second attempt meets "exists already".
func TestConflictMayBeTheEchoOfOurSuccess(t *testing.T) { // rule 6
	t.Parallel()
	refused := Evidence{Class: ClassRejected, Strength: P3, Conflict: true}
	op := doubt(Contract{Class: Keyed, Retention: 24 * time.Hour}, resendAt(10*time.Second), answer1(2, refused))
	if op.Attempts[1].NoEffect {
		t.Error("a conflict accounted for the permit of a resend, want it to prove nothing")
	}
	first := after(pending(keyedContract()), answer1(1, refused))
	if first.Status != FailedNoEffect {
		t.Errorf("a conflict met by the only attempt: got %s, want FAILED_NO_EFFECT", first.Status)
	}
}

func TestDoubtIsNoFailure(t *testing.T) { // rule 7, K15
	t.Parallel()
	for _, e := range []Evidence{{Class: ClassAmbiguous}, {Class: ClassEffectPossible, Code: 500}, {Class: ClassRejected}, {Class: ClassNotSent}} {
		if op := after(pending(keyedContract()), answer1(1, e)); op.Status != Unknown {
			t.Errorf("%s of strength %q: got %s, want UNKNOWN", e.Class, e.Strength, op.Status)
		}
	}
}

func TestSilenceIsNoFailure(t *testing.T) { // rule 7
	t.Parallel()
	if op := after(pending(unsafeContract()), ev(EventNoAnswer, time.Second, nil)); op.Status != Unknown {
		t.Errorf("no answer in time: got %s, want UNKNOWN", op.Status)
	}
}

func TestConventionsNeedTheContractsWord(t *testing.T) { // rule 7
	t.Parallel()
	for _, agreed := range []bool{false, true} {
		c := Contract{Tool: "tool", Identity: []Field{{Name: "id"}}, Conventions: agreed}.WithDefaults()
		op := after(pending(&c), answer1(1, Evidence{Class: ClassRejected, Strength: P4, Code: 400}))
		if got := op.Status == FailedNoEffect; got != agreed {
			t.Errorf("conventions %v: got %s", agreed, op.Status)
		}
	}
}

func TestAcceptedIsNotDone(t *testing.T) { // rule 8, K17
	t.Parallel()
	if op := after(pending(keyedContract()), answer1(1, Evidence{Class: ClassAccepted, Code: 202})); op.Status != Unknown || op.Reason != ReasonAccepted {
		t.Errorf("got %s (%s), want UNKNOWN accepted", op.Status, op.Reason)
	}
}

func TestLookAlikeAsksAPerson(t *testing.T) { // rule 9, K32
	t.Parallel()
	for _, match := range []MatchKind{MatchBusiness, MatchState, ""} {
		op := doubt(Contract{Probe: &ProbeTerms{}}, probed(time.Minute, ProbeResult{Outcome: Found, Match: match, Count: 1}))
		if op.Status != Unknown || op.ReviewReason != ReasonCandidate {
			t.Errorf("found by %q: got %s, review %q; want UNKNOWN and a candidate", match, op.Status, op.ReviewReason)
		}
	}
}

func TestPeopleObeyQuiescence(t *testing.T) { // rule 10, P15
	t.Parallel()
	op := doubt(Contract{})
	no := func(at time.Duration, waiver string) *Event {
		return ev(EventDecide, at, func(e *Event) {
			e.Decision = &Decision{Choice: ChoiceDidNotHappen, Who: "ana", Why: "looked", Waiver: waiver, Version: op.Version}
		})
	}
	q := op.Contract.Quiescence()
	if got := refusalOf(op, no(q, "")); got != RefusedEarly {
		t.Errorf("at quiescence: got %q, want too early", got)
	}
	for _, e := range []*Event{no(q+1, ""), no(time.Minute, "the order was cancelled by phone")} {
		if got := refusalOf(op, e); got != "" {
			t.Errorf("after quiescence or with a waiver: got %q, want it taken", got)
		}
	}
}

// TestOldTokenDecidesNothing: only evidence of success is taken from a lease that is over.
func TestOldTokenDecidesNothing(t *testing.T) { // rule 11, N21, K41
	t.Parallel()
	old := func(e *Event) *Event { e.Token = 9; return e }
	for _, e := range []*Event{old(resendAt(time.Minute)), old(ev(EventNoAnswer, time.Minute, nil)), old(ev(EventGiveBack, time.Minute, nil)),
		old(probed(time.Hour, ProbeResult{Outcome: Absent})), old(ev(EventFence, time.Hour, func(e *Event) { e.Fence = &FenceResult{Outcome: FenceHeld} })),
		old(ev(EventReview, time.Minute, nil))} {
		if got := refusalOf(after(pending(keyedContract()), ev(EventNoAnswer, time.Second, nil)), e); got != RefusedStale {
			t.Errorf("%s: got %q, want it refused as stale", e.Kind, got)
		}
	}
	op := after(pending(keyedContract()), old(answer1(1, Evidence{Class: ClassRejected, Strength: P3})))
	if op.Status != Pending || !op.Attempts[0].Out() {
		t.Errorf("a refusal under an old token: got %s, want it to decide nothing", op.Status)
	}
}

func TestSuccessIsTakenFromAnyone(t *testing.T) { // rule 11, K21
	t.Parallel()
	late := answer1(1, Evidence{Class: ClassSucceeded, Result: []byte(`{}`)})
	late.Token = 9
	if op := after(doubt(Contract{}), late); op.Status != Succeeded {
		t.Errorf("an answer under an old token: got %s, want SUCCEEDED", op.Status)
	}
	seen := probed(time.Minute, ProbeResult{Outcome: Found, Match: MatchKey, Count: 1})
	seen.Token = 9
	if op := after(doubt(Contract{Probe: &ProbeTerms{}}), seen); op.Status != Succeeded {
		t.Errorf("a probe under an old token: got %s, want SUCCEEDED", op.Status)
	}
}

func TestProofOfTheEffectWins(t *testing.T) { // rule 11
	t.Parallel()
	op := doubt(Contract{Probe: &ProbeTerms{NegativeProof: true}}, probed(time.Hour, ProbeResult{Outcome: Absent}))
	if op.Status != FailedNoEffect {
		t.Fatalf("got %s, want FAILED_NO_EFFECT", op.Status)
	}
	tr, err := Step(op, answer1(1, Evidence{Class: ClassSucceeded, Result: []byte(`{}`)}))
	if err != nil || tr.State.Status != Succeeded || len(tr.Alarms) != 1 || tr.Alarms[0] != AlarmConflict {
		t.Errorf("got %+v, %v; want SUCCEEDED and an alarm", tr, err)
	}
}

func TestRunningLeaseIsNotTakenOver(t *testing.T) { // rule 12
	t.Parallel()
	op := pending(unsafeContract())
	take := func(at time.Duration) *Event {
		return ev(EventTakeover, at, func(e *Event) { e.NewToken, e.Lease = 2, e.At.Add(time.Minute) })
	}
	if got := refusalOf(op, take(op.Lease.Sub(t0)-1)); got != RefusedLease {
		t.Errorf("got %q while the lease runs, want it refused", got)
	}
	if op := after(op, take(op.Lease.Sub(t0))); op.Status != Unknown || op.Token != 2 {
		t.Errorf("got %s, want UNKNOWN under the new token", op.Status)
	}
}

func TestLapsedLeaseIsUnknown(t *testing.T) { // rule 12, N23
	t.Parallel()
	op := after(pending(unsafeContract()), ev(EventTakeover, time.Minute, func(e *Event) { e.NewToken, e.Lease = 2, e.At.Add(time.Minute) }))
	if op.Status != Unknown || op.Attempts[0].NoEffect {
		t.Errorf("got %s, want UNKNOWN with the permit not accounted for", op.Status)
	}
	if got := refusalOf(op, ev(EventRetry, 2*time.Minute, func(e *Event) { e.NewToken, e.Lease = 3, e.At.Add(time.Minute) })); got != RefusedStatus {
		t.Errorf("a retry: got %q, want it refused", got)
	}
}

func TestShortTombstoneSettlesNothing(t *testing.T) { // rule 16, K08
	t.Parallel()
	held := ev(EventFence, time.Minute, func(e *Event) { e.Fence = &FenceResult{Outcome: FenceHeld} })
	fence := func(tombstone time.Duration) *FenceTerms {
		return &FenceTerms{RefusesLater: true, Tombstone: tombstone}
	}
	for _, x := range []struct {
		c    Contract
		want Status
	}{
		{Contract{Fence: fence(DefaultFlight + DefaultPause)}, Unknown},
		{Contract{Fence: fence(DefaultFlight + DefaultPause + 1)}, FailedNoEffect},
		{Contract{Fence: fence(6 * time.Second), NotAfter: 5 * time.Second}, FailedNoEffect},
		{Contract{Fence: fence(5 * time.Second), NotAfter: 5 * time.Second}, Unknown},
		{Contract{Fence: fence(24 * time.Hour), Landing: time.Second}, Unknown}, // what was accepted may land behind it
		{Contract{Fence: &FenceTerms{Tombstone: 24 * time.Hour}}, Unknown},
	} {
		if op := doubt(x.c, held); op.Status != x.want {
			t.Errorf("fence %+v, not-after %v, landing %v: got %s, want %s", *x.c.Fence, x.c.NotAfter, x.c.Landing, op.Status, x.want)
		}
	}
}

// TestOnlyWhatIsConfirmedIsUndone: a compensation of what did not happen is an effect of its own.
func TestOnlyWhatIsConfirmedIsUndone(t *testing.T) { // rule 15, K28
	t.Parallel()
	later := t0.Add(24 * time.Hour)
	for _, op := range []*Operation{
		pending(undoable()), after(pending(undoable()), answer1(1, Evidence{Class: ClassAmbiguous})),
		after(pending(undoable()), answer1(1, Evidence{Class: ClassNotSent, Strength: P1})),
	} {
		if op.undoBarred(later) == "" {
			t.Errorf("%s: got it undone, want only what is confirmed", op.Status)
		}
	}
	if why := after(pending(undoable()), answer1(1, Evidence{Class: ClassSucceeded})).undoBarred(later); why != "" {
		t.Errorf("SUCCEEDED: got %q, want it undone", why)
	}
}

// TestOpenPermitsAreWaitedFor: what is still on its way would have its effect after it was undone.
func TestOpenPermitsAreWaitedFor(t *testing.T) { // rule 15
	t.Parallel()
	found := func(at time.Duration) *Event {
		return probed(at, ProbeResult{Outcome: Found, Match: MatchKey, Count: 1})
	}
	c := *copyOut().Contract
	c.Compensation = &CompensationTerms{Tool: "reset"}
	twice := copyOut()
	twice.Contract = &c
	for name, op := range map[string]*Operation{
		"an attempt that is out":   after(pending(undoable()), ev(EventNoAnswer, time.Second, nil), found(3*time.Second)),
		"another copy of a change": twice,
	} {
		safe := op.SafeAt()
		if op.undoBarred(safe) == "" || op.undoBarred(safe.Add(time.Second)) != "" {
			t.Errorf("%s: got %q at quiescence and %q after it, want it to wait until then", name, op.undoBarred(safe), op.undoBarred(safe.Add(time.Second)))
		}
	}
}

// TestDuplicateStaysAPersons: what settles the operation, undoes it or lets go of its subject
// says nothing about the effects that there are besides.
func TestDuplicateStaysAPersons(t *testing.T) {
	t.Parallel()
	two := probed(10*time.Second, ProbeResult{Outcome: Found, Match: MatchKey, Count: 2})
	succeeded := answer1(1, Evidence{Class: ClassSucceeded, Result: []byte(`{}`)})
	quiet := copyOut()
	for name, op := range map[string]*Operation{
		"a late answer":      after(pending(keyedContract()), ev(EventNoAnswer, time.Second, nil), two, succeeded),
		"a late refusal":     after(pending(keyedContract()), ev(EventNoAnswer, time.Second, nil), two, answer1(1, Evidence{Class: ClassRejected, Strength: P3})),
		"undone":             after(pending(undoable()), succeeded, two, ev(EventCompensated, 20*time.Second, func(e *Event) { e.UndoneBy = NewID(t0) })),
		"the subject let go": after(quiet, two, ev(EventQuiet, time.Hour, nil)),
	} {
		if op.Status.Open() || op.Review.IsZero() || op.ReviewReason != ReasonDuplicateSeen {
			t.Errorf("%s: got %s, review %q; want it settled and a person asked about the duplicate", name, op.Status, op.ReviewReason)
		}
	}
	op := after(pending(keyedContract()), succeeded, two, ev(EventDecide, 20*time.Second, func(e *Event) {
		e.Decision = &Decision{Choice: ChoiceHappened, Who: "ana", Why: "the other one was cancelled by hand", Version: 3}
	}))
	if !op.Review.IsZero() {
		t.Errorf("got review %q after a person's word, want none", op.ReviewReason)
	}
}

// TestPersonsWordEndsTheWaitForALostAttempt: nobody listens any more to what was out under a
// lease that is over, so that nothing waits for it before the effect is undone.
func TestPersonsWordEndsTheWaitForALostAttempt(t *testing.T) {
	t.Parallel()
	c := undoable()
	c.CallerSends, c.PauseUnbounded = true, true
	op := pending(c)
	op.Lease = t0.Add(time.Minute)
	op = after(op, ev(EventDecide, 2*time.Minute, func(e *Event) {
		e.Decision = &Decision{Choice: ChoiceHappened, Who: "ana", Why: "it is in their list", Version: op.Version}
	}))
	if from := op.undoableFrom(); op.Status != Succeeded || op.Attempts[0].Out() || from.After(t0.Add(2*time.Minute)) {
		t.Errorf("got %s, undone from %v; want it SUCCEEDED and nothing waited for", op.Status, from)
	}
}
