package pawl

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"
)

// climb plays the ladder with the real rules and a provider that answers as told, and
// prints each move. Nothing waits: the clock jumps to the next move.
func climb(out *bytes.Buffer, name string, c Contract, first Evidence, provider func(m Move, n int) (ProbeResult, FenceResult, Evidence)) {
	c.Tool = "tool"
	c.Identity = []Field{{Name: "id"}}
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c = c.WithDefaults()
	op := pending(&c)
	if len(c.Serialize) > 0 {
		op.SubjectClaim = Digest{1}
	}
	op = after(op, ev(EventAnswer, time.Second, func(e *Event) { e.Evidence = &first }))
	fmt.Fprintf(out, "%s\n    +1s answer %s: %s %s\n", name, first.Class, op.Status, op.Reason)
	now := t0.Add(time.Second)
	for n := range 30 {
		m := Next(op, now)
		if m.Kind == MoveNone {
			fmt.Fprintf(out, "    nothing moves any more: %s %s\n", op.Status, op.Reason)
			return
		}
		if m.At.After(now) {
			now = m.At
			// Whoever waits for a move asks again when its time has come.
			if due := Next(op, now); due.At.After(now) {
				panic(fmt.Sprintf("%s: %s is due at +%s and then again later, at +%s", name, m.Kind, now.Sub(t0), due.At.Sub(t0)))
			}
		}
		p, f, a := provider(m, n)
		e := &Event{At: now, Asked: now, By: "test", Token: 1}
		said := ""
		switch m.Kind {
		case MoveProbe:
			e.Kind, e.Probe, said = EventProbe, &p, string(p.Outcome)
		case MoveFence:
			e.Kind, e.Fence, said = EventFence, &f, string(f.Outcome)
		case MoveReview:
			e.Kind, e.Reason, said = EventReview, m.Why, string(m.Why)
		case MoveQuiet:
			e.Kind = EventQuiet
		case MoveResend:
			e.Kind, e.Lease = EventResend, now.Add(time.Minute)
			op = after(op, e)
			e = &Event{Kind: EventAnswer, At: now, By: "test", Token: 1, Attempt: len(op.Attempts), Evidence: &a}
			said = string(a.Class)
		}
		op = after(op, e)
		fmt.Fprintf(out, "    +%s %s %s: %s %s\n", now.Sub(t0), m.Kind, said, op.Status, op.Reason)
		if op.Status.Settled() {
			if rests := Next(op, now).Kind == MoveNone; rests && op.Due != (time.Time{}) {
				panic("settled and still due")
			} else if rests && !wantsResult(&op.State) {
				return
			}
		}
	}
	fmt.Fprintf(out, "    …\n")
}

// TestLadder compares what is done about each kind of doubt with a file that people review.
func TestLadder(t *testing.T) {
	t.Parallel()
	always := func(p ProbeOutcome, f FenceOutcome, a AttemptClass) func(Move, int) (ProbeResult, FenceResult, Evidence) {
		return func(Move, int) (ProbeResult, FenceResult, Evidence) {
			return ProbeResult{Outcome: p, Match: MatchKey, Count: 1, Result: []byte(`{}`)}, FenceResult{Outcome: f}, Evidence{Class: a}
		}
	}
	lost := Evidence{Class: ClassAmbiguous}
	probe := &ProbeTerms{Lag: 5 * time.Second}
	proof := &ProbeTerms{Lag: 5 * time.Second, NegativeProof: true}
	var got bytes.Buffer
	climb(&got, "unsafe, nothing to ask", Contract{}, lost, always("", "", ""))
	climb(&got, "unsafe, probe finds it", Contract{Probe: probe}, lost, always(Found, "", ""))
	climb(&got, "unsafe, probe without proof never finds it", Contract{Probe: probe}, lost, always(Absent, "", ""))
	climb(&got, "unsafe, probe with proof never finds it", Contract{Probe: proof}, lost, always(Absent, "", ""))
	climb(&got, "unsafe, probe with proof fails for ever", Contract{Probe: proof}, lost, always(Inconclusive, "", ""))
	climb(&got, "unsafe, not-after enforced", Contract{Probe: proof, NotAfter: 30 * time.Second}, lost, always(Absent, "", ""))
	climb(&got, "keyed, no retention published", Contract{Class: Keyed}, lost, always("", "", ClassSucceeded))
	climb(&got, "keyed, retention shorter than flight", Contract{Class: Keyed, Retention: 5 * time.Minute}, lost, always("", "", ClassSucceeded))
	climb(&got, "keyed, resend succeeds", Contract{Class: Keyed, Retention: 24 * time.Hour}, lost, always("", "", ClassSucceeded))
	climb(&got, "keyed, every resend is lost", Contract{Class: Keyed, Retention: 24 * time.Hour}, lost, always("", "", ClassAmbiguous))
	climb(&got, "keyed, the refusal of a resend is no verdict", Contract{Class: Keyed, Retention: 24 * time.Hour}, lost,
		func(Move, int) (ProbeResult, FenceResult, Evidence) {
			return ProbeResult{}, FenceResult{}, Evidence{Class: ClassRejected, Strength: P3}
		})
	climb(&got, "keyed, probe says absent, then the resend succeeds", Contract{Class: Keyed, Retention: 24 * time.Hour, Probe: probe}, lost, always(Absent, "", ClassSucceeded))
	climb(&got, "keyed, the provider failed after it ran, no probe", Contract{Class: Keyed, Retention: 24 * time.Hour}, Evidence{Class: ClassEffectPossible}, always("", "", ClassSucceeded))
	climb(&got, "keyed, stored errors are replayed: probe, never resend", Contract{Class: Keyed, Retention: 24 * time.Hour, Probe: proof, ReplaysErrors: true}, Evidence{Class: ClassEffectPossible}, always(Absent, "", ClassSucceeded))
	climb(&got, "keyed, parameters differ at the provider", Contract{Class: Keyed, Retention: 24 * time.Hour}, Evidence{Class: ClassAmbiguous, KeyMismatch: true}, always("", "", ClassSucceeded))
	climb(&got, "fence that refuses later arrivals long enough", Contract{Fence: &FenceTerms{RefusesLater: true, Tombstone: 24 * time.Hour}}, lost, always("", FenceHeld, ""))
	climb(&got, "fence with a short tombstone, no probe", Contract{Fence: &FenceTerms{RefusesLater: true, Tombstone: time.Minute}}, lost, always("", FenceHeld, ""))
	climb(&got, "fence with a short tombstone, then a probe", Contract{Fence: &FenceTerms{RefusesLater: true, Tombstone: time.Minute}, Probe: probe}, lost, always(Absent, FenceHeld, ""))
	climb(&got, "fence with a short tombstone, then a probe whose absence is proof", Contract{Fence: &FenceTerms{RefusesLater: true, Tombstone: time.Minute}, Probe: proof}, lost, always(Absent, FenceHeld, ""))
	climb(&got, "fence, the probe cannot tell", Contract{Fence: &FenceTerms{RefusesLater: true, Tombstone: 24 * time.Hour}, Probe: probe}, lost, always(Inconclusive, FenceHeld, ""))
	climb(&got, "keyed for long, the probe cannot tell", Contract{Class: Keyed, Retention: 720 * time.Hour, Probe: probe}, lost, always(Inconclusive, "", ""))
	climb(&got, "fence finds the effect", Contract{Fence: &FenceTerms{}}, lost, always("", FenceFound, ""))
	climb(&got, "convergent inside its horizon", Contract{Class: Convergent, ConvergentFor: time.Minute, Serialize: []string{"id"}}, lost, always("", "", ClassSucceeded))
	climb(&got, "convergent after its horizon", Contract{Class: Convergent, ConvergentFor: time.Second, Serialize: []string{"id"}}, lost, always("", "", ClassSucceeded))
	climb(&got, "accepted, lands, probe sees it in progress first", Contract{Probe: &ProbeTerms{ShowsProgress: true}, Landing: time.Minute}, Evidence{Class: ClassAccepted},
		func(_ Move, n int) (ProbeResult, FenceResult, Evidence) {
			p := ProbeResult{Outcome: InProgress}
			if n >= 2 {
				p = ProbeResult{Outcome: Found, Match: MatchKey, Count: 1}
			}
			return p, FenceResult{}, Evidence{}
		})
	climb(&got, "look-alike", Contract{Probe: probe}, lost, func(Move, int) (ProbeResult, FenceResult, Evidence) {
		return ProbeResult{Outcome: Found, Match: MatchBusiness, Count: 1}, FenceResult{}, Evidence{}
	})
	climb(&got, "result lost, read again", Contract{Probe: probe}, Evidence{Class: ClassResultLost}, always(Found, "", ""))
	climb(&got, "result lost, cannot be read", Contract{Probe: probe}, Evidence{Class: ClassResultLost}, always(Inconclusive, "", ""))

	const file = "testdata/ladder.txt"
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
		t.Errorf("the ladder changed; review the difference with -update and git diff:\n%s", got.String())
	}
}

// TestAbsenceCountsStrictlyAfterQuiescence holds the boundary of the formula
// Q > flight + pause + landing + lag, and with not-after Q > not-after + landing + lag.
func TestAbsenceCountsStrictlyAfterQuiescence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Contract{
		"flight, pause, landing, lag": {Flight: time.Hour, Pause: time.Minute, Landing: 7 * time.Second, Probe: &ProbeTerms{Lag: 3 * time.Second, NegativeProof: true}},
		"not-after, landing, lag":     {NotAfter: time.Minute, Landing: 7 * time.Second, Probe: &ProbeTerms{Lag: 3 * time.Second, NegativeProof: true}},
		"landing is seen in progress": {Flight: time.Hour, Landing: time.Hour, Probe: &ProbeTerms{NegativeProof: true, ShowsProgress: true}},
	} {
		c := c.WithDefaults()
		op := after(pending(&c), answer1(1, Evidence{Class: ClassAmbiguous}))
		for _, at := range []struct {
			d    time.Duration
			want Status
		}{{-time.Nanosecond, Unknown}, {0, Unknown}, {time.Nanosecond, FailedNoEffect}} {
			got := after(op, probed(c.Quiescence()+at.d, ProbeResult{Outcome: Absent}))
			if got.Status != at.want {
				t.Errorf("%s: absent asked at Q%+d ns: got %s, want %s", name, at.d, got.Status, at.want)
			}
		}
	}
}

// TestOldDoubtIsProbedBeforeAPersonIsAsked: an operation that nobody looked at for long, such
// as while no process ran, is no case for people as long as its probe was not asked.
func TestOldDoubtIsProbedBeforeAPersonIsAsked(t *testing.T) { // trials H2, J5, K2
	t.Parallel()
	for name, c := range map[string]Contract{
		"probe":                      {Probe: &ProbeTerms{}},
		"probe with proof":           {Probe: &ProbeTerms{NegativeProof: true}},
		"keyed, past its retention":  {Class: Keyed, Retention: time.Hour, Probe: &ProbeTerms{}},
		"asked before absent counts": {Probe: &ProbeTerms{}, Landing: time.Minute},
	} {
		c := c.WithDefaults()
		op := pending(&c)
		if c.Landing > 0 {
			op = after(op, answer1(1, Evidence{Class: ClassAccepted}), probed(c.Quiescence(), ProbeResult{Outcome: Absent}))
		}
		const old = 40 * 24 * time.Hour
		op = after(op, ev(EventTakeover, old, func(e *Event) { e.NewToken, e.Lease = 1, t0.Add(old+time.Minute) }))
		now := t0.Add(old)
		if m := Next(op, now); m.Kind != MoveProbe || m.At.After(now) {
			t.Errorf("%s: got %s at +%v, want a probe at once", name, m.Kind, m.At.Sub(t0))
		}
		op = after(op, probed(old, ProbeResult{Outcome: Inconclusive}))
		if m := Next(op, now); m.Kind != MoveReview {
			t.Errorf("%s: got %s after a probe that says nothing, want a review", name, m.Kind)
		}
	}
}

// TestOldDoubtInsideRetentionIsResent: nobody looked at a keyed operation for an hour; its
// probe says absent twice, and then it is resent, not reviewed.
func TestOldDoubtInsideRetentionIsResent(t *testing.T) { // trial H2
	t.Parallel()
	c := Contract{Class: Keyed, Retention: 24 * time.Hour, Probe: &ProbeTerms{}}.WithDefaults()
	op := pending(&c)
	const old = time.Hour
	op = after(op, ev(EventTakeover, old, func(e *Event) { e.NewToken, e.Lease = 1, t0.Add(old+time.Minute) }))
	for _, at := range []time.Duration{old, old + 2*time.Second} {
		if m := Next(op, t0.Add(at)); m.Kind != MoveProbe {
			t.Fatalf("+%v: got %s, want a probe", at, m.Kind)
		}
		op = after(op, probed(at, ProbeResult{Outcome: Absent}))
	}
	if m := Next(op, t0.Add(old+10*time.Second)); m.Kind != MoveResend {
		t.Errorf("got %s after two absent probes, want a resend", m.Kind)
	}
}

// TestNoResendWithoutTheStateBefore: a worker that died before it had read the state has sent
// nothing. A resend would be the first request, and a probe that looks for a change since
// the state before would never find what came of it.
func TestNoResendWithoutTheStateBefore(t *testing.T) {
	t.Parallel()
	c := Contract{
		Class: Convergent, ConvergentFor: time.Hour, Flight: time.Hour, Snapshot: true,
		Identity: []Field{{Name: "id"}}, Serialize: []string{"id"}, Probe: &ProbeTerms{SoleWriter: true, NegativeProof: true},
	}.WithDefaults()
	const over = time.Minute
	takeover := ev(EventTakeover, over, func(e *Event) { e.NewToken, e.Lease = 1, t0.Add(time.Hour) })
	absent := ProbeResult{Outcome: Absent}
	op := pending(&c)
	op.SubjectClaim = Digest{1}
	for _, k := range []struct {
		name   string
		events []*Event
		want   MoveKind
	}{
		{"with it", []*Event{ev(EventSnapshot, time.Millisecond, func(e *Event) { e.Before = []byte(`null`) }), takeover}, MoveResend},
		{"without it", []*Event{takeover}, MoveProbe},
	} {
		doubt := after(op, append(k.events, probed(over, absent), probed(over+2*time.Second, absent))...)
		if m := Next(doubt, t0.Add(over+10*time.Second)); m.Kind != k.want {
			t.Errorf("%s: got %s, want %s", k.name, m.Kind, k.want)
		}
		_, err := Step(doubt, ev(EventResend, over+10*time.Second, func(e *Event) { e.Lease = t0.Add(2 * time.Hour) }))
		if allowed := err == nil; allowed != (k.want == MoveResend) {
			t.Errorf("%s: a resend: got %v", k.name, err)
		}
	}
}

// TestResendStaysInsideRetention holds now + flight + pause + margin <= first permit +
// retention, counted from the first permit however many follow.
func TestResendStaysInsideRetention(t *testing.T) {
	t.Parallel()
	c := Contract{Class: Keyed, Retention: time.Hour, Flight: 10 * time.Minute, Pause: time.Minute}.WithDefaults()
	op := after(pending(&c), answer1(1, Evidence{Class: ClassAmbiguous}))
	last := c.Retention - c.Flight - c.Pause - resendMargin
	resend := func(op *Operation, at time.Duration) error {
		_, err := Step(op, ev(EventResend, at, func(e *Event) { e.Lease = t0.Add(2 * time.Hour) }))
		return err
	}
	if err := resend(op, last); err != nil {
		t.Errorf("resend at the last moment: got %v, want it allowed", err)
	}
	if err := resend(op, last+time.Nanosecond); err == nil {
		t.Error("resend one tick too late: got it allowed, want a refusal")
	}
	again := after(op, ev(EventResend, last, func(e *Event) { e.Lease = t0.Add(2 * time.Hour) }))
	if err := resend(again, last+time.Nanosecond); err == nil {
		t.Error("a second permit restarted the retention, want it counted from the first")
	}
}
