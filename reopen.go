package pawl

import (
	"context"
	"errors"
)

// reopen gives the next permit of an operation that provably had no effect. What was read
// of the state before is read again: the world may have moved.
func (e *Executor) reopen(ctx context.Context, tool *Tool, op *Operation) (*Operation, error) {
	ev := &Event{Kind: EventRetry, By: "worker " + e.opts.Worker, Token: op.Token, NewToken: newToken()}
	if op.Contract.Snapshot {
		before, err := e.snapshotAgain(ctx, tool, op)
		if err != nil {
			e.failed(ctx, "snapshot", err, op)
			return op, err
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

// mayBeWritten reports whether after an error of reopen its permit may be on record.
func mayBeWritten(err error) bool {
	var refused *Refusal
	return !errors.As(err, &refused) && !errors.Is(err, ErrStale) && !errors.Is(err, ErrHeld) && !errors.Is(err, errSnapshot) && !notWritten(err)
}

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
	return safeSnapshot(ctx, tool.Port, inv)
}
