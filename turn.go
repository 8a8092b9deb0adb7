package pawl

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// A turn is one call on its way to its envelope.
type turn struct {
	e        *Executor
	ctx      context.Context // ends at the deadline
	gone     <-chan struct{} // closed when the caller has gone; nil where it cannot
	call     *Call
	named    string // the tool that the caller named; its port may have chosen another
	tool     *Tool
	id       *Identified
	effect   string
	deadline time.Time // the absolute end
	end      time.Time // when to report: deadline less reserve
	// repeat: the contract or the host lets this step have an effect that another step of
	// the run has had.
	repeat bool
	// about is the intent that was to be recorded last, or that of the record to be changed.
	about *Intent
	// planned: the call fits the plan of its run. undoes is the operation that it compensates.
	planned bool
	undoes  ID
	// told is the operation that the answer speaks of.
	told *Operation
	// presumed: a call that is not on record may have been made before the restore, whenever
	// that was. settled: the generation before this one was settled after it.
	presumed, settled bool
	// hand takes the permit where the caller sends itself, permit is it; nil otherwise.
	hand   chan *Permit
	permit *Permit
	// asked: this turn has had its probe ahead of schedule.
	asked bool
}

const (
	// maxRounds bounds how often a call looks again after what stood in its way has moved.
	maxRounds = 64
	// lookTime bounds a look at the record for a call that has no time left.
	lookTime = time.Second
)

// run has the effect happen once and returns what is true about it at the end of the turn.
func (t *turn) run() (*Envelope, error) {
	if err := t.e.synchronise(t.ctx); err != nil {
		return undecided(t.effect, ""), err
	}
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
	return undecided(t.effect, ""), nil
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
	why, admitted := t.e.admit()
	if admitted && !t.mayStart() {
		t.e.dismiss()
		why, admitted = ReasonDeadline, false
	}
	if admitted {
		return t.insert(in)
	}
	standing, err := t.look(in.IdentityClaim) // before refusing: it may be done already
	switch {
	case err != nil:
		return nil, nil, undecided(t.effect, ""), err
	case standing != nil:
		return nil, standing, nil, nil
	default:
		return nil, nil, t.refuse(why, ""), nil
	}
}

// turnAway answers a call that has waited in vain. What has become of its identity in the
// meantime, by another worker, goes before the reason.
func (t *turn) turnAway(why Reason) *Envelope {
	s, err := t.look(t.identityClaim())
	switch {
	case err != nil:
		return undecided(t.effect, "")
	case s == nil || s.Op.Status == FailedNoEffect || s.Op.Status == Compensated:
		return t.refuse(why, "")
	case foreign(s.Op, t.call.Actor):
		return t.render(s.Op, Replayed)
	}
	if env := t.differs(s.Op); env != nil {
		return env
	}
	return t.replay(s.Op)
}

// look finds the latest generation of the call's identity, also when no time is left.
func (t *turn) look(identity Digest) (*Standing, error) {
	ctx, cancel := briefly(t.ctx)
	defer cancel()
	found, err := t.e.store.Find(ctx, Query{Tenant: t.call.Tenant, IdentityClaim: identity, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &Standing{Kind: ClaimIdentity, Op: found[0]}, nil
}

// briefly is a context for a look at the store: within what is left of the turn, and with a
// moment even where the caller has gone or the turn is over.
func briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	left := lookTime
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, max(time.Until(deadline), reportGrace/2))
	}
	return context.WithTimeout(context.WithoutCancel(ctx), left)
}

// insert makes the intent of an admitted call durable and launches it.
func (t *turn) insert(in *Intent) (*flight, *Standing, *Envelope, error) {
	now, worker := t.e.now(t.ctx), "worker "+t.e.opts.Worker
	restored := (t.presumed || t.e.opts.Restore.covers(now)) && !t.settled
	if t.tool.Contract.asks() && !restored {
		switch a, standing, err := t.asks(in); {
		case err != nil:
			t.e.dismiss()
			return nil, nil, t.refuse(ReasonStore, ""), err
		case standing != nil:
			t.e.dismiss()
			return nil, standing, nil, nil
		case a != nil:
			return t.prepare(in, a)
		}
	}
	op, first, err := newOperation(in, now, t.e.opts.Lease, worker)
	if restored {
		op, first, err = newPresumed(in, t.e.opts.Restore, now, t.e.opts.Lease, worker)
	}
	if err != nil {
		t.e.dismiss()
		return nil, nil, t.refuse(ReasonInvalidArguments, err.Error()), nil
	}
	var f *flight
	var standing *Standing
	if !t.within(func(ctx context.Context) *flight {
		if !holds(durableFirst) {
			f = t.launch(op)
			go f.fly()
			standing, err = t.e.store.Begin(ctx, op, first.raw)
			return nil
		}
		if standing, err = t.e.store.Begin(ctx, op, first.raw); err != nil || standing != nil {
			t.e.dismiss()
			return nil
		}
		t.e.tell(t.ctx, op, &first.entry, nil)
		f = t.launch(op)
		return f
	}) {
		return nil, nil, undecided(t.effect, in.ID.String()), errStoreSlow
	}
	if err != nil {
		return t.notBegun(err, in)
	}
	return f, standing, nil, nil
}

// errStoreSlow: a write of the store was under way when the turn was over.
var errStoreSlow = errors.New("the store did not answer before the turn was over")

// within runs a write of the store and what follows from it, and reports whether both came
// to an end inside the turn. A write that has begun cannot be withdrawn: it goes on, as part
// of the executor's work, and nothing that it sets may be read then. A permit that it gives
// too late is given back. A flight that the write begins is driven by the same goroutine, and
// the caller goes on as soon as there is something to see: an answer that is prompt. The
// context that a write may be given ends when the turn has to report or the caller has gone.
func (t *turn) within(write func(context.Context) *flight) bool {
	ctx, withdraw := context.WithCancel(context.WithoutCancel(t.ctx))
	defer withdraw()
	done := make(chan struct{})
	t.e.work.Add(1)
	go func() {
		growStack()
		f := write(ctx)
		if f == nil || !f.permit || f.op.Contract.Snapshot {
			close(done)
		} else {
			f.ready = done
		}
		t.e.work.Done() // a flight has its own place in the executor's work
		if f != nil {
			f.fly()
		}
	}()
	end := time.NewTimer(time.Until(t.end))
	defer end.Stop()
	select {
	case <-done:
		return true
	case <-end.C:
	case <-t.gone:
	}
	withdraw()
	select {
	case <-done:
		return true
	case <-t.ctx.Done():
	}
	moment := time.NewTimer(reportGrace / 2) // for a write that was withdrawn
	defer moment.Stop()
	select {
	case <-done:
		return true
	case <-moment.C:
		return false
	}
}

// growStack gives a goroutine at once the stack that a call needs. By itself the stack would
// be doubled, and copied, three times.
//
//go:noinline
func growStack() {
	var room [8 << 10]byte
	runtime.KeepAlive(&room)
}

// notBegun answers for a Begin that failed. Only a store that says that nothing was
// written, and shows nothing on record, lets us say "no effect": what it cannot say may be
// found and sent later by a sweeper.
func (t *turn) notBegun(err error, in *Intent) (*flight, *Standing, *Envelope, error) {
	if !notWritten(err) {
		return nil, nil, undecided(t.effect, in.ID.String()), err
	}
	standing, lookErr := t.look(in.IdentityClaim)
	switch {
	case lookErr != nil:
		return nil, nil, undecided(t.effect, ""), err
	case standing != nil && (standing.Op.Status.Open() || standing.Op.Status == Succeeded):
		env, _ := t.meet(standing)
		if env == nil {
			env = t.replay(standing.Op)
		}
		return nil, nil, env, nil
	default: // nothing is on record, or nothing happened and it cannot be begun again now
		return nil, nil, t.refuse(ReasonStore, ""), err
	}
}

// notWritten reports whether a store's error means that nothing was written.
func notWritten(err error) bool {
	for _, known := range []error{ErrBusy, ErrFull, ErrReadOnly, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return !errors.Is(err, ErrStoreFailed)
		}
	}
	return !holds(commitMayBeMade)
}

// launch begins the flight of an operation whose newest permit this call holds, or of one in
// doubt that it has taken up.
func (t *turn) launch(op *Operation) *flight {
	f := t.flight(op)
	if f.permit = op.Status == Pending; !f.permit {
		f.eager, t.asked = true, true
	}
	t.e.enlist(f)
	return f
}

func (t *turn) flight(op *Operation) *flight {
	f := &flight{
		e: t.e, id: op.ID, tool: t.tool, ctx: context.WithoutCancel(t.ctx), caller: t.ctx,
		end: t.end, deadline: t.deadline, token: op.Token, op: op, hand: t.hand,
	}
	if t.undoes != (ID{}) {
		f.retries = maxRetries // an abort has time: its attempts are further apart
	}
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
		ID: t.e.ids.next(now), Tenant: t.call.Tenant, Actor: t.call.Actor, Tool: c.Tool,
		Run: t.call.Run, ParentRun: t.call.ParentRun, Step: t.call.Step, Scope: t.id.Scope, Gen: gen,
		Key: DeriveKey(secret, blob), SecretID: secret.ID, Canonical: CanonicalVersion,
		Args: t.id.Canonical, Effect: t.effect, Contract: c, ContractHash: t.tool.hash,
		Deadline: t.deadline, Created: now, Attributes: t.call.Attributes, Trace: TraceOf(t.ctx),
	}
	t.about = in
	in.Identity = t.id.identity
	if err := t.id.claims(c, t.call, in); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	in.Planned, in.Undoes = t.planned, t.undoes
	if t.repeat || t.undoes != (ID{}) || !holds(doneHoldsSteps) {
		in.OnceClaim = Digest{} // what undoes an effect is held once by the key of the effect
	}
	if t.planned && holds(callsFitThePlan) {
		if in.OnceClaim, err = planClaim(t.call); err != nil {
			return nil, fmt.Errorf("step: %w", err)
		}
	}
	if !holds(openHoldsSteps) {
		in.StepClaim, in.OnceClaim = Digest{}, Digest{}
	}
	if !holds(subjectIsHeld) {
		in.SubjectClaim = Digest{}
	}
	out, err := safePrepare(t.tool.Port, t.invocation(in))
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

// answer waits for the operation that this call sent and renders it.
func (t *turn) answer(f *flight) *Envelope {
	return t.render(t.latest(t.wait(f, nil)), Executed)
}

// latest is an operation that a call has waited for, as it is now. Before a caller is told
// that nothing happened, the record is looked at once more: another worker may have sent
// what was approved, reopened the operation, or begun the next generation, while this one
// waited.
func (t *turn) latest(op *Operation) *Operation {
	if op.Status == FailedNoEffect || op.Status == Prepared {
		if s, err := t.look(op.IdentityClaim); err == nil && s != nil {
			return s.Op
		}
	}
	return op
}

// wait returns the operation once it is settled, once nothing will settle it inside the
// turn, or at the turn's end. f is the flight that drives it, nil where this process has
// none.
func (t *turn) wait(f *flight, op *Operation) *Operation {
	if f != nil {
		if now := f.current(); answered(now) {
			return now
		}
	}
	// The flight turns PENDING into UNKNOWN at the turn's end; that is worth a moment.
	timer := time.NewTimer(time.Until(t.end) + min(reportGrace, t.e.opts.Reserve/4))
	defer timer.Stop()
	poll := pollFirst
	for {
		if f == nil {
			if fresh, err := t.e.store.Get(t.ctx, op.Tenant, op.ID); err == nil {
				if op = fresh; answered(op) || !leased(op, t.e.now(t.ctx)) {
					return op
				}
			}
			// Another process holds it, or it cannot be read now: look again after a pause.
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
			if !leased(op, t.e.now(t.ctx)) {
				return op
			}
			if next := t.e.flight(op.ID); next != f {
				f = next
				continue
			}
			return op
		}
		select {
		case t.permit = <-t.hand:
			return f.current()
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

// read runs a tool without effects: nothing is recorded.
func (t *turn) read() (*Envelope, error) {
	if why, ok := t.e.admit(); !ok {
		return t.refuse(why, ""), nil
	}
	defer t.e.dismiss()
	c := &t.tool.Contract
	ctx := newUntil(t.ctx, earlier(t.end, time.Now().Add(c.Timeout)))
	defer ctx.stop()
	in := &Intent{Tool: c.Tool, Tenant: t.call.Tenant, Actor: t.call.Actor, Args: t.id.Canonical, Contract: c}
	out, err := safePrepare(t.tool.Port, t.invocation(in))
	if err != nil {
		return t.refuse(ReasonInvalidArguments, err.Error()), nil
	}
	in.Request = out.Request
	replies := make(chan Evidence, 1)
	go func() {
		replies <- t.e.attempt(ctx, t.tool.Port, &Sending{Operation: &Operation{Intent: *in}, Attempt: 1, Deadline: t.deadline}, 1)
	}()
	select {
	case ev := <-replies:
		if ev.Class != ClassSucceeded {
			return t.refuse(ReasonRead, ""), nil
		}
		env := &Envelope{Status: Succeeded, Effect: t.effect, ActionTaken: Executed, Result: ev.Result, ResultRef: ev.Ref}
		return env.withReason(ReasonRead), nil
	case <-ctx.Done():
		return t.refuse(ReasonRead, ""), nil
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
