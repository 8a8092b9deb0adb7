package pawl

import (
	"context"
	"errors"
)

// reopen gives the next permit of an operation that provably had no effect.
func (e *Executor) reopen(ctx context.Context, op *Operation) (*Operation, error) {
	if err := e.barred(ctx, op, EventRetry); err != nil {
		return op, err
	}
	now := e.now(ctx)
	ev := &Event{Kind: EventRetry, At: now, By: "worker " + e.opts.Worker, Token: op.Token, NewToken: newToken(), Lease: now.Add(e.opts.Lease)}
	fresh, err := e.apply(ctx, op, ev)
	if err == nil && fresh.Token != ev.NewToken {
		return fresh, ErrStale
	}
	return fresh, err
}

// mayBeWritten reports whether after an error of reopen its permit may be on record.
func mayBeWritten(err error) bool {
	var refused *Refusal
	return !errors.As(err, &refused) && !errors.Is(err, ErrStale) && !errors.Is(err, ErrHeld) && !notWritten(err)
}
