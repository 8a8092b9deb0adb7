package pawl_test

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

// link is one process's way to the store that all share. It breaks as real ones do:
// before or after a write, for a while or for good, and it dies with its process.
type link struct {
	pawl.Store
	s *sim
	p *process
	// failed is set where the process's store has failed: it takes no more writes.
	failed atomic.Bool
	// faults counts the accesses that were refused or late, hangs those that were very late.
	faults, hangs atomic.Int64
	// busy is a time in which the store is busy or full, as the error says.
	busyFrom, busyTo time.Time
	busyError        error
}

// Interface guards.
var _ pawl.Store = (*link)(nil)

func (l *link) refuse(err error) error {
	l.faults.Add(1)
	return err
}

// enter is what every access goes through first. What it draws depends on the access and the
// instant, not on the order in which goroutines came.
func (l *link) enter(ctx context.Context, what string, write bool) (draw, error) {
	d := l.s.dice.at("store", l.p.name, what, strconv.FormatInt(int64(time.Since(l.s.start)), 10))
	var late time.Duration
	switch bad := l.s.trouble(); {
	case !write && d.chance(0.002*bad):
		late = d.between(0, 8*second)
		l.hangs.Add(1)
		l.faults.Add(1)
		l.s.saw("slow read")
	case d.chance(0.1):
		late = d.between(0, 5*time.Millisecond)
	}
	if late > 0 {
		if err := wait(ctx, late); err != nil {
			return d, l.refuse(err)
		}
	}
	now := time.Now()
	switch {
	case l.p.dead.Load():
		return d, pawl.ErrStoreFailed
	case write && l.failed.Load():
		return d, l.refuse(pawl.ErrStoreFailed)
	case now.After(l.busyFrom) && now.Before(l.busyTo) && d.chance(0.9) && !l.s.calm.Load() && (write || l.busyError == pawl.ErrBusy):
		l.s.saw(l.busyError.Error())
		return d, l.refuse(l.busyError)
	}
	return d, nil
}

// write makes one change, with what may go wrong around it. what names the kind of change,
// of what it is made to.
func (l *link) write(ctx context.Context, what, of string, stall time.Duration, f func() error) error {
	d, err := l.enter(ctx, what+of, true)
	if err != nil {
		return err
	}
	bad := l.s.trouble()
	if d.chance(0.05 * bad) {
		l.s.saw("slow write")
		l.faults.Add(1)
		if err := wait(ctx, d.between(0, stall)); err != nil {
			return l.refuse(err)
		}
	}
	switch {
	case d.chance(0.01 * bad):
		l.p.crash("before " + what)
	case d.chance(0.005 * bad):
		l.fail("before " + what)
	}
	l.s.mu.Lock()
	l.s.newest = nil
	switch {
	case l.p.dead.Load():
		err = pawl.ErrStoreFailed
	case l.failed.Load():
		err = l.refuse(pawl.ErrStoreFailed)
	default:
		err = f()
	}
	made := l.s.newest
	l.s.mu.Unlock()
	if err != nil && ctx.Err() != nil { // withdrawn: it had been slow
		l.faults.Add(1)
	}
	if err != nil {
		return err
	}
	switch {
	case (made != nil || what != "begin") && d.chance(0.03*bad): // a disk that stands still after the write
		l.faults.Add(1)
		late := 700 * time.Millisecond
		if d.chance(0.15) {
			l.s.saw("write hung")
			l.hangs.Add(1)
			late = 40 * second
			if made != nil {
				made.hidden = true
			}
		}
		wait(context.Background(), d.between(0, late))
	}
	switch {
	case d.chance(0.015 * bad):
		l.p.crash("after " + what)
	case d.chance(0.01 * bad):
		if l.fail("after " + what); made != nil {
			made.hidden = true
		}
	default:
		return nil
	}
	return l.refuse(pawl.ErrStoreFailed)
}

// fail closes the store to this process's writes, which then has to be replaced.
func (l *link) fail(when string) {
	if l.s.mayBreak() && l.failed.CompareAndSwap(false, true) {
		l.s.saw("store failed")
		l.s.log("%s: store failed %s", l.p.name, when)
	}
}

func (l *link) Begin(ctx context.Context, op *pawl.Operation, first []byte) (standing *pawl.Standing, err error) {
	err = l.write(ctx, "begin", op.Key.String(), 3*second, func() (err error) {
		if standing, err = l.Store.Begin(ctx, op, first); err == nil && standing == nil {
			l.s.begun(l.p, op, first)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return standing, nil
}

func (l *link) Apply(ctx context.Context, c *pawl.Change) error {
	stall := 2 * l.p.opts.Lease // of a worker that stands still and wakes up
	for _, inTurn := range []string{"retry", "takeover", "decide", "give_back"} {
		if bytes.Contains(c.Entry, []byte(`"event":"`+inTurn+`"`)) {
			stall = 200 * time.Millisecond
		}
	}
	return l.write(ctx, "a change", event(c.Entry), stall, func() error {
		before, _ := l.Store.Get(ctx, l.s.tenantOf(c.ID), c.ID)
		err := l.Store.Apply(ctx, c)
		if err == nil {
			l.s.changed(l.p, before, c)
		}
		return err
	})
}

func (l *link) Renew(ctx context.Context, id pawl.ID, token int64, lease, due time.Time) (renewed bool, err error) {
	err = l.write(ctx, "renew", "", 2*l.p.opts.Lease, func() (err error) {
		if renewed, err = l.Store.Renew(ctx, id, token, lease, due); renewed {
			op, _ := l.Store.Get(ctx, l.s.tenantOf(id), id)
			l.s.judgeHeld(op)
			l.s.ops[id].renewed = time.Now()
		}
		return err
	})
	return renewed && err == nil, err
}

func (l *link) Claim(ctx context.Context, c pawl.Claim) (ops []*pawl.Operation, err error) {
	err = l.write(ctx, "claim", "", 2*l.p.opts.Lease, func() (err error) {
		ops, err = l.Store.Claim(ctx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ops, nil
}

func (l *link) Get(ctx context.Context, tenant string, id pawl.ID) (*pawl.Operation, error) {
	if _, err := l.enter(ctx, "get", false); err != nil {
		return nil, err
	}
	return l.Store.Get(ctx, tenant, id)
}

func (l *link) Find(ctx context.Context, q pawl.Query) ([]*pawl.Operation, error) {
	if _, err := l.enter(ctx, "find", false); err != nil {
		return nil, err
	}
	return l.Store.Find(ctx, q)
}

func (l *link) Now(ctx context.Context) (time.Time, error) {
	if _, err := l.enter(ctx, "now", false); err != nil {
		return time.Time{}, err
	}
	return l.Store.Now(ctx)
}

// record is what the simulation itself keeps of an operation: every state that was made
// durable and every permit.
type record struct {
	op        *pawl.Operation
	remote    *remote
	place     place
	intention string
	again     bool // begun by a call with the host's word
	subject   string
	permits   []*permit
	states    []change
	renewed   time.Time // when a lease on it was renewed last
}

type permit struct {
	kind    pawl.AttemptKind
	at      time.Time
	by      string
	written bool // a request was put on the wire
	hidden  bool // the store kept it and said that it failed
}

// change is one transition: the operation before it, as it was stored, and what was
// written.
type change struct {
	at     time.Time
	before *pawl.Operation
	state  pawl.State
	entry  []byte
}

func (r *record) last() *pawl.State { return &r.states[len(r.states)-1].state }

func (s *sim) tenantOf(id pawl.ID) string {
	if rec := s.ops[id]; rec != nil {
		return rec.op.Tenant
	}
	return ""
}

func (s *sim) begun(p *process, op *pawl.Operation, first []byte) {
	rec := &record{op: op, remote: s.remote(op.Tool), again: op.Attributes["again"] != ""}
	rec.place = placeOf(op)
	rec.intention, rec.subject = rec.remote.intention(rec.place), rec.remote.subject(rec.place)
	if s.off[op.Tenant+"|"+op.Run] {
		s.fail("%s began in a run that was called off", rec.intention)
	}
	if op.Gen > 0 {
		s.saw("new generation")
	}
	if most := op.Contract.MaxGenerations; op.Gen >= most {
		s.fail("%s has generation %d, at most %d are allowed", rec.intention, op.Gen, most)
	}
	s.ops[op.ID] = rec
	s.begins = append(s.begins, rec)
	s.commit(p, rec, change{at: time.Now(), state: op.State, entry: first})
}

func (s *sim) changed(p *process, before *pawl.Operation, c *pawl.Change) {
	rec := s.ops[c.ID]
	s.commit(p, rec, change{at: time.Now(), before: before, state: *c.State, entry: bytes.Clone(c.Entry)})
}

// commit judges one transition at the moment it becomes durable.
func (s *sim) commit(p *process, rec *record, c change) {
	rec.states = append(rec.states, c)
	n := &c.state
	s.log("%s: %s v%d %s %s %s", p.name, rec.op.ID.String()[11:19], n.Version, event(c.entry), n.Status, n.Reason)
	if int64(len(rec.states)) != n.Version {
		s.fail("%s: version %d is change %d", rec.intention, n.Version, len(rec.states))
	}
	for _, a := range n.Attempts[len(rec.permits):] {
		s.newest = &permit{kind: a.Kind, at: c.at, by: p.name}
		rec.permits = append(rec.permits, s.newest)
		if most := rec.op.Contract.MaxAttempts; len(rec.permits) > most {
			s.fail("%s has %d permits, at most %d are allowed", rec.intention, len(rec.permits), most)
		}
		s.judgePermit(rec)
		s.judgeYes(rec, &c)
	}
	if c.before != nil && c.before.Status == pawl.Succeeded && n.Status != pawl.Succeeded {
		s.fail("%s was SUCCEEDED and is %s", rec.intention, n.Status)
	}
	switch n.Status {
	case pawl.Succeeded:
		if len(rec.remote.effects(rec.op.Key.String(), c.at)) == 0 {
			s.fail("%s is SUCCEEDED (%s by %s) without an effect", rec.intention, n.Reason, n.SettledBy)
		}
	case pawl.FailedNoEffect:
		s.judgeNoEffect(rec)
	}
	if event(c.entry) == "takeover" && n.Token != c.before.Token && c.before.Lease.After(s.storeNow()) && time.Since(rec.renewed) > 9*second { // as long as a worker may hesitate
		s.fail("%s: %s took over a lease that %s holds", rec.intention, p.name, rec.permits[len(rec.permits)-1].by)
	}
	op := &pawl.Operation{Intent: rec.op.Intent, State: *n}
	s.judgeHeld(op)
}

// judgeNoEffect holds FAILED_NO_EFFECT to what can still land.
func (s *sim) judgeNoEffect(rec *record) {
	n, key, r := rec.last(), rec.op.Key.String(), rec.remote
	if len(r.effects(key, time.Now())) > 0 {
		s.fail("%s is FAILED_NO_EFFECT (%s) with an effect", rec.intention, n.Reason)
	}
	for _, q := range r.requests {
		if q.key == key && !r.dead(q) {
			s.fail("%s is FAILED_NO_EFFECT (%s by %s) while permit %d may land until %s", rec.intention, n.Reason, n.SettledBy, q.n, s.clock(q.until))
		}
	}
	for i, a := range n.Attempts {
		if !a.NoEffect {
			s.fail("%s is FAILED_NO_EFFECT with permit %d unaccounted for", rec.intention, a.N)
		}
		if p := rec.permits[i]; !p.written && a.Class != pawl.ClassNotSent && s.alive(p.by) && time.Since(p.at) < rec.op.Contract.Pause/2 && r.tombs[key].IsZero() {
			s.fail("%s is FAILED_NO_EFFECT while %s may still use permit %d", rec.intention, p.by, a.N)
		}
	}
}

// judgeHeld checks that an open operation is held, due or in review, and a settled one at rest.
func (s *sim) judgeHeld(op *pawl.Operation) {
	if op.Status.Open() && op.Lease.IsZero() && op.Due.IsZero() && op.Review.IsZero() {
		s.fail("%s is %s (%s) and lost: not held, not due, not in review", s.ops[op.ID].intention, op.Status, op.Reason)
	}
}

// judgePermit checks the guards that reach across operations.
func (s *sim) judgePermit(rec *record) {
	for _, o := range s.begins {
		if o == rec || !o.last().Status.Open() {
			continue
		}
		switch {
		case o.intention == rec.intention:
			s.fail("two operations of %s are open", rec.intention)
		case o.subject == rec.subject && rec.subject != "":
			s.fail("%s began while %s holds the subject", rec.intention, o.intention)
		case o.remote == rec.remote && rec.remote.guarded(o.place) != "" && rec.remote.guarded(o.place) == rec.remote.guarded(rec.place):
			s.fail("%s began while %s is open", rec.intention, o.intention)
		}
	}
}

func event(entry []byte) string {
	_, rest, _ := bytes.Cut(entry, []byte(`"event":"`))
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(name)
}
