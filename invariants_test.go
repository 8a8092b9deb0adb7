package pawl

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is what really happened at a pretend provider: which permits can still land and
// how many effects there are.
type world struct {
	effects  int
	deadAt   map[int]time.Time // permit → when its request can no longer land
	executed map[int]bool
}

// TestRulesKeepTheirPromises draws random histories in which permits are sent, lost, land
// late, are refused or given back, claims lapse, probes and people answer, and holds the
// rules to the promises after every event. The provider keeps to the contract: it honours
// the key, requests land within flight, and its probe lags by at most the declared lag.
func TestRulesKeepTheirPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Contract{
			Tool: "refund", Class: Keyed, Identity: []Field{{Name: "id"}}, Retention: 2 * time.Hour, Flight: 10 * time.Minute, Pause: time.Minute,
			Timeout: time.Second, Linger: time.Second, Conventions: true,
			Probe: &ProbeTerms{Lag: time.Minute, NegativeProof: true}, Fence: &FenceTerms{},
		}.WithDefaults()
		if rapid.Bool().Draw(t, "keyless") {
			c.Class, c.Retention = Unsafe, 0
		}
		op := pending(&c)
		now := t0
		w := &world{deadAt: map[int]time.Time{1: now.Add(c.Flight + c.Pause)}, executed: map[int]bool{}}
		var effectAt time.Time
		execute := func(n int) {
			w.executed[n] = true
			if w.effects == 0 || c.Class != Keyed { // the key makes a second arrival harmless
				w.effects++
				effectAt = now
			}
			delete(w.deadAt, n)
		}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "seconds")) * time.Second)
			for n, dead := range w.deadAt { // what was lost stays lost after its flight
				if now.After(dead) {
					delete(w.deadAt, n)
				}
			}
			e := &Event{At: now, Asked: now, By: "test", Token: op.Token, Lease: now.Add(30 * time.Second)}
			n := len(op.Attempts)
			_, flying := w.deadAt[n]
			switch rapid.SampledFrom([]string{"land", "answer", "lost", "refuse", "unsent", "no answer", "takeover", "probe", "fence", "resend", "retry", "decide", "stale"}).Draw(t, "what") {
			case "land":
				if flying {
					execute(n)
				}
				continue
			case "answer":
				if !w.executed[n] {
					continue
				}
				e.Kind, e.Attempt, e.Evidence = EventAnswer, n, &Evidence{Class: ClassSucceeded, Result: []byte(`{}`)}
			case "lost":
				e.Kind, e.Attempt, e.Evidence = EventAnswer, n, &Evidence{Class: ClassAmbiguous}
			case "refuse":
				if w.executed[n] || !flying {
					continue
				}
				e.Kind, e.Attempt, e.Evidence = EventAnswer, n, &Evidence{Class: ClassRejected, Strength: P3, Transient: rapid.Bool().Draw(t, "transient")}
				delete(w.deadAt, n)
			case "unsent":
				if w.executed[n] || !flying {
					continue
				}
				e.Kind, e.Attempt, e.Evidence = EventAnswer, n, &Evidence{Class: ClassNotSent, Strength: P1}
				delete(w.deadAt, n)
			case "no answer":
				e.Kind, e.Attempt = EventNoAnswer, n
			case "takeover":
				e.Kind, e.NewToken = EventTakeover, op.Token+1
			case "probe":
				e.Kind = EventProbe
				r := ProbeResult{Outcome: Absent}
				visible := w.effects > 0 && (now.Sub(effectAt) >= c.Probe.Lag || rapid.Bool().Draw(t, "visible"))
				if visible {
					r = ProbeResult{Outcome: Found, Match: MatchKey, Count: w.effects}
				}
				e.Probe = &r
			case "fence":
				e.Kind = EventFence
				e.Fence = &FenceResult{Outcome: FenceHeld}
				if w.effects > 0 {
					e.Fence.Outcome = FenceFound
				}
			case "resend":
				e.Kind = EventResend
			case "retry":
				e.Kind, e.NewToken = EventRetry, op.Token+1
			case "decide":
				e.Kind = EventDecide
				e.Decision = &Decision{Choice: ChoiceDidNotHappen, Who: "ana", Why: "looked", Version: op.Version}
				if w.effects > 0 {
					e.Decision.Choice = ChoiceHappened
				}
			case "stale":
				e.Kind, e.Attempt, e.Token, e.Evidence = EventAnswer, n, -1, &Evidence{Class: ClassNotSent, Strength: P1}
			}
			tr, err := Step(op, e)
			var refused *Refusal
			if errors.As(err, &refused) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			prev := op
			op = &Operation{Intent: op.Intent, State: tr.State}
			if len(op.Attempts) > len(prev.Attempts) {
				w.deadAt[len(op.Attempts)] = now.Add(c.Flight + c.Pause)
			}
			check(t, prev, op, w, tr)
		}
	})
}

func check(t *rapid.T, prev, op *Operation, w *world, tr *Transition) {
	if w.effects > 1 {
		t.Fatalf("%d effects", w.effects)
	}
	switch op.Status {
	case Succeeded:
		if w.effects == 0 {
			t.Fatalf("SUCCEEDED by %s without an effect", op.SettledBy)
		}
	case FailedNoEffect:
		if w.effects > 0 {
			t.Fatalf("FAILED_NO_EFFECT (%s) with an effect", op.Reason)
		}
		for n := range w.deadAt {
			t.Fatalf("FAILED_NO_EFFECT (%s) while permit %d can still land", op.Reason, n)
		}
		for _, a := range op.Attempts {
			if !a.NoEffect {
				t.Fatalf("FAILED_NO_EFFECT with permit %d unaccounted for", a.N)
			}
		}
	}
	if prev.Status == Succeeded && op.Status != Succeeded {
		t.Fatalf("SUCCEEDED became %s", op.Status)
	}
	if op.Version != prev.Version+1 || len(op.Attempts) < len(prev.Attempts) {
		t.Fatalf("version %d after %d, %d attempts after %d", op.Version, prev.Version, len(op.Attempts), len(prev.Attempts))
	}
	if op.Status == Unknown && op.Lease.IsZero() && op.Due.IsZero() && op.Review.IsZero() {
		t.Fatalf("UNKNOWN (%s) that nobody holds, nothing moves and no person is asked about", op.Reason)
	}
	if len(tr.Alarms) > 0 && tr.Alarms[0] == AlarmConflict {
		t.Fatalf("a true provider raised %s", tr.Alarms[0])
	}
}
