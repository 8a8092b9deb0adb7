package pawl_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

// deed is one thing that the schedule does at its time.
type deed struct {
	at time.Duration
	do func()
}

// events draws and plays what happens: calls in bursts, processes that end and are
// replaced, jumps of the store's clock, and people.
func (s *sim) events(d draw, jumps time.Duration) {
	window := d.between(30*second, 110*second)
	var deeds []deed
	add := func(at time.Duration, do func()) { deeds = append(deeds, deed{at, do}) }
	var at time.Duration
	var last *ask
	for i := range 6 + d.IntN(18) {
		if at += d.between(0, 400*time.Millisecond); d.chance(0.4) {
			at = d.between(0, window)
		}
		a := s.drawAsk(d, i)
		if last != nil && d.chance(0.15) { // the same call once more
			a.call, a.place, a.remote = last.call, last.place, last.remote
			a.call.Attributes = maps.Clone(last.call.Attributes)
			a.call.Attributes["call"] = strconv.Itoa(i)
			at += d.between(0, pick(d, time.Microsecond, 5*second))
		}
		last = a
		add(at, func() {
			p := s.pickProcess(a.process)
			s.wg.Go(func() { s.ask(p, a) })
		})
	}
	for range d.IntN(4) {
		add(d.between(0, window), func() { s.replace(d.chance(0.7)) })
	}
	if s.bad > 0.5 && d.chance(0.4) {
		add(d.between(0, window), func() { s.pickProcess(d).crash("at any time") })
	}
	if d.chance(0.3) {
		grace := d.between(0, 10*second)
		add(d.between(0, window), func() {
			p := s.pickProcess(d)
			s.saw("stop")
			s.stop(p, grace)
		})
	}
	if jumps > 0 {
		add(d.between(0, window), func() { s.jump(jumps) })
	}
	if d.chance(0.25) {
		back := d.between(0, 9*second) // less than the margin of a resend
		add(d.between(0, window), func() { s.jump(-back) })
	}
	for range d.IntN(5) {
		add(d.between(15*second, window), func() {
			p := s.pickProcess(d)
			s.wg.Go(func() { s.person(p, s.dice.at("person", p.name, s.clock(time.Now()))) })
		})
	}
	if slices.ContainsFunc(s.remotes, func(r *remote) bool { return r.contract.Confirm != nil }) {
		for range 4 + d.IntN(8) {
			add(d.between(0, window), func() {
				p := s.pickProcess(d)
				s.wg.Go(func() { s.approvers(p, s.dice.at("approvers", p.name, s.clock(time.Now()))) })
			})
		}
	}
	if d.chance(0.1) {
		run, tenant := pick(d, "run-1", "run-2", "run-3"), pick(d, "acme", "acme", "beta")
		add(d.between(0, window), func() {
			p := s.pickProcess(d)
			s.wg.Go(func() { s.callOff(p, tenant, run) })
		})
	}
	slices.SortFunc(deeds, func(a, b deed) int { return cmp.Compare(a.at, b.at) })
	for _, x := range deeds {
		time.Sleep(time.Until(s.start.Add(x.at)))
		x.do()
	}
	time.Sleep(time.Until(s.start.Add(window)))
}

// pickProcess draws one of the processes that run; where none does, one is started.
func (s *sim) pickProcess(d draw) *process {
	var run []*process
	for _, p := range s.procs {
		if !p.stopped && !p.dead.Load() && !(p.link.failed.Load() && d.chance(0.6)) {
			run = append(run, p)
		}
	}
	if len(run) == 0 {
		return s.launch(true, nil)
	}
	return pick(d, run...)
}

// replace replaces the processes that are dead or whose store has failed.
func (s *sim) replace(sweeps bool) {
	for _, p := range s.procs {
		if p.link.failed.Load() {
			s.stop(p, 0)
		}
	}
	s.launch(sweeps, nil)
}

func (s *sim) jump(by time.Duration) {
	if !s.jumps {
		return
	}
	s.saw("clock jump")
	s.log("the store's clock jumps by %v", by)
	s.offset.Add(int64(by))
}

// ask is one call as the schedule drew it.
type ask struct {
	call    pawl.Call
	place   place
	remote  *remote
	process draw
	timeout time.Duration // of the context; zero for none
	hangsUp time.Duration // when the caller ends the context; zero for never
}

func (s *sim) drawAsk(d draw, i int) *ask {
	r := pick(d, s.remotes...)
	a := &ask{remote: r, process: s.dice.at("whom", strconv.Itoa(i))}
	p := place{
		tenant: pick(d, "acme", "acme", "acme", "acme", "", "beta"), run: pick(d, "run-1", "run-1", "run-1", "run-2", "run-3"),
		step: pick(d, "1", "1", "1", "2", ""), order: pick(d, "A", "A", "B"), line: pick(d, "x", "x", "x", "y"),
	}
	p.parent = s.parents[p.run]
	a.place = p
	args, _ := json.Marshal(map[string]any{
		"order": pick(d, p.order, " "+p.order), "line": p.line, "amount": pick(d, 10, 10, 10, 10, 20), "reason": pick(d, "late", "broken"),
	})
	a.call = pawl.Call{
		Tool: r.contract.Tool, Args: args, Run: p.run, ParentRun: p.parent, Step: p.step, Tenant: p.tenant,
		Actor: pick(d, "ana", "ana", "ana", "ana", "bob"), Attributes: map[string]string{"call": strconv.Itoa(i)},
	}
	if d.chance(0.15) {
		a.call.Again = true
		a.call.Attributes["again"] = "yes"
	}
	switch {
	case d.chance(0.45):
		a.timeout = d.between(500*time.Millisecond, 30*second)
	case d.chance(0.2):
		a.hangsUp = d.between(0, 6*second)
	case d.chance(0.05):
		a.hangsUp = -1
	}
	return a
}

// telling is one envelope that a caller got.
type telling struct {
	at        time.Time
	known     time.Time // the record that it rests on is not older than this
	p         *process
	env       pawl.Envelope
	intention string
}

// ask makes a call and judges its answer.
func (s *sim) ask(p *process, a *ask) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	began := time.Now()
	deadline := began.Add(p.opts.Turn)
	if a.timeout > 0 {
		deadline = began.Add(a.timeout)
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	switch {
	case a.hangsUp < 0:
		cancel()
		deadline = began
	case a.hangsUp > 0:
		defer time.AfterFunc(a.hangsUp, cancel).Stop()
		if end := began.Add(a.hangsUp); end.Before(deadline) {
			deadline = end
		}
	}
	faults, hangs := p.link.faults.Load(), p.link.hangs.Load()
	env, err := p.ex.Do(ctx, a.call)
	now := time.Now()
	if p.dead.Load() {
		return // its caller is gone too
	}
	s.log("%s: call %s by %s of %s: %s %s %s %s %v", p.name, a.call.Attributes["call"], a.call.Actor, a.remote.intention(a.place), env.Status, env.Reason, env.ActionTaken, env.OperationID, err)
	s.saw(fmt.Sprintf("told %s %s %s", env.Status, env.Reason, env.ActionTaken))
	grace := 250 * time.Millisecond
	if a.hangsUp != 0 {
		grace += second // for a look at the record
	}
	if late := now.Sub(deadline); late > grace {
		s.fail("%s: call %s answered %v after its deadline", p.name, a.call.Attributes["call"], late)
	}
	if err != nil && faults == p.link.faults.Load() {
		s.fail("%s: call %s: error %v although the store did not fail", p.name, a.call.Attributes["call"], err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := now.Add(-750 * time.Millisecond)
	if p.link.hangs.Load() != hangs {
		known = began
	}
	id := s.judgeEnvelope(p, a, &env, known)
	if id != (pawl.ID{}) {
		s.wg.Go(func() { s.pry(p, a, id) })
	}
}

// pry asks for an operation as those do whom it does not belong to.
func (s *sim) pry(p *process, a *ask, id pawl.ID) {
	if _, err := p.ex.Status(context.Background(), a.call.Tenant+"x", a.call.Actor, id); err == nil {
		s.fail("%s was shown to another tenant", id)
	}
	env, err := p.ex.Status(context.Background(), a.call.Tenant, "eve", id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared := s.ops[id] != nil && s.ops[id].op.Contract.Shared; err == nil && !shared && (env.Result != nil || env.ResultRef != "") {
		s.fail("the result of %s was shown to another actor", id)
	}
}

// judgeEnvelope holds an answer to what is true when it is given, and keeps it for what
// turns out later.
func (s *sim) judgeEnvelope(p *process, a *ask, env *pawl.Envelope, known time.Time) (id pawl.ID) {
	t := telling{at: time.Now(), known: known, p: p, env: *env, intention: a.remote.intention(a.place)}
	call := "call " + a.call.Attributes["call"]
	var rec *record
	if env.OperationID != "" {
		var err error
		id, err = pawl.ParseID(env.OperationID)
		if rec = s.ops[id]; err == nil && rec != nil {
			t.intention = rec.intention
			if rec.op.Tenant != a.call.Tenant || rec.op.Tool != a.call.Tool {
				s.fail("%s of %q was answered with %s", call, a.call.Tenant, rec.intention)
			}
		} else if env.Reason != pawl.ReasonStore {
			s.fail("%s was answered with operation %s, which does not exist", call, env.OperationID)
		}
	}
	s.told = append(s.told, t)
	switch env.Status {
	case pawl.Succeeded:
		if rec == nil || len(rec.remote.effects(rec.op.Key.String(), t.at)) == 0 {
			s.fail("%s was told SUCCEEDED (%s) without an effect", call, env.Reason)
			return id
		}
		if same := amount(a.call.Args) == amount(rec.op.Args); !same && t.intention == a.remote.intention(a.place) && env.Reason != pawl.ReasonNotYours {
			s.fail("%s was answered with an effect of other details", call)
		}
		mine := rec.op.Actor == a.call.Actor || rec.op.Contract.Shared
		switch {
		case !mine && (env.Result != nil || env.ResultRef != ""):
			s.fail("%s of %s got the result of %s", call, a.call.Actor, rec.op.Actor)
		case env.ResultRef != "" && !rec.remote.refers(rec.op, env.ResultRef):
			s.fail("%s got the reference %s of another effect than its own", call, env.ResultRef)
		}
	case pawl.FailedNoEffect:
	case pawl.Prepared, pawl.Pending, pawl.Unknown:
		if env.RetrySafe {
			s.fail("%s was told that repeating an %s is safe", call, env.Status)
		}
	default:
		s.fail("%s was told %q", call, env.Status)
	}
	return id
}

func amount(args json.RawMessage) (n int) {
	var a struct{ Amount *int }
	a.Amount = &n
	if err := json.Unmarshal(args, &a); err != nil {
		panic(err)
	}
	return n
}

// person looks at what waits for one: into the ledger of the provider, once nothing can
// land any more, and decides. Now and then it looks too early, and must be refused.
func (s *sim) person(p *process, d draw) {
	ops, err := s.store.Find(context.Background(), pawl.Query{AllTenants: true, Review: true})
	if err != nil || p.dead.Load() {
		return
	}
	for _, op := range ops {
		if op.Status == pawl.Prepared {
			continue // is for those who approve
		}
		s.mu.Lock()
		happened := len(s.ops[op.ID].remote.effects(op.Key.String(), time.Now())) > 0
		s.mu.Unlock()
		early := !s.storeNow().After(op.SafeAt())
		if !happened && early && !d.chance(0.3) || d.chance(0.3) {
			continue
		}
		decision := pawl.Decision{Choice: pawl.ChoiceDidNotHappen, Who: "ana", Why: "looked", Version: op.Version}
		if happened {
			decision.Choice = pawl.ChoiceHappened
		}
		time.Sleep(d.between(0, second))
		_, err := p.ex.Decide(context.Background(), op.Tenant, op.ID, decision)
		var refused *pawl.Refusal
		switch {
		case errors.As(err, &refused):
			s.saw("person refused: " + string(refused.Why))
		case err != nil:
			s.saw("person met a store that fails")
		default:
			s.saw(fmt.Sprintf("person decided: happened %v", happened))
		}
	}
}
