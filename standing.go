package pawl

import (
	"context"
	"errors"
	"strings"
	"time"
)

// meet deals with an operation that stands in a call's way. It returns the envelope, or
// nil where the call should look again.
func (t *turn) meet(s *Standing) (*Envelope, error) {
	if s.Run != nil {
		return t.meetRun(s.Run)
	}
	op := s.Op
	if op.Contract == nil { // a row that failed its check: only a person can tell
		return undecided(t.effect, op.ID.String()), nil
	}
	switch s.Kind {
	case ClaimSubject:
		return t.meetSubject(op), nil
	case ClaimStep:
		return t.meetOpen(op), nil
	case ClaimOnce:
		if t.planned {
			return t.stepTaken(), nil
		}
		return t.meetDone(op), nil
	case ClaimKey:
		if op.IdentityClaim != t.identityClaim() {
			return t.refuse(ReasonParameterMismatch, "another operation holds this key"), nil
		}
	}
	if foreign(op, t.call.Actor) {
		return t.render(op, Replayed), nil
	}
	if env := t.differs(op); env != nil {
		return env, nil
	}
	switch {
	case op.Status == Pending || op.Status == Unknown:
		return t.attach(op), nil
	case op.Status == Prepared && op.Approval != nil:
		return t.meetPrepared(op)
	case op.needsAnotherYes(t.e.now(t.ctx)) && !t.e.opts.Restore.presumes(op.Updated):
		return t.nextGeneration(op)
	case op.Reopens():
		return t.reopen(op)
	case t.closes(op):
		return t.nextGeneration(op)
	}
	return t.replay(op), nil
}

func (t *turn) render(op *Operation, action ActionTaken) *Envelope {
	t.told = op
	return t.e.envelopeFor(t.ctx, op, t.call.Actor, action)
}

func (t *turn) identityClaim() Digest {
	in := &Intent{}
	if err := t.id.claims(&t.tool.Contract, t.call, in); err != nil {
		return Digest{}
	}
	return in.IdentityClaim
}

// maxNamed is how many differing arguments a message names.
const maxNamed = 8

// differs refuses a repeat whose guards differ from what was recorded.
func (t *turn) differs(op *Operation) *Envelope {
	if t.closes(op) || t.undoes != (ID{}) {
		return nil // a new generation is a new request, and a compensation stays the one that it was begun as
	}
	guards, _ := t.compare(op)
	if len(guards) == 0 {
		return nil
	}
	names := strings.Join(guards[:min(len(guards), maxNamed)], ", ")
	env := t.refuse(ReasonParameterMismatch, "different: "+names+"; the earlier call is "+string(op.Status))
	env.Effect = t.effect + ": not sent with these details; with the earlier ones it is " + string(op.Status)
	return env
}

func (t *turn) compare(op *Operation) (guards, free []string) {
	v, err := ParseJSON(op.Args)
	earlier, ok := v.(map[string]any)
	if err != nil || !ok {
		return []string{"the recorded arguments cannot be read"}, nil
	}
	guards, free = t.tool.Contract.compare(earlier, t.id.Args)
	for i, name := range guards {
		guards[i] = shown(name, 60)
	}
	return guards, free
}

// replay answers from the record.
func (t *turn) replay(op *Operation) *Envelope {
	t.replayed(op)
	env := t.render(op, Replayed)
	_, env.Differs = t.compare(op)
	return env
}

func (t *turn) replayed(op *Operation) {
	t.e.observe(func(o *Observer) {
		if o.Replayed != nil {
			o.Replayed(t.ctx, t.call, op)
		}
	})
}

// attach waits for whoever works on the operation; while nobody does, this call's turn is
// used to reconcile it.
func (t *turn) attach(op *Operation) *Envelope {
	for op.Status.Open() && time.Until(t.end) > 0 && t.ctx.Err() == nil {
		f := t.e.flight(op.ID)
		if f == nil && !leased(op, t.e.now(t.ctx)) {
			var again time.Duration
			if f, again = t.adopt(op); f == nil {
				if again <= 0 || !t.sleep(again) {
					break
				}
				fresh, err := t.e.store.Get(t.ctx, op.Tenant, op.ID)
				if err != nil {
					break
				}
				op = fresh
				continue
			}
		}
		op = t.wait(f, op)
		if f != nil && f.restsBeyond(t.end) {
			break
		}
	}
	if op.Reopens() && t.mayStart() {
		return nil // proven unsent meanwhile: this call may send it
	}
	op = t.latest(op)
	t.replayed(op)
	env := t.render(op, Attached)
	_, env.Differs = t.compare(op)
	return env
}

// sleep waits inside the turn and reports whether the turn goes on.
func (t *turn) sleep(d time.Duration) bool {
	if time.Until(t.end) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// adopt takes an operation over that nobody works on, to reconcile it inside this turn.
// Where it does not, it says after what time to look again; zero means not in this turn.
func (t *turn) adopt(op *Operation) (*flight, time.Duration) {
	if op.Reason == ReasonStore {
		return nil, 0 // a view of what nobody knows, not the record
	}
	now := t.e.now(t.ctx)
	if op.Status == Unknown {
		m := Next(op, now)
		switch wait := m.At.Sub(now); {
		case m.Kind == MoveNone:
			return nil, 0
		case m.Kind == MoveProbe && !t.asked:
			if recent := op.Probes.Last.Add(probeSpacing).Sub(now); recent > 0 {
				return nil, recent // it was asked for only just now
			}
		case wait > 0:
			return nil, wait
		}
	}
	if _, ok := t.e.admit(); !ok {
		return nil, 0
	}
	token := newToken()
	var f *flight
	var err error
	if !t.within(func(context.Context) *flight {
		var fresh *Operation
		if fresh, err = t.e.apply(t.ctx, op, &Event{
			Kind: EventTakeover, At: now, By: "worker " + t.e.opts.Worker, Token: op.Token, NewToken: token, Lease: now.Add(t.e.opts.Lease),
		}); err != nil || fresh.Token != token {
			t.e.dismiss()
			return nil
		}
		f = t.flight(fresh)
		f.eager = !t.asked
		t.e.enlist(f)
		return f
	}) {
		return nil, 0
	}
	var refused *Refusal
	switch {
	case f != nil:
		t.asked = true
		return f, 0
	case errors.As(err, &refused) || err == nil:
		return nil, pollFirst // someone else was faster
	default:
		return nil, 0
	}
}

// reopen sends a call again that provably had no effect: same key, next attempt.
func (t *turn) reopen(op *Operation) (*Envelope, error) {
	if op.Contract.CallerSends != (t.hand != nil) {
		return t.replay(op), nil // who sends it is part of what its contract was pinned with
	}
	if f := t.e.flight(op.ID); f != nil { // it may be about to retry by itself
		if last := t.wait(f, op); last.Version != op.Version || !t.mayStart() {
			return t.render(t.latest(last), Replayed), nil
		}
	}
	if !t.mayStart() || len(op.Attempts) >= op.Contract.MaxAttempts {
		return t.replay(op), nil
	}
	if _, ok := t.e.admit(); !ok {
		return t.replay(op), nil
	}
	t.about = &op.Intent
	var f *flight
	var err error
	if !t.within(func(context.Context) *flight {
		var fresh *Operation
		if fresh, err = t.reopened(op); err != nil {
			t.e.dismiss()
			return nil
		}
		f = t.launch(fresh)
		return f
	}) {
		return undecided(t.effect, op.ID.String()), errStoreSlow
	}
	switch {
	case err == nil:
		return t.answer(f), nil
	case mayBeWritten(err):
		return undecided(t.effect, op.ID.String()), err
	case errors.Is(err, ErrStale):
		return nil, nil // it moved: look again
	case errors.Is(err, ErrHeld):
		return t.turnAway(ReasonSubjectBusy), nil
	case notWritten(err):
		return t.replay(op), err
	default:
		return nil, nil // it moved: look again
	}
}

// reopened takes an operation up again that provably had no effect, as far as is known.
func (t *turn) reopened(op *Operation) (*Operation, error) {
	if t.e.opts.Restore.presumes(op.Updated) {
		return t.e.doubt(t.ctx, op)
	}
	return t.e.reopen(t.ctx, op)
}

// closes reports whether a repeat of the operation opens a new generation: its own effect
// provably never happened or was undone.
func (t *turn) closes(op *Operation) bool {
	switch op.Status {
	case Compensated:
		return true
	case FailedNoEffect:
		switch op.Reason {
		case ReasonAbsent, ReasonFenced, ReasonPerson, ReasonWithdrawn, ReasonApprovalExpired, ReasonApprovalChanged:
			return true
		case ReasonNotApproved:
			return t.call.Again // the host's word, never the model's
		case ReasonRejected:
			return t.tool.Contract.AfterRejection == AfterRejectionNewGeneration
		}
	}
	return false
}

// nextGeneration records the same identity under a new key.
func (t *turn) nextGeneration(op *Operation) (*Envelope, error) {
	gen := op.Gen + 1
	switch {
	case gen >= t.tool.Contract.MaxGenerations:
		return t.refuse(ReasonGenerations, ""), nil
	case !t.mayStart():
		return t.refuse(ReasonDeadline, ""), nil
	}
	t.settled = !t.e.opts.Restore.presumes(op.Updated)
	in, err := t.intent(gen)
	if err != nil {
		return t.refuse(ReasonInvalidArguments, err.Error()), nil
	}
	if why, ok := t.e.admit(); !ok {
		return t.refuse(why, ""), nil
	}
	f, standing, env, err := t.insert(in)
	switch {
	case env != nil:
		return env, err
	case standing == nil:
		return t.answer(f), nil
	case standing.Kind == ClaimIdentity || standing.Kind == ClaimKey:
		return nil, nil // someone else opened it, or the earlier one was done after all: look again
	default:
		return t.meet(standing)
	}
}

// meetOpen answers for the same identity that is open at another step of the run: it is
// never sent before the earlier one is settled.
func (t *turn) meetOpen(op *Operation) *Envelope {
	last := t.wait(t.e.flight(op.ID), op)
	if last.Status.Settled() && t.mayStart() {
		return nil
	}
	last = t.latest(last)
	t.replayed(last)
	env := t.render(last, Replayed)
	if last.Status == Unknown && last.Review.IsZero() && !foreign(last, t.call.Actor) {
		env.withReason(ReasonOpenElsewhere)
	}
	return env
}

// meetDone answers for the same identity that another step of the run has had the effect
// of. Another step may have it once more if the contract or the host says so; a call
// without a step may not.
func (t *turn) meetDone(op *Operation) *Envelope {
	if t.call.Step != "" && !op.Status.Open() && (t.tool.Contract.Repeat == RepeatStep || t.call.Again || t.isPlanned()) {
		t.repeat = true
		return nil
	}
	t.replayed(op)
	env := t.render(op, Replayed)
	if op.Status == Succeeded && !foreign(op, t.call.Actor) {
		env.withReason(ReasonDoneElsewhere)
	}
	return env
}

// meetSubject waits until nothing on the subject is open any more.
func (t *turn) meetSubject(op *Operation) *Envelope {
	last := t.wait(t.e.flight(op.ID), op)
	if now := t.e.now(t.ctx); !last.Quiet.IsZero() && t.mayStart() {
		if _, err := t.e.apply(t.ctx, last, &Event{Kind: EventQuiet, At: now, By: "worker " + t.e.opts.Worker, Token: last.Token}); err != nil {
			return t.turnAway(ReasonSubjectBusy)
		}
		return nil
	}
	switch {
	case last.Status.Open():
		return t.turnAway(ReasonSubjectBusy)
	case !t.mayStart():
		return t.turnAway(ReasonDeadline)
	default:
		return nil
	}
}
