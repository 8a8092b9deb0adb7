package receivertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// Verdict is what became of a vector.
type Verdict string

const (
	Passed   Verdict = "passed"
	Failed   Verdict = "failed"
	NotTried Verdict = "not tried"
)

// Finding is the verdict on one vector.
type Finding struct {
	// Vector is its number, such as V07.
	Vector string `json:"vector"`
	// Asks says what must hold.
	Asks    string  `json:"asks"`
	Verdict Verdict `json:"verdict"`
	// Says is what was seen instead, or what is missing for a try.
	Says string `json:"says,omitempty"`
	// Draft: the IETF draft asks for it; otherwise a stricter profile does.
	Draft bool `json:"draft"`
}

// Check tries every vector on the target, one after the other, and returns a finding for
// each, in their order. It makes several dozen changes at the service. An error means that
// the service could not be reached at all.
func Check(ctx context.Context, target *Target) ([]Finding, error) {
	t := target.withDefaults()
	if _, err := t.do(ctx, asked{key: fresh()}); err != nil {
		return nil, fmt.Errorf("reach the service: %w", err)
	}
	var findings []Finding
	for _, v := range vectors {
		f := Finding{Vector: v.id, Asks: v.asks, Draft: v.draft, Verdict: Passed}
		if missing := v.missing(t); missing != "" {
			f.Verdict, f.Says = NotTried, "needs "+missing
		} else if err := v.try(ctx, t); err != nil {
			f.Verdict, f.Says = Failed, err.Error()
		}
		if err := ctx.Err(); err != nil {
			return findings, err
		}
		findings = append(findings, f)
	}
	return findings, nil
}

// TB is what Run needs of a *testing.T.
type TB interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Run checks the target and fails the test for each vector that failed or was not tried.
func Run(t TB, target *Target) {
	t.Helper()
	findings, err := Check(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Verdict != Passed {
			t.Errorf("%s %s: %s: %s", f.Vector, f.Verdict, f.Asks, f.Says)
		}
	}
}

// vector is one thing that a service owes.
type vector struct {
	id, asks string
	draft    bool
	// needs are the means without which it cannot be tried.
	needs []means
	try   func(ctx context.Context, t *Target) error
}

type means string

const (
	effects   means = "a count of effects (--effects)"
	drills    means = "a service that obeys Receiver-Drill (--drills)"
	restart   means = "a way to restart the service (--restart)"
	store     means = "a way to take its database away (--store-down, --store-up)"
	retention means = "a retention that is short enough to wait for (--retention)"
	lease     means = "a longest time of work that is short enough to wait for (--lease)"
	another   means = "another route (--other)"
	node      means = "the route at another process (--node)"
	caller    means = "another caller (--other-authorization)"
	records   means = "the URL of its records (--record)"
	undoing   means = "the URL that undoes (--undo)"
	lateness  means = "the header of its not-after (--not-after)"
)

func (v *vector) missing(t *Target) string {
	there := map[means]bool{
		effects: t.Effects != "", drills: t.Drills, restart: t.Restart != nil, store: t.Store != nil, retention: t.Retention > 0,
		lease: t.Lease > 0, another: t.Other != "", node: t.Node != "", caller: t.OtherAuthorization != "",
		records: t.Record != "", undoing: t.Undo != "", lateness: t.NotAfter != "",
	}
	for _, m := range v.needs {
		if !there[m] {
			return string(m)
		}
	}
	return ""
}

// fresh is a key that no one used.
func fresh() string {
	var b [12]byte
	rand.Read(b[:])
	return "drill-" + hex.EncodeToString(b[:])
}

// made is how many changes f makes, or minus one where nobody tells.
func made(ctx context.Context, t *Target, f func() error) (int, error) {
	before, err := t.effects(ctx)
	told := err == nil
	if err != nil && err != errNoEffects {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	if !told {
		return -1, nil
	}
	after, err := t.effects(ctx)
	return after - before, err
}

// once fails where f made more or fewer than one change.
func once(ctx context.Context, t *Target, f func() error) error { return exactly(ctx, t, 1, f) }

func exactly(ctx context.Context, t *Target, want int, f func() error) error {
	n, err := made(ctx, t, f)
	if err == nil && n >= 0 && n != want {
		err = fmt.Errorf("got %d effects, want %d", n, want)
	}
	return err
}
