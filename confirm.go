package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sighting is one call of a watched tool.
type Sighting struct {
	Tenant string
	// Look is what look-alikes have in common.
	Look Digest
	ID   ID
	At   time.Time
}

// Sighter is a Store that remembers what watched tools were called for. A tool with
// WatchTerms needs one.
type Sighter interface {
	// Sight records a sighting and then returns the ids of those of the same tenant and look
	// that were recorded from since on, newest first and at most MaxSightings, its own left
	// out. Of two that are recorded at once at least one finds the other.
	Sight(ctx context.Context, s Sighting, since time.Time) ([]ID, error)
}

// MaxSightings is how many look-alikes one Sight returns.
const MaxSightings = 100

const (
	// maxLookAlikes is how many look-alikes are kept.
	maxLookAlikes = 8
	// sightGrace is how long a sighting counts whose operation is not on record (yet).
	sightGrace = time.Minute
)

// approvalFor says what the sending of an intent has to wait for; nil where it may be sent
// at once.
func (e *Executor) approvalFor(ctx context.Context, tool *Tool, in *Intent, inv *Invocation) (*Approval, error) {
	c := &tool.Contract
	if c.Confirm == nil && c.Watch == nil || !holds(yesIsAskedFor) {
		return nil, nil
	}
	var alike []ID
	var seen bool
	if c.Watch != nil {
		var err error
		if alike, seen, err = e.lookAlikes(ctx, c, in, inv); err != nil {
			return nil, err
		}
	}
	if f := c.Confirm; f != nil {
		ask := f.Always
		if !ask {
			var err error
			if ask, err = safeConfirm(tool.Port, inv); err != nil {
				ask = true // what cannot be judged is asked about
			}
		}
		if ask {
			a := newApproval(c, ReasonApprovalNeeded, in.Created)
			a.LookAlikes = alike
			return a, nil
		}
	}
	if !seen {
		return nil, nil
	}
	a := newApproval(c, ReasonLookAlike, in.Created)
	a.LookAlikes = alike
	return a, nil
}

// asks reports whether calls of the tool may need a yes.
func (c *Contract) asks() bool { return c.Confirm != nil || c.Watch != nil }

// asks says what a call has to wait for, or what stands in its way already: a repeat is not
// sighted, or it would look like its own original.
func (t *turn) asks(in *Intent) (*Approval, *Standing, error) {
	if t.tool.Contract.Watch != nil {
		s, err := t.look(in.IdentityClaim)
		if err != nil {
			return nil, nil, err
		}
		if s != nil && (s.Op.Gen >= in.Gen || s.Op.Status.Open() || s.Op.Status == Succeeded) {
			return nil, s, nil
		}
	}
	a, err := t.e.approvalFor(t.ctx, t.tool, in, t.invocation(in))
	return a, nil, err
}

// lookAlikes finds the operations that may have had, or may yet have, an effect that looks
// like the one of an intent, and reports whether there are any. It says so too where there
// are more sightings than it can look at.
func (e *Executor) lookAlikes(ctx context.Context, c *Contract, in *Intent, inv *Invocation) (alike []ID, some bool, err error) {
	look := map[string]any{}
	for _, name := range c.Watch.By {
		if v, ok := inv.Identity[name]; ok {
			look[name] = v
		} else {
			look[name] = at(inv.Args, name)
		}
	}
	b, err := AppendJSON(nil, map[string]any{"look": look, "tenant": in.Tenant, "tool": in.Tool})
	if err != nil {
		return nil, false, fmt.Errorf("watch: %w", err)
	}
	s := Sighting{Tenant: in.Tenant, Look: digest("look", b), ID: in.ID, At: in.Created}
	seen, err := e.store.(Sighter).Sight(ctx, s, in.Created.Add(-c.Watch.Within))
	if err != nil {
		return nil, false, fmt.Errorf("watch: %w", err)
	}
	for _, id := range seen {
		if len(alike) == maxLookAlikes {
			break
		}
		op, err := e.store.Get(ctx, in.Tenant, id)
		switch {
		case errors.Is(err, ErrNotFound):
			// It is being begun at this moment, or never was.
			if in.Created.Sub(id.Time()) < sightGrace {
				alike = append(alike, id)
			}
		case err != nil:
			return nil, false, fmt.Errorf("watch: %w", err)
		case op.Status.Open() || op.Status == Succeeded:
			alike = append(alike, id)
		}
	}
	return alike, len(alike) > 0 || len(seen) >= MaxSightings, nil
}

// prepare records an intent that needs a yes, and answers for it. Nothing is sent.
func (t *turn) prepare(in *Intent, a *Approval) (*flight, *Standing, *Envelope, error) {
	op, first, err := newPrepared(in, a, "worker "+t.e.opts.Worker)
	if err != nil {
		t.e.dismiss()
		return nil, nil, t.refuse(ReasonInvalidArguments, err.Error()), nil
	}
	var standing *Standing
	if !t.within(func(ctx context.Context) *flight {
		defer t.e.dismiss()
		if standing, err = t.e.store.Begin(ctx, op, first.raw); err == nil && standing == nil {
			t.e.tell(t.ctx, op, &first.entry, nil)
		}
		return nil
	}) {
		return nil, nil, undecided(t.effect, in.ID.String()), errStoreSlow
	}
	switch {
	case err != nil:
		return t.notBegun(err, in)
	case standing != nil:
		return nil, standing, nil, nil
	case t.call.Await:
		return nil, &Standing{Kind: ClaimIdentity, Op: op}, nil, nil
	}
	return nil, nil, t.render(op, Executed), nil
}

// newPrepared is the state that Begin writes for an intent that needs a yes: no permit, and
// a question to a person.
func newPrepared(in *Intent, a *Approval, worker string) (*Operation, *begun, error) {
	op := &Operation{Intent: *in, State: State{
		Status: Prepared, Reason: a.Why, Version: 1, Token: newToken(), Updated: in.Created,
		Review: in.Created, ReviewReason: a.Why, Approval: a,
	}}
	op.Due = Next(op, in.Created).At
	first := &begun{entry: Entry{Seq: 1, At: in.Created, Event: string(EventBegin), By: worker, To: Prepared, Reason: a.Why}}
	var err error
	if first.raw, err = EncodeEntry(&first.entry); err != nil {
		return nil, nil, fmt.Errorf("encode history: %w", err)
	}
	op.Chain = ChainHash(nil, first.raw)
	return op, first, nil
}

// meetPrepared answers for a call whose operation waits for a yes, or sends it in this turn
// if the yes is there.
func (t *turn) meetPrepared(op *Operation) (*Envelope, error) {
	for poll := pollFirst; ; poll = min(2*poll, pollMost) {
		now := t.e.now(t.ctx)
		switch {
		case op.Status != Prepared:
			return nil, nil // look again
		case op.lapsed(now, t.tool.hash) != ReasonNone:
			return t.letLapse(op, now)
		case op.approved():
			return t.sendApproved(op)
		case !t.call.Await || !t.sleep(poll):
			return t.replay(op), nil
		}
		fresh, err := t.e.store.Get(t.ctx, op.Tenant, op.ID)
		if err != nil {
			return t.render(op, Replayed), nil
		}
		op = fresh
	}
}

// letLapse ends an operation that cannot be sent any more; the call then looks again.
func (t *turn) letLapse(op *Operation, now time.Time) (*Envelope, error) {
	_, err := t.e.apply(t.ctx, op, &Event{
		Kind: EventLapse, At: now, By: "worker " + t.e.opts.Worker, Token: op.Token, Contract: t.tool.hash,
	})
	var refused *Refusal
	if err == nil || errors.As(err, &refused) || errors.Is(err, ErrStale) {
		return nil, nil
	}
	return t.render(op, Replayed), err
}

// sendApproved uses the yes in this call's turn.
func (t *turn) sendApproved(op *Operation) (*Envelope, error) {
	if !t.mayStart() {
		return t.replay(op), nil
	}
	if _, ok := t.e.admit(); !ok {
		return t.replay(op), nil
	}
	var f *flight
	var err error
	if !t.within(func(context.Context) *flight {
		var fresh *Operation
		if fresh, err = t.e.firstPermit(t.ctx, op, t.tool); err != nil {
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
	case notWritten(err):
		return t.replay(t.latest(op)), err
	default:
		return nil, nil // it moved: look again
	}
}

// firstPermit gives an approved operation its first permit.
func (e *Executor) firstPermit(ctx context.Context, op *Operation, tool *Tool) (*Operation, error) {
	if err := e.barred(ctx, op, EventPermit); err != nil {
		return op, err
	}
	now := e.now(ctx)
	ev := &Event{
		Kind: EventPermit, At: now, By: "worker " + e.opts.Worker, Token: op.Token, NewToken: newToken(), Lease: now.Add(e.opts.Lease), Contract: tool.hash,
	}
	fresh, err := e.apply(ctx, op, ev)
	if err == nil && fresh.Token != ev.NewToken {
		return fresh, ErrStale
	}
	return fresh, err
}

// takeApproved sends what was approved, for the sweeper. The approval starts a turn of its
// own: nobody waits for the answer in the one in which it was asked for.
func (f *flight) takeApproved(ctx context.Context, op *Operation) bool {
	f.deadline = time.Now().Add(f.e.opts.Turn)
	f.end = f.deadline.Add(-f.e.opts.Reserve)
	f.caller = f.ctx // which nobody leaves
	if op.ContractHash != f.tool.hash {
		return f.event(&Event{Kind: EventLapse, Contract: f.tool.hash})
	}
	if err := f.e.barred(ctx, op, EventPermit); err != nil {
		f.e.failed(ctx, "send what was approved", err, op)
		return false
	}
	if !f.event(&Event{Kind: EventPermit, Contract: f.tool.hash}) {
		return false
	}
	if now := f.current(); now.Status != Pending || now.Token != f.token || len(now.Attempts) == 0 || !now.Attempts[0].Out() {
		return true // the rules said no
	}
	return f.start(ctx)
}
