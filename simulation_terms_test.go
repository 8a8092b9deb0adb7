package pawl_test

import (
	"time"

	"github.com/pawl-dev/pawl"
)

// terms is one drawn tool: what its contract declares, and how its provider behaves
// within that declaration.
type terms struct {
	contract pawl.Contract
	// flight is the longest time that a request really takes: what is declared, less the
	// jumps of the store's clock in this schedule, which eat from the declared margin.
	flight time.Duration
	// match is how the provider's records are recognised by a probe.
	match pawl.MatchKind
	// conflicts: a duplicate of a success is refused as a conflict instead of replayed.
	conflicts bool
	// storesRefusals: a definite refusal is kept under the key too.
	storesRefusals bool
	// accepted says what a fence does to work that was accepted and has not landed:
	// "cancel" it, answer "inconclusive", or "ignore" it and let it land.
	accepted string
}

const second = time.Second

// drawTerms draws a contract that validates. jumps is how far the store's clock will jump
// forward in the schedule.
func drawTerms(r draw, tool string, jumps time.Duration) *terms {
	c := pawl.Contract{
		Tool: tool, Class: pick(r, pawl.Keyed, pawl.Keyed, pawl.Keyed, pawl.Unsafe, pawl.Unsafe, pawl.Convergent),
		Identity: []pawl.Field{pawl.Text("order"), pawl.Text("line")}, Free: []string{"reason"},
		Scope:   pick(r, pawl.ScopeStep, pawl.ScopeStep, pawl.ScopeStep, pawl.ScopeRun, pawl.ScopeParentRun, pawl.ScopeBusiness),
		Repeat:  pick(r, pawl.RepeatStep, pawl.RepeatStep, pawl.RepeatExplicit),
		Timeout: r.between(second, 4*second), Linger: r.between(100*time.Millisecond, 4*second),
		MinTime: r.between(200*time.Millisecond, second), Pause: r.between(second, 6*second),
		MaxAttempts: 2 + r.IntN(7), MaxGenerations: 1 + r.IntN(4), Shared: r.chance(0.3), Effect: "work on {order} {line}",
	}
	t := &terms{match: pawl.MatchKey, accepted: pick(r, "cancel", "inconclusive", "ignore")}
	c.Flight = jumps + c.Timeout + c.Linger + r.between(0, 40*second)
	if r.chance(0.4) {
		c.Landing = r.between(second, 10*second)
	}
	if r.chance(0.3) {
		c.AfterRejection = pawl.AfterRejectionNewGeneration
	}
	if r.chance(0.35) {
		c.Serialize = []string{"order"}
	}
	if r.chance(0.15) && jumps == 0 {
		c.NotAfter = r.between(3*second, 20*second)
	}
	if r.chance(0.8) {
		c.Probe = &pawl.ProbeTerms{NegativeProof: r.chance(0.6), ShowsProgress: r.chance(0.5)}
		if r.chance(0.5) {
			c.Probe.Lag = r.between(200*time.Millisecond, 8*second)
		}
		t.match = pick(r, pawl.MatchKey, pawl.MatchMarker)
	}
	if r.chance(0.3) {
		c.Fence = &pawl.FenceTerms{RefusesLater: r.chance(0.75)}
		if c.Fence.RefusesLater {
			c.Fence.Tombstone = pick(r, r.between(second, c.Flight), c.Flight+c.Pause+r.between(time.Millisecond, time.Minute))
		}
	}
	switch c.Class {
	case pawl.Keyed:
		c.Retention = pick(r, r.between(second, c.Flight), c.Flight+c.Pause+10*second+r.between(second, 2*time.Minute))
		c.ReplaysErrors = r.chance(0.3)
		t.conflicts, t.storesRefusals = r.chance(0.3), r.chance(0.3)
	case pawl.Convergent:
		if c.Serialize = []string{"order"}; r.chance(0.7) {
			c.ConvergentFor = r.between(5*second, 3*time.Minute)
		}
	}
	if c.Probe != nil && c.Class != pawl.Keyed {
		switch {
		case r.chance(0.3):
			t.match, c.Serialize, c.Snapshot, c.Probe.SoleWriter = pawl.MatchState, []string{"order"}, true, true
		case r.chance(0.3):
			t.match = pawl.MatchBusiness
		}
	}
	if r.chance(0.15) {
		c.Snapshot = true
	}
	if r.chance(0.3) {
		c.Confirm = &pawl.ConfirmTerms{
			Always: true, TwoPersons: r.chance(0.3), Expires: r.between(10*second, 3*time.Minute), Valid: r.between(3*second, time.Minute),
		}
	}
	t.contract = c
	t.flight = c.Flight - jumps
	return t
}

// mayRepeat reports whether hops on the way may deliver a request twice: only where the
// key outlives every copy.
func (t *terms) mayRepeat() bool {
	c := &t.contract
	return c.Class == pawl.Keyed && c.Retention > c.Flight+c.Pause
}

// place says what of a call keeps its intention apart from others, as the host means it.
type place struct{ tenant, run, parent, step, order, line string }

func (t *terms) intention(p place) string {
	id := p.tenant + "|" + t.contract.Tool + "|" + p.order + "|" + p.line
	switch t.contract.Scope {
	case pawl.ScopeBusiness:
		return id
	case pawl.ScopeParentRun:
		return id + "|parent " + p.parent
	case pawl.ScopeRun:
		return id + "|run " + p.run
	default:
		return id + "|run " + p.run + "|step " + p.step
	}
}

// guarded names the group of intentions of which only one may be open at a time: the
// same identity at other steps of a run. It is empty where nothing is guarded.
func (t *terms) guarded(p place) string {
	if t.contract.Scope != pawl.ScopeStep {
		return ""
	}
	return p.tenant + "|" + t.contract.Tool + "|" + p.order + "|" + p.line + "|run " + p.run
}

// subject names what a serialised tool's operations exclude each other on.
func (t *terms) subject(p place) string {
	if len(t.contract.Serialize) == 0 {
		return ""
	}
	return p.tenant + "|" + p.order
}
