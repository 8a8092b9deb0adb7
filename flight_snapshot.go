package pawl

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// start uses a permit that a call has given: it reads the state before, where the contract
// asks for it, and sends. The read comes after the permit, when the operation holds its
// subject, so that nothing of ours changes the state between the read and the attempt.
func (f *flight) start(ctx context.Context) bool {
	op := f.current()
	if !op.Contract.Snapshot || op.Token != f.token {
		return f.send(ctx)
	}
	n := len(op.Attempts)
	before, err := f.snapshot(ctx, op)
	if err != nil {
		f.e.failed(f.ctx, "snapshot", err, op)
		return f.event(&Event{Kind: EventGiveBack, Attempt: n, Reason: ReasonSnapshot})
	}
	if !f.event(&Event{Kind: EventSnapshot, Attempt: n, Before: before}) {
		return false
	}
	if now := f.current(); now.Token != f.token || !now.Attempts[n-1].Out() {
		return true // the lease was over: nothing is sent
	}
	return f.send(ctx)
}

// snapshot reads the state before an attempt, as long as the turn leaves time to send.
func (f *flight) snapshot(ctx context.Context, op *Operation) (json.RawMessage, error) {
	inv, err := invocationOf(op, f.deadline)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, f.end.Add(-op.Contract.MinTime))
	defer cancel()
	type reply struct {
		before json.RawMessage
		err    error
	}
	r := ask(f, ctx, op, reply{err: fmt.Errorf("no answer in time")}, func(ctx context.Context, p Port, op *Operation) reply {
		w := &Work{Kind: WorkSnapshot, Operation: op}
		var answer *reply
		return observed(f.e, ctx, w, &answer, func(ctx context.Context) (r reply) {
			r.before, r.err = safeSnapshot(ctx, p, inv)
			w.Err = r.err
			return r
		})
	})
	return r.before, r.err
}

// invocationOf is the call that an operation was begun for, as its record has it.
func invocationOf(op *Operation, deadline time.Time) (*Invocation, error) {
	inv := &Invocation{
		Operation: op.ID, Tool: op.Tool, Tenant: op.Tenant, Actor: op.Actor, Run: op.Run, Step: op.Step,
		Canonical: op.Args, Key: op.Key, Deadline: deadline, Permit: op.Attempts[len(op.Attempts)-1].Permit,
	}
	args, err := ParseJSON(op.Args)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	identity, err := ParseJSON(op.Identity)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	inv.Args, _ = args.(map[string]any)
	inv.Identity, _ = identity.(map[string]any)
	return inv, nil
}
