package pawl

import (
	"context"
	"fmt"
)

// Lookup returns the operation that a call would meet: the latest generation of its tool,
// identity and scope. Nothing is recorded and nothing is sent. The error is ErrNotFound
// where there is none, which holds for every read; a *CallError where the call cannot be
// identified; or the store's. The operation is for its own actor and for operators.
func (e *Executor) Lookup(ctx context.Context, call Call) (*Operation, error) {
	t := e.chosen(&call)
	if t == nil {
		return nil, &CallError{Reason: ReasonUnknownTool, Field: "tool", Err: fmt.Errorf("there is no such tool")}
	}
	id, err := Identify(&t.Contract, &call)
	if err != nil {
		return nil, err
	}
	if t.Contract.Class == Read {
		return nil, ErrNotFound
	}
	var in Intent
	if err := id.claims(&t.Contract, &call, &in); err != nil {
		return nil, &CallError{Reason: ReasonInvalidArguments, Err: fmt.Errorf("identity: %w", err)}
	}
	found, err := e.store.Find(ctx, Query{Tenant: call.Tenant, IdentityClaim: in.IdentityClaim, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("look for the operation: %w", err)
	}
	if len(found) == 0 {
		return nil, ErrNotFound
	}
	return found[0], nil
}
