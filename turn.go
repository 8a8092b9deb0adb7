package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A turn is one call on its way to its envelope.
type turn struct {
	e        *Executor
	ctx      context.Context
	call     *Call
	tool     *Tool
	id       *Identified
	effect   string
	deadline time.Time // the absolute end
	end      time.Time // when to report: deadline less reserve
}

// maxRounds bounds how often a call looks again after what stood in its way has moved.
const maxRounds = 64

// run has the effect happen once and returns what is true about it at the end of the turn.
func (t *turn) run() (*Envelope, error) {
	for range maxRounds {
		f, standing, env, err := t.begin()
		switch {
		case env != nil:
			return env, err
		case standing == nil:
			return t.answer(f), nil
		}
		env, err = t.meet(standing)
		if env != nil || err != nil {
			return env, err
		}
	}
	return t.refuse(ReasonBusy, ""), nil
}

func (t *turn) refuse(r Reason, detail string) *Envelope { return refusal(r, t.effect, detail) }

// mayStart reports whether enough of the turn is left for a side effect.
func (t *turn) mayStart() bool {
	return t.ctx.Err() == nil && time.Until(t.end) >= t.tool.Contract.MinTime
}

// begin records the intent and launches it, or tells what stands in the way. The third
// result is the answer where neither can be.
func (t *turn) begin() (*flight, *Standing, *Envelope, error) {
	in, err := t.intent(0)
	if err != nil {
		return nil, nil, t.refuse(ReasonInvalidArguments, err.Error()), nil
	}
	c := &t.tool.Contract
	if c.Snapshot || !t.mayStart() {
		// Look before reading the state before, or before refusing for lack of time.
		found, err := t.e.store.Find(t.ctx, Query{Tenant: t.call.Tenant, IdentityClaim: in.IdentityClaim, Limit: 1})
		if err != nil {
			return nil, nil, t.storeFailed(err, in), err
		}
		if len(found) > 0 {
			return nil, &Standing{Kind: ClaimIdentity, Op: found[0]}, nil, nil
		}
		if !t.mayStart() {
			return nil, nil, t.refuse(ReasonDeadline, ""), nil
		}
	}
	return t.insert(in)
}

// insert makes the intent durable and launches it.
func (t *turn) insert(in *Intent) (*flight, *Standing, *Envelope, error) {
	before, env := t.snapshot(in)
	if env != nil {
		return nil, nil, env, nil
	}
	if why, ok := t.e.admit(); !ok {
		return nil, nil, t.refuse(why, ""), nil
	}
	launched := false
	defer func() {
		if !launched {
			t.e.work.Done()
		}
	}()
	op, first, err := newOperation(in, before, t.e.now(t.ctx), t.e.opts.Lease, "worker "+t.e.opts.Worker)
	if err != nil {
		return nil, nil, t.refuse(ReasonInvalidArguments, err.Error()), nil
	}
	ctx, cancel := context.WithDeadline(t.ctx, t.end)
	standing, err := t.e.store.Begin(ctx, op, first.raw)
	cancel()
	if err != nil {
		return nil, nil, t.storeFailed(err, in), err
	}
	if standing != nil {
		return nil, standing, nil, nil
	}
	t.e.tell(t.ctx, op, &Transition{State: op.State, Entry: first.entry})
	launched = true
	return t.launch(op), nil, nil, nil
}

// launch drives an operation whose newest permit this call holds.
func (t *turn) launch(op *Operation) *flight {
	f := &flight{e: t.e, tool: t.tool, ctx: context.WithoutCancel(t.ctx), gone: t.ctx.Done(), end: t.end, deadline: t.deadline, token: op.Token, op: op}
	t.e.launch(f, true)
	return f
}

// intent builds what would be recorded for the given generation.
func (t *turn) intent(gen int) (*Intent, error) {
	c := &t.tool.Contract
	secret := t.e.secret(t.call.Tenant)
	blob, err := t.id.Blob(gen)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	now := t.e.now(t.ctx)
	in := &Intent{
		ID: NewID(now), Tenant: t.call.Tenant, Actor: t.call.Actor, Tool: c.Tool,
		Run: t.call.Run, ParentRun: t.call.ParentRun, Step: t.call.Step, Scope: t.id.Scope, Gen: gen,
		Key: DeriveKey(secret, blob), SecretID: secret.ID, Canonical: CanonicalVersion,
		Args: t.id.Canonical, Effect: t.effect, Contract: c, ContractHash: t.tool.hash,
		Deadline: t.deadline, Created: now, Attributes: t.call.Attributes,
	}
	if in.Identity, err = AppendJSON(nil, t.id.Identity); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	if err := t.id.claims(c, t.call, in); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	out, err := t.tool.Port.Prepare(t.invocation(in))
	if err != nil {
		return nil, err
	}
	in.Request = out.Request
	return in, nil
}

func (t *turn) invocation(in *Intent) *Invocation {
	return &Invocation{
		Operation: in.ID, Tool: in.Tool, Tenant: in.Tenant, Actor: in.Actor, Run: in.Run, Step: in.Step,
		Args: t.id.Args, Canonical: t.id.Canonical, Identity: t.id.Identity, Key: in.Key, Deadline: t.deadline, Permit: in.Created,
	}
}

// snapshot reads the state before, where the contract asks for it.
func (t *turn) snapshot(in *Intent) ([]byte, *Envelope) {
	if !t.tool.Contract.Snapshot {
		return nil, nil
	}
	ctx, cancel := context.WithDeadline(t.ctx, t.end.Add(-t.tool.Contract.MinTime))
	defer cancel()
	before, err := t.tool.Port.(Snapshotter).Snapshot(ctx, t.invocation(in))
	if err != nil {
		t.e.failed(t.ctx, "snapshot", err, nil)
		return nil, t.refuse(ReasonSnapshot, "")
	}
	return before, nil
}

// storeFailed answers for a store that could not be asked. Only a store that says that
// nothing was written lets us say "no effect": what it cannot say may be found and sent
// later by a sweeper.
func (t *turn) storeFailed(err error, in *Intent) *Envelope {
	if errors.Is(err, ErrStoreFailed) {
		a := adviceFor(Unknown, ReasonStore)
		return &Envelope{
			Status: Unknown, Reason: ReasonStore, RetrySafe: a.safe, OperationID: in.ID.String(), Effect: effectSentence(t.effect, Unknown),
			ActionTaken: Executed, Message: a.message, NextAction: a.next,
		}
	}
	return t.refuse(ReasonStore, "")
}

// answer waits for the operation that this call sent and renders it.
func (t *turn) answer(f *flight) *Envelope {
	return envelopeFor(t.wait(f, nil), t.call.Actor, Executed)
}

// wait returns the operation once it is settled, once nothing will settle it inside the
// turn, or at the turn's end. f is the flight that drives it, nil where this process has
// none.
func (t *turn) wait(f *flight, op *Operation) *Operation {
	// The flight turns PENDING into UNKNOWN at the turn's end; that is worth a moment.
	timer := time.NewTimer(time.Until(t.end) + min(reportGrace, t.e.opts.Reserve/4))
	defer timer.Stop()
	poll := pollFirst
	for {
		if f == nil {
			fresh, err := t.e.store.Get(context.WithoutCancel(t.ctx), op.Tenant, op.ID)
			if err != nil {
				return op
			}
			if op = fresh; answered(op) || !claimed(op, t.e.now(t.ctx)) {
				return op
			}
			// Another process holds it: look again after a pause.
			again := time.NewTimer(poll)
			poll = min(2*poll, pollMost)
			select {
			case <-again.C:
				continue
			case <-timer.C:
			case <-t.ctx.Done():
			}
			again.Stop()
			return op
		}
		var changed <-chan struct{}
		var idle time.Time
		op, changed, idle = f.view()
		if answered(op) || idle.After(t.end) || op.Status != Pending && !time.Now().Before(t.end) {
			return op
		}
		if changed == nil { // the flight has landed
			if !claimed(op, t.e.now(t.ctx)) {
				return op
			}
			if next := t.e.flight(op.ID); next != f {
				f = next
				continue
			}
			return op
		}
		select {
		case <-changed:
		case <-timer.C:
			return f.current()
		case <-t.ctx.Done():
			return f.current()
		}
	}
}

const (
	pollFirst = 10 * time.Millisecond
	pollMost  = 250 * time.Millisecond
	// reportGrace is taken from the reserve to see the last change of the turn.
	reportGrace = 250 * time.Millisecond
)

// answered reports whether waiting longer cannot make the answer better.
func answered(op *Operation) bool {
	return op.Status.Settled() && !op.Reopens() && !wantsResult(&op.State)
}

// claimed reports whether somebody works on the operation.
func claimed(op *Operation, now time.Time) bool { return op.Lease.After(now) }

// read runs a tool without effects: nothing is recorded.
func (t *turn) read() (*Envelope, error) {
	ctx, cancel := context.WithDeadline(t.ctx, t.end)
	defer cancel()
	in := &Intent{Tool: t.tool.Contract.Tool, Tenant: t.call.Tenant, Actor: t.call.Actor, Args: t.id.Canonical}
	out, err := t.tool.Port.Prepare(t.invocation(in))
	if err != nil {
		return t.refuse(ReasonInvalidArguments, err.Error()), nil
	}
	in.Request, in.Contract = out.Request, &t.tool.Contract
	ev := safeSend(ctx, t.tool.Port, &Sending{Operation: &Operation{Intent: *in}, Attempt: 1, Deadline: t.deadline})
	if ev.Class != ClassSucceeded {
		return t.refuse(ReasonRead, ""), nil
	}
	a := adviceFor(Succeeded, ReasonRead)
	return &Envelope{
		Status: Succeeded, Reason: ReasonRead, RetrySafe: a.safe, Effect: t.effect, ActionTaken: Executed,
		Message: a.message, NextAction: a.next, Result: ev.Result, ResultRef: ev.Ref,
	}, nil
}
