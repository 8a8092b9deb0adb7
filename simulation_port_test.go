package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

// port is one process's way to a remote.
type port struct {
	*remote
	p *process
}

// Interface guards.
var (
	_ pawl.Prober      = (*port)(nil)
	_ pawl.Fencer      = (*port)(nil)
	_ pawl.Snapshotter = (*port)(nil)
)

func (o *port) Prepare(inv *pawl.Invocation) (pawl.Outbound, error) {
	order, _ := inv.Identity["order"].(string)
	line, _ := inv.Identity["line"].(string)
	bytes, err := json.Marshal(map[string]any{
		"Place": []string{inv.Tenant, inv.Run, o.s.parents[inv.Run], inv.Step, order, line}, "Args": inv.Canonical,
	})
	return pawl.Outbound{Request: bytes}, err
}

// placeOf reads the place out of the request that Prepare made.
func placeOf(op *pawl.Operation) place {
	var body struct{ Place [6]string }
	if err := json.Unmarshal(op.Request, &body); err != nil {
		panic(err)
	}
	p := body.Place
	return place{p[0], p[1], p[2], p[3], p[4], p[5]}
}

// wait sleeps, unless the context ends first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// soon is a healthy delay of a network, with now and then a long one.
func (o *port) soon(d draw, long time.Duration) time.Duration {
	if d.chance(0.15 * o.s.trouble()) {
		return d.between(0, long)
	}
	return d.between(5*time.Millisecond, 150*time.Millisecond)
}

func (o *port) Send(ctx context.Context, s *pawl.Sending) pawl.Evidence {
	op, c := s.Operation, s.Operation.Contract
	if newest := op.Attempts[len(op.Attempts)-1]; newest.Kind != pawl.AttemptResend && time.Now().After(s.Deadline) {
		o.s.fail("%s sends %s after the turn's deadline", o.p.name, op.ID)
	}
	n := strconv.Itoa(len(op.Attempts))
	d := o.s.dice.at("send", op.Key.String(), n)
	bad := o.s.trouble()
	notSent := pawl.Evidence{Class: pawl.ClassNotSent, Strength: pawl.P1, Proof: "no_connection"}
	stall := d.between(0, 20*time.Millisecond)
	if d.chance(0.1 * bad) {
		stall = d.between(0, c.Pause/2-100*time.Millisecond) // the other half may pass before
	}
	if err := wait(ctx, stall); err != nil && !o.p.dead.Load() {
		o.s.saw("given up before the write")
		return notSent
	}
	if d.chance(0.25*bad) && !o.p.dead.Load() {
		o.s.saw("connection refused")
		return notSent
	}
	o.s.mu.Lock()
	if o.p.dead.Load() {
		o.s.mu.Unlock()
		<-ctx.Done()
		return pawl.Evidence{Class: pawl.ClassAmbiguous}
	}
	q := o.write(o.p, s)
	answers := make(chan pawl.Evidence, 4)
	broken := o.dispatch(q, d, answers)
	o.s.mu.Unlock()
	if d.chance(0.04 * bad) {
		o.p.crash("after a write")
	}
	done := ctx.Done()
	switch {
	case d.chance(0.01 * bad):
		o.s.saw("port panicked")
		panic("the port broke")
	case d.chance(0.02 * bad): // a port that comes back later than its context says
		o.s.saw("port deaf")
		deaf, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.between(0, pick(d, 5*second, time.Minute)))
		defer cancel()
		done = deaf.Done()
	}
	select {
	case e := <-answers:
		return e
	case <-broken:
		o.s.saw("connection broke")
		return pawl.Evidence{Class: pawl.ClassAmbiguous}
	case <-done:
		o.s.mu.Lock()
		q.gaveUp = true
		o.s.mu.Unlock()
		return pawl.Evidence{Class: pawl.ClassAmbiguous}
	}
}

// dispatch sends a request on its way. The channel it returns says that the client's end
// of the connection broke.
func (o *port) dispatch(q *request, d draw, answers chan pawl.Evidence) <-chan time.Time {
	bad := o.s.trouble()
	back := o.soon(d, 10*second)
	loses := d.chance(0.2 * bad)
	answer := func(e pawl.Evidence) {
		if loses {
			o.s.saw("answer lost")
			return
		}
		o.s.after(back, func() { answers <- e })
	}
	var broken <-chan time.Time
	if d.chance(0.3 * bad) {
		broken = time.After(d.between(0, 3*second))
	}
	if d.chance(0.2 * bad) {
		o.s.saw("request lost")
		return broken
	}
	o.s.after(o.soon(d, o.flight), func() { o.arrive(q, "first", answer) })
	if o.mayRepeat() && d.chance(0.15*bad) {
		o.s.saw("request delivered twice")
		o.s.after(d.between(0, o.flight), func() { o.arrive(q, "second", answer) })
	}
	return broken
}

// ask goes to the remote and back: f runs there. It reports false where no answer came.
func (o *port) ask(ctx context.Context, d draw, f func()) bool {
	if d.chance(0.2*o.s.trouble()) || o.p.dead.Load() {
		o.s.saw("question without an answer")
		wait(ctx, d.between(0, 5*second))
		return false
	}
	if wait(ctx, o.soon(d, o.contract.Timeout)) != nil || o.p.dead.Load() {
		return false
	}
	o.s.mu.Lock()
	f()
	o.s.mu.Unlock()
	return wait(ctx, o.soon(d, o.contract.Timeout)) == nil
}

func (o *port) Probe(ctx context.Context, op *pawl.Operation) (result pawl.ProbeResult) {
	key := op.Key.String()
	d := o.s.dice.at("probe", key, strconv.Itoa(op.Probes.Count))
	answered := o.ask(ctx, d, func() {
		at := time.Now().Add(-d.between(0, o.contract.Probe.Lag))
		if d.chance(0.3) {
			at = time.Now().Add(-o.contract.Probe.Lag)
		}
		result = o.look(op, key, at)
		if result.Outcome == pawl.Absent && len(o.effects(key, time.Now())) > 0 {
			o.s.saw("effect hidden by the lag")
		}
	})
	if !answered {
		return pawl.ProbeResult{Outcome: pawl.Inconclusive}
	}
	return result
}

// look reads the remote as it was at a time.
func (o *port) look(op *pawl.Operation, key string, at time.Time) pawl.ProbeResult {
	found := func(e *effect, n int) pawl.ProbeResult {
		return pawl.ProbeResult{Outcome: pawl.Found, Match: o.match, Count: n, Refs: []string{e.ref}, Result: json.RawMessage(`{"id":"` + e.ref + `"}`)}
	}
	rec := o.s.ops[op.ID]
	var seen []*effect
	for _, e := range o.ledger {
		var hit bool
		switch o.match {
		case pawl.MatchBusiness:
			a, b := e.by.place, rec.place
			hit = a.tenant == b.tenant && a.order == b.order && a.line == b.line && !e.at.Before(rec.permits[0].at)
		case pawl.MatchState:
			var before struct{ Revision int }
			if json.Unmarshal(op.Before, &before) != nil {
				return pawl.ProbeResult{Outcome: pawl.Inconclusive}
			}
			hit = e.by.subject == rec.subject && e.revision > before.Revision
		default:
			hit = e.by.key == key
		}
		if hit && !e.redoes && !e.at.After(at) {
			seen = append(seen, e)
		}
	}
	if !o.contract.Probe.NegativeProof && o.s.dice.at("blind", key).chance(0.2) && len(seen) > 0 {
		o.s.saw("effect that the probe never shows")
		return pawl.ProbeResult{Outcome: pawl.Absent}
	}
	if len(seen) > 0 {
		return found(seen[len(seen)-1], len(seen))
	}
	if j := o.jobs[key]; o.contract.Probe.ShowsProgress && j != nil && !j.at.After(at) && (j.over.IsZero() || j.over.After(at)) {
		o.s.saw("in progress")
		return pawl.ProbeResult{Outcome: pawl.InProgress}
	}
	return pawl.ProbeResult{Outcome: pawl.Absent}
}

func (o *port) Fence(ctx context.Context, op *pawl.Operation) (result pawl.FenceResult) {
	key := op.Key.String()
	d := o.s.dice.at("fence", key, strconv.Itoa(op.Probes.Tries))
	if !o.ask(ctx, d, func() { result = o.fence(key) }) {
		return pawl.FenceResult{Outcome: pawl.FenceInconclusive}
	}
	return result
}

// fence sees to it that nothing happens under a key, as far as the terms go.
func (o *port) fence(key string) pawl.FenceResult {
	now := time.Now()
	if seen := o.effects(key, now); len(seen) > 0 {
		o.s.saw("fence found the effect")
		return pawl.FenceResult{Outcome: pawl.FenceFound, Ref: seen[0].ref}
	}
	if o.working[key] > 0 {
		return pawl.FenceResult{Outcome: pawl.FenceInconclusive}
	}
	if j := o.jobs[key]; j != nil && j.over.IsZero() {
		switch o.accepted {
		case "inconclusive":
			return pawl.FenceResult{Outcome: pawl.FenceInconclusive}
		case "cancel":
			o.s.saw("fence called accepted work off")
			j.off, j.over, j.by.refused = true, now, true
		default:
			o.s.saw("fence let accepted work be")
		}
	}
	if o.contract.Fence.RefusesLater {
		o.tombs[key] = now.Add(o.contract.Fence.Tombstone)
	}
	return pawl.FenceResult{Outcome: pawl.FenceHeld}
}

var errAway = errors.New("the remote is away")

func (o *port) Snapshot(ctx context.Context, inv *pawl.Invocation) (state json.RawMessage, err error) {
	d := o.s.dice.at("snapshot", inv.Key.String(), strconv.Itoa(int(inv.Permit.UnixNano())))
	order, _ := inv.Identity["order"].(string)
	answered := o.ask(ctx, d, func() {
		n := o.revision(o.subject(place{tenant: inv.Tenant, order: order}), time.Now())
		state = json.RawMessage(`{"Revision":` + strconv.Itoa(n) + `}`)
	})
	if !answered {
		return nil, errAway
	}
	return state, nil
}
