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
	op := s.Op
	switch s.Kind {
	case ClaimSubject:
		return t.meetSubject(op), nil
	case ClaimStep, ClaimOnce:
		return t.meetElsewhere(op), nil
	case ClaimKey:
		if op.IdentityClaim != t.identityClaim() {
			return t.refuse(ReasonParameterMismatch, "another operation holds this key"), nil
		}
	}
	if foreign(op, t.call.Actor) {
		return envelopeFor(op, t.call.Actor, Replayed), nil
	}
	if env := t.differs(op); env != nil {
		return env, nil
	}
	switch {
	case op.Status == Pending || op.Status == Unknown:
		return t.attach(op)
	case op.Reopens():
		return t.reopen(op)
	case t.closes(op):
		return t.nextGeneration(op)
	}
	return t.replay(op), nil
}

func (t *turn) identityClaim() Digest {
	in := &Intent{}
	if err := t.id.claims(&t.tool.Contract, t.call, in); err != nil {
		return Digest{}
	}
	return in.IdentityClaim
}

// foreign reports whether an operation's result is not for this actor.
func foreign(op *Operation, actor string) bool {
	return op.Actor != actor && !op.Contract.Shared
}

// envelopeFor renders an operation for an actor: only its own actor sees the result.
func envelopeFor(op *Operation, actor string, action ActionTaken) *Envelope {
	env := envelopeOf(op, action)
	if foreign(op, actor) {
		env.Result, env.ResultRef, env.Effect = nil, "", effectSentence(op.Tool, op.Status)
		if op.Status.Settled() && op.Status != Compensated {
			env.withReason(ReasonNotYours)
		}
	}
	return env
}

// differs refuses a repeat whose guards differ from what was recorded.
func (t *turn) differs(op *Operation) *Envelope {
	if t.closes(op) {
		return nil // a new generation is a new request
	}
	guards, _ := t.compare(op)
	if len(guards) == 0 {
		return nil
	}
	env := t.refuse(ReasonParameterMismatch, "different: "+strings.Join(guards, ", ")+"; the earlier call is "+string(op.Status))
	env.Effect = t.effect + ": not sent with these details; with the earlier ones it is " + string(op.Status)
	return env
}

func (t *turn) compare(op *Operation) (guards, free []string) {
	v, err := ParseJSON(op.Args)
	earlier, ok := v.(map[string]any)
	if err != nil || !ok {
		return []string{"the recorded arguments cannot be read"}, nil
	}
	return t.tool.Contract.compare(earlier, t.id.Args)
}

// replay answers from the record.
func (t *turn) replay(op *Operation) *Envelope {
	t.replayed(op)
	env := envelopeFor(op, t.call.Actor, Replayed)
	_, env.Differs = t.compare(op)
	return env
}

func (t *turn) replayed(op *Operation) {
	for _, o := range t.e.opts.Observers {
		if o.Replayed != nil {
			o.Replayed(t.ctx, t.call, op)
		}
	}
}

// attach waits for whoever works on the operation; if nobody does, this call's turn is
// used to reconcile it.
func (t *turn) attach(op *Operation) (*Envelope, error) {
	f := t.e.flight(op.ID)
	if f == nil && !claimed(op, t.e.now(t.ctx)) && time.Until(t.end) > 0 {
		f = t.e.adopt(t.ctx, t.tool, op, t.end, t.deadline)
	}
	last := t.wait(f, op)
	if last.Reopens() && t.mayStart() {
		return nil, nil // proven unsent meanwhile: this call may send it
	}
	t.replayed(last)
	env := envelopeFor(last, t.call.Actor, Attached)
	_, env.Differs = t.compare(last)
	return env, nil
}

// adopt takes an operation over that nobody works on, to reconcile it inside a turn. It
// returns nil where there is nothing to do or someone else was faster.
func (e *Executor) adopt(ctx context.Context, tool *Tool, op *Operation, end, deadline time.Time) *flight {
	now := e.now(ctx)
	if m := Next(op, now); op.Status == Unknown && (m.Kind == MoveNone || op.Probes.Last.Add(probeSpacing).After(now)) {
		return nil
	}
	if _, ok := e.admit(); !ok {
		return nil
	}
	token := newToken()
	ev := &Event{Kind: EventTakeover, At: now, By: "worker " + e.opts.Worker, Token: op.Token, NewToken: token, Lease: now.Add(e.opts.Lease)}
	fresh, err := e.apply(ctx, op, ev)
	if err != nil || fresh.Token != token {
		e.work.Done()
		return nil
	}
	f := &flight{e: e, tool: tool, ctx: context.WithoutCancel(ctx), gone: ctx.Done(), end: end, deadline: deadline, token: token, op: fresh, eager: true}
	e.launch(f, false)
	return f
}

// reopen sends a call again that provably had no effect: same key, next attempt.
func (t *turn) reopen(op *Operation) (*Envelope, error) {
	if f := t.e.flight(op.ID); f != nil { // it may be about to retry by itself
		if last := t.wait(f, op); last.Version != op.Version || !t.mayStart() {
			return t.replay(last), nil
		}
	}
	if !t.mayStart() {
		return t.replay(op), nil
	}
	if len(op.Attempts) >= op.Contract.MaxAttempts {
		return envelopeFor(op, t.call.Actor, Replayed).withReason(ReasonAttempts), nil
	}
	if why, ok := t.e.admit(); !ok {
		return t.refuse(why, ""), nil
	}
	fresh, err := t.e.reopen(t.ctx, t.tool, op)
	if err != nil {
		t.e.work.Done()
		var refused *Refusal
		if errors.As(err, &refused) || errors.Is(err, ErrStale) {
			return nil, nil // it moved: look again
		}
		if errors.Is(err, errSnapshot) {
			return t.refuse(ReasonSnapshot, ""), nil
		}
		return t.storeFailed(err, &op.Intent), err
	}
	return t.answer(t.launch(fresh)), nil
}

var errSnapshot = errors.New("the state before could not be read")

// reopen gives the next permit of an operation that provably had no effect.
func (e *Executor) reopen(ctx context.Context, tool *Tool, op *Operation) (*Operation, error) {
	ev := &Event{Kind: EventRetry, By: "worker " + e.opts.Worker, Token: op.Token, NewToken: newToken()}
	if op.Contract.Snapshot {
		before, err := e.snapshotAgain(ctx, tool, op)
		if err != nil {
			e.failed(ctx, "snapshot", err, op)
			return op, errSnapshot
		}
		ev.Before = before
	}
	ev.At = e.now(ctx)
	ev.Lease = ev.At.Add(e.opts.Lease)
	fresh, err := e.apply(ctx, op, ev)
	if err == nil && fresh.Token != ev.NewToken {
		return fresh, ErrStale
	}
	return fresh, err
}

// snapshotAgain reads the state before a further attempt: the world may have moved.
func (e *Executor) snapshotAgain(ctx context.Context, tool *Tool, op *Operation) ([]byte, error) {
	args, err := ParseJSON(op.Args)
	if err != nil {
		return nil, err
	}
	identity, err := ParseJSON(op.Identity)
	if err != nil {
		return nil, err
	}
	inv := &Invocation{
		Operation: op.ID, Tool: op.Tool, Tenant: op.Tenant, Actor: op.Actor, Run: op.Run, Step: op.Step,
		Canonical: op.Args, Key: op.Key, Deadline: op.Deadline, Permit: e.now(ctx),
	}
	inv.Args, _ = args.(map[string]any)
	inv.Identity, _ = identity.(map[string]any)
	ctx, cancel := context.WithTimeout(ctx, op.Contract.Timeout)
	defer cancel()
	return tool.Port.(Snapshotter).Snapshot(ctx, inv)
}

// closes reports whether a repeat of the operation opens a new generation: its own effect
// provably never happened or was undone.
func (t *turn) closes(op *Operation) bool {
	switch op.Status {
	case Compensated:
		return true
	case FailedNoEffect:
		switch op.Reason {
		case ReasonAbsent, ReasonFenced, ReasonPerson:
			return true
		case ReasonRejected:
			return t.tool.Contract.AfterRejection == AfterRejectionNewGeneration
		}
	}
	return false
}

// nextGeneration records the same identity under a new key.
func (t *turn) nextGeneration(op *Operation) (*Envelope, error) {
	gen := op.Gen + 1
	if gen >= t.tool.Contract.MaxGenerations {
		return t.refuse(ReasonGenerations, ""), nil
	}
	if !t.mayStart() {
		return t.refuse(ReasonDeadline, ""), nil
	}
	in, err := t.intent(gen)
	if err != nil {
		return t.refuse(ReasonInvalidArguments, err.Error()), nil
	}
	fresh, standing, env, err := t.insert(in)
	switch {
	case env != nil:
		return env, err
	case standing == nil:
		return t.answer(fresh), nil
	case standing.Kind == ClaimIdentity || standing.Kind == ClaimKey:
		return nil, nil // someone else opened it: look again
	default:
		return t.meet(standing)
	}
}

// meetElsewhere answers for the same identity at another step of the run: it is never
// sent while the earlier one is open, nor after it succeeded where the contract wants the
// host's word for a repeat.
func (t *turn) meetElsewhere(op *Operation) *Envelope {
	last := t.wait(t.e.flight(op.ID), op)
	t.replayed(last)
	env := envelopeFor(last, t.call.Actor, Replayed)
	switch {
	case foreign(last, t.call.Actor):
	case last.Status == Succeeded:
		env.withReason(ReasonDoneElsewhere)
	case last.Status == Unknown && last.Review.IsZero():
		env.withReason(ReasonOpenElsewhere)
	}
	return env
}

// meetSubject waits until nothing on the subject is open any more.
func (t *turn) meetSubject(op *Operation) *Envelope {
	last := t.wait(t.e.flight(op.ID), op)
	if last.Status.Open() || !t.mayStart() {
		return t.refuse(ReasonSubjectBusy, "")
	}
	return nil
}
