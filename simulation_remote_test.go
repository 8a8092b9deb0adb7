package pawl_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

// remote is one provider with a ledger of its own. It keeps to the terms it was drawn
// with, to their very ends: it forgets a key at the end of the retention, lets requests
// land at the end of their flight and shows effects at the end of the lag. All its state
// is guarded by the simulation's lock.
type remote struct {
	s *sim
	*terms
	keys     map[string]*keyed
	bytes    map[string]string // what came under each key, for ever
	ledger   []*effect
	jobs     map[string]*job
	working  map[string]int       // requests being worked on, by key
	tombs    map[string]time.Time // until when a fenced key is refused
	requests []*request
}

// effect is one business effect.
type effect struct {
	at       time.Time
	by       *request
	ref      string
	redoes   bool // a convergent repeat that changed nothing
	revision int  // of its subject, after it
}

// keyed is what a provider that honours keys remembers of one.
type keyed struct {
	by      *request
	at      time.Time
	working bool
	answer  pawl.Evidence
}

// job is accepted work that lands later, or never.
type job struct {
	by   *request
	at   time.Time
	over time.Time // landed, dropped or called off; zero while it is under way
	off  bool
}

// request is one request that was put on the wire.
type request struct {
	op        *pawl.Operation
	n         int // its permit
	key       string
	place     place
	intention string
	subject   string
	bytes     string
	written   time.Time
	until     time.Time // it cannot land after this
	refused   bool      // the provider did not act on it and never will
	arrived   bool      // one copy did
	gaveUp    bool      // nobody listens for its answer any more
}

func newRemote(s *sim, t *terms) *remote {
	return &remote{
		s: s, terms: t, keys: map[string]*keyed{}, bytes: map[string]string{}, jobs: map[string]*job{},
		working: map[string]int{}, tombs: map[string]time.Time{},
	}
}

// write notes that a request leaves and checks that it may.
func (r *remote) write(p *process, s *pawl.Sending) *request {
	op, now := s.Operation, time.Now()
	q := &request{op: op, n: len(op.Attempts), key: op.Key.String(), bytes: string(op.Request), written: now}
	q.place = placeOf(op)
	q.intention, q.subject = r.intention(q.place), r.subject(q.place)
	r.judgeWrite(p, q)
	q.until = now.Add(r.flight)
	if na := r.contract.NotAfter; na > 0 {
		if last := now.Add(s.Permit.Add(na).Sub(r.s.storeNow())); last.Before(q.until) {
			q.until = last
		}
	}
	if c := &r.contract; c.Probe == nil || !c.Probe.ShowsProgress {
		q.until = q.until.Add(c.Landing) // nobody can see that it was accepted
	}
	r.requests = append(r.requests, q)
	return q
}

// judgeWrite holds one request to the rules that need no hindsight.
func (r *remote) judgeWrite(p *process, q *request) {
	rec := r.s.ops[q.op.ID]
	if rec == nil || len(rec.permits) < q.n {
		r.s.fail("%s wrote %s without a permit on record", p.name, q)
		return
	}
	permit := rec.permits[q.n-1]
	last := rec.states[len(rec.states)-1].state
	if permit.written {
		r.s.fail("%s wrote a second request for one permit: %s", p.name, q)
	}
	if permit.by != p.name {
		r.s.fail("%s used the permit of %s: %s", p.name, permit.by, q)
	}
	permit.written = true
	if fenced := r.tombs[q.key].After(q.written.Add(r.flight)); last.Status == pawl.FailedNoEffect && !fenced {
		r.s.fail("%s wrote %s, which is FAILED_NO_EFFECT (%s)", p.name, q, last.Reason)
	}
	if known, ok := r.bytes[q.key]; ok && known != q.bytes {
		r.s.fail("%s wrote other bytes under one key: %s", p.name, q)
	}
	r.bytes[q.key] = q.bytes
	c := &r.contract
	if c.Class == pawl.Keyed {
		if end := rec.permits[0].at.Add(c.Retention); permit.kind == pawl.AttemptResend && q.written.Add(r.flight).After(end) {
			r.s.fail("%s resent %s, which may land %v after its key is forgotten", p.name, q, q.written.Add(r.flight).Sub(end))
		}
		return
	}
	for _, o := range r.requests {
		if o.intention != q.intention || r.dead(o) || c.Class == pawl.Convergent && o.key == q.key {
			continue
		}
		r.s.fail("%s wrote %s while %s may still have its effect", p.name, q, o)
	}
}

func (q *request) String() string {
	return fmt.Sprintf("%s permit %d (%s gen %d)", q.intention, q.n, q.op.ID.String()[11:19], q.op.Gen)
}

// dead reports whether a request had no effect and cannot have one any more.
func (r *remote) dead(q *request) bool {
	if r.effectOf(q) != nil {
		return false
	}
	now := time.Now()
	j := r.jobs[q.key]
	underWay := j != nil && j.over.IsZero() || r.working[q.key] > 0
	return q.refused || !underWay && (now.After(q.until) || r.tombs[q.key].After(q.until))
}

func (r *remote) effectOf(q *request) *effect {
	for _, e := range r.ledger {
		if e.by == q {
			return e
		}
	}
	return nil
}

// effects lists what happened under a key that can be seen at a time.
func (r *remote) effects(key string, at time.Time) (seen []*effect) {
	for _, e := range r.ledger {
		if e.by.key == key && !e.at.After(at) && !e.redoes {
			seen = append(seen, e)
		}
	}
	return seen
}

// refers reports whether a reference is one of an operation's own effects.
func (r *remote) refers(op *pawl.Operation, ref string) bool {
	for _, e := range r.ledger {
		if e.ref == ref {
			return e.by.op.ID == op.ID
		}
	}
	return false
}

// revision is the number of changes of a subject.
func (r *remote) revision(subject string, at time.Time) (n int) {
	for _, e := range r.ledger {
		if e.by.subject == subject && !e.at.After(at) {
			n = e.revision
		}
	}
	return n
}

func refusal(proof string) pawl.Evidence {
	return pawl.Evidence{Class: pawl.ClassRejected, Strength: pawl.P3, Proof: proof}
}

// arrive lets one copy of a request reach the provider.
func (r *remote) arrive(q *request, copy string, answer func(pawl.Evidence)) {
	now := time.Now()
	c := &r.contract
	if q.arrived && r.keys[q.key] == nil {
		return // an honest hop drops the copy of what was refused and not recorded
	}
	if q.arrived = true; q.gaveUp {
		r.s.saw("landed after the client gave up")
	}
	if r.tombs[q.key].After(now) {
		r.s.saw("refused by a fence")
		q.refused = true
		answer(refusal("fenced"))
		return
	}
	if last := q.op.Attempts[q.n-1].Permit.Add(c.NotAfter); c.NotAfter > 0 && r.s.storeNow().After(last) {
		r.s.saw("refused as too late")
		q.refused = true
		answer(refusal("not_after"))
		return
	}
	var k *keyed
	if c.Class == pawl.Keyed {
		if k = r.keys[q.key]; k != nil && now.Sub(k.at) >= c.Retention {
			r.s.saw("key forgotten")
			k = nil
		}
		if k != nil {
			answer(r.again(q, k))
			return
		}
		k = &keyed{by: q, at: now}
		r.keys[q.key] = k
	}
	d := r.s.dice.at("work", q.key, strconv.Itoa(q.n), copy)
	kind := r.work(d)
	var took time.Duration
	if left := q.written.Add(r.flight).Sub(now); c.NotAfter == 0 && d.chance(0.3) {
		took = d.between(0, min(left, pick(d, 3*second, left)))
	}
	if took <= 0 {
		r.finish(q, k, kind, d, answer)
		return
	}
	if r.working[q.key]++; k != nil {
		k.working = true
	}
	r.s.after(took, func() {
		r.working[q.key]--
		r.finish(q, k, kind, d, answer)
	})
}

// work draws what comes of a request.
func (r *remote) work(d draw) string {
	bad := r.s.trouble()
	accepts := 0.0
	if r.contract.Landing > 0 {
		accepts = 1.5
	}
	return d.weighted([]weight{
		{"ok", 1}, {"accept", accepts}, {"reject", 0.15}, {"busy", 0.25 * bad}, {"fail before", 0.3 * bad},
		{"fail after", 0.3 * bad}, {"unreadable", 0.2 * bad}, {"garbage", 0.15 * bad},
	})
}

// again answers a request whose key is known.
func (r *remote) again(q *request, k *keyed) pawl.Evidence {
	if k.working {
		r.s.saw("in flight")
		return pawl.Evidence{Class: pawl.ClassAmbiguous, Code: 409, InFlight: true}
	}
	r.s.saw("repeat absorbed by the key")
	e := k.answer
	e.Replayed = true
	switch {
	case e.Class == pawl.ClassSucceeded && r.conflicts:
		r.s.saw("conflict with ourselves")
		return pawl.Evidence{Class: pawl.ClassRejected, Strength: pawl.P3, Code: 409, Conflict: true}
	case e.Class == pawl.ClassEffectPossible:
		r.s.saw("stored failure replayed")
	}
	if k.by != q {
		q.refused = true // it did nothing of its own
	}
	return e
}

// finish ends the work on a request.
func (r *remote) finish(q *request, k *keyed, kind string, d draw, answer func(pawl.Evidence)) {
	if k != nil {
		k.working = false
	}
	forget := func() {
		if k != nil && r.keys[q.key] == k {
			delete(r.keys, q.key)
		}
	}
	keep := func(e pawl.Evidence) pawl.Evidence {
		if k != nil {
			k.answer = e
		}
		return e
	}
	failure := pawl.Evidence{Class: pawl.ClassEffectPossible, Code: 500}
	r.s.saw(kind)
	switch kind {
	case "reject":
		q.refused = true
		if !r.storesRefusals {
			forget()
		}
		answer(keep(refusal("declined")))
	case "busy":
		q.refused = true
		forget()
		e := refusal("busy")
		e.Transient = true
		if d.chance(0.3) {
			e.Header = map[string]string{"retry-after": "1"}
		}
		answer(e)
	case "fail before":
		q.refused = true
		if keep(failure); !r.contract.ReplaysErrors {
			forget()
		}
		answer(failure)
	case "fail after":
		e := r.happen(q)
		if keep(failure); !r.contract.ReplaysErrors {
			keep(success(e.ref))
		}
		answer(failure)
	case "accept":
		r.accept(q, d)
		answer(keep(pawl.Evidence{Class: pawl.ClassAccepted, Code: 202}))
	default:
		e := keep(success(r.happen(q).ref))
		switch kind {
		case "unreadable":
			e = pawl.Evidence{Class: pawl.ClassResultLost, Code: 200}
		case "garbage":
			e = pawl.Evidence{Class: pawl.ClassAmbiguous, Code: 200, Proof: "unreadable"}
		}
		answer(e)
	}
}

func success(ref string) pawl.Evidence {
	return pawl.Evidence{Class: pawl.ClassSucceeded, Code: 200, Result: json.RawMessage(`{"id":"` + ref + `"}`), Ref: ref}
}

// accept takes work that lands later, if it lands at all.
func (r *remote) accept(q *request, d draw) {
	j := &job{by: q, at: time.Now()}
	r.jobs[q.key] = j
	lands := d.chance(0.85)
	r.s.after(d.between(0, r.contract.Landing), func() {
		switch {
		case j.off:
		case lands:
			r.s.saw("accepted work landed")
			r.happen(q)
		default:
			r.s.saw("accepted work never landed")
			q.refused = true
		}
		if j.over.IsZero() {
			j.over = time.Now()
		}
	})
}

// happen has the effect and judges it.
func (r *remote) happen(q *request) *effect {
	e := &effect{at: time.Now(), by: q, ref: fmt.Sprintf("%s-%d", r.contract.Tool, len(r.ledger)+1)}
	e.revision = r.revision(q.subject, e.at) + 1
	var lastOfSubject *effect
	for _, o := range r.ledger {
		if o.by.subject == q.subject {
			lastOfSubject = o
		}
	}
	if r.contract.Class == pawl.Convergent && lastOfSubject != nil && lastOfSubject.by.intention == q.intention {
		e.redoes = true
		r.s.saw("the same state set again")
	}
	for _, o := range r.ledger {
		if o.by.intention == q.intention && !e.redoes {
			r.s.fail("second effect: %s at %s, first by %s at %s", q, r.s.clock(e.at), o.by, r.s.clock(o.at))
		}
	}
	r.ledger = append(r.ledger, e)
	r.s.log("effect %s: %s", e.ref, q)
	if rec := r.s.ops[q.op.ID]; rec.last().Status == pawl.FailedNoEffect {
		r.s.fail("effect of %s, which is FAILED_NO_EFFECT (%s)", q, rec.last().Reason)
	}
	return e
}
