package pawl

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// CompensationTerms declare how an effect is undone: by an operation of another tool. The
// port says with which arguments, so it must be a Compensator. An operation keeps the terms
// that it began under.
type CompensationTerms struct {
	// Tool is the tool whose effect undoes this one's.
	Tool string `json:"tool"`
	// Within is how long after the effect it can be undone; 0 means for ever.
	Within time.Duration `json:"within,omitempty"`
	// Leaves says for people what remains, such as "the fee of 5.00 EUR"; empty where the
	// compensation is complete.
	Leaves string `json:"leaves,omitempty"`
}

// Compensator gives the arguments of the call that undoes a confirmed operation. It does no
// I/O and says the same of one operation each time.
type Compensator interface {
	Compensation(op *Operation) (json.RawMessage, error)
}

// validateCompensation reports contradictions in what a contract declares about undoing.
func (c *Contract) validateCompensation(bad func(term, format string, args ...any)) {
	if c.Corrective != "" && !c.Irreversible && c.Compensation != nil {
		bad("corrective", "is for an effect that has no compensation")
	}
	k := c.Compensation
	if k == nil {
		return
	}
	checkTerm(bad, "compensation.within", k.Within)
	switch {
	case c.Class == Read:
		bad("compensation", "a read has no effect to undo")
	case k.Tool == "":
		bad("compensation.tool", "name the tool that undoes the effect")
	case k.Tool == c.Tool:
		bad("compensation.tool", "a tool does not undo itself")
	case c.Irreversible:
		bad("compensation", "an irreversible effect has none")
	}
}

// notCompensable says why there is no way to undo an operation's effect, or "" where there
// is one.
func (op *Operation) notCompensable() string {
	switch c := op.Contract; {
	case c == nil:
		return "its row failed its check"
	case op.Undoes != (ID{}):
		return "it undoes another operation itself"
	case c.Irreversible:
		return "it is irreversible"
	case c.Compensation == nil:
		return "its contract declares no compensation"
	default:
		return ""
	}
}

// undoBarred says why the compensation of an operation may not begin at a time, or "" where
// it may: the effect is confirmed, and no request that is still on its way can have it again.
func (op *Operation) undoBarred(now time.Time) string {
	if why := op.notCompensable(); why != "" {
		return why
	}
	if op.Status != Succeeded && holds(confirmedIsUndone) {
		return "it is " + string(op.Status)
	}
	if now.Before(op.undoableFrom()) && holds(openPermitsWait) {
		return "a request of it may still arrive"
	}
	if w := op.Contract.Compensation.Within; w > 0 && now.After(op.Attempts[0].Permit.Add(w)) {
		return "the time in which it can be undone is over"
	}
	return ""
}

// undoableFrom is the time from which a confirmed operation may be undone: when no permit
// is open. One that is out may still arrive; of several that may have, a keyed provider
// takes only one, any other might take the next after the compensation.
func (op *Operation) undoableFrom() time.Time {
	out, may := false, 0
	for _, a := range op.Attempts {
		if a.NoEffect {
			continue
		}
		may++
		out = out || a.Out()
	}
	if out || may > 1 && op.Contract.Class != Keyed {
		return op.SafeAt().Add(time.Microsecond)
	}
	return time.Time{}
}

// safeCompensation asks the port; a panic is an error.
func safeCompensation(p Port, op *Operation) (args json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			args, err = nil, errors.New("the tool cannot say how this is undone")
		}
	}()
	c, ok := p.(Compensator)
	if !ok {
		return nil, errors.New("the tool has no compensation any more")
	}
	return c.Compensation(op)
}

// errNotHere: this executor lacks a tool that the compensation needs; another one may have it.
var errNotHere = errors.New("the tools of the compensation are not registered here")

// An undoError says why an operation cannot be undone, for good.
type undoError struct{ why string }

func (e *undoError) Error() string { return e.why }

// compensate has the compensation of an operation happen once: it begins it, or meets the
// one that there is, and works on it until the turn ends. It returns the compensation as it
// is then, nil where it could not begin yet. Where it is confirmed, the operation is
// COMPENSATED. An *undoError says that there will be none. One that is open goes on as it was
// begun, also where it could not be begun so any more.
func (e *Executor) compensate(ctx context.Context, op *Operation) (*Operation, error) {
	began, err := e.compensation(ctx, op)
	if err != nil {
		return nil, err
	}
	now := e.now(ctx)
	if began == nil || began.Status != Succeeded && e.undoFailed(began, now) == "" {
		open := began != nil && began.Status.Open()
		if why := op.undoBarred(now); why != "" && !open {
			return nil, &undoError{why}
		}
		met, err := e.undo(ctx, op)
		var cannot *undoError
		switch {
		case errors.As(err, &cannot) && open:
		case err != nil || met == nil:
			return nil, err
		default:
			began = met
		}
	}
	if began.Status == Succeeded && op.Status == Succeeded {
		_, err = e.apply(ctx, op, &Event{Kind: EventCompensated, At: e.now(ctx), By: "worker " + e.opts.Worker, UndoneBy: began.ID})
		var refused *Refusal
		if err != nil && !errors.As(err, &refused) {
			return began, err
		}
	}
	return began, nil
}

// compensation finds the latest compensation of an operation; nil where there is none.
func (e *Executor) compensation(ctx context.Context, op *Operation) (*Operation, error) {
	if op.notCompensable() != "" {
		return nil, &undoError{op.notCompensable()}
	}
	blob, err := undoBlob(op).Bytes()
	if err != nil {
		return nil, &undoError{err.Error()}
	}
	found, err := e.store.Find(ctx, Query{Tenant: op.Tenant, IdentityClaim: digest("identity", blob), Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// undoBlob is what the key of a compensation is derived from: the original's key, and
// nothing that an expression gives.
func undoBlob(op *Operation) *Blob {
	return &Blob{ID: map[string]any{"undoes": hex.EncodeToString(op.Key[:])}, Tool: op.Contract.Compensation.Tool, Tenant: op.Tenant}
}

// undoing is the call that compensates an operation, and its tool. The error is errNotHere
// or an *undoError.
func (e *Executor) undoing(op *Operation) (*Tool, *Call, *Identified, error) {
	own, t := e.tool(op.Tool), e.tool(op.Contract.Compensation.Tool)
	if own == nil || t == nil {
		return nil, nil, nil, errNotHere
	}
	if t.Contract.Class == Read {
		return nil, nil, nil, &undoError{fmt.Sprintf("its compensation %q only reads", t.Contract.Tool)}
	}
	args, err := safeCompensation(own.Port, op)
	if err != nil {
		return nil, nil, nil, &undoError{fmt.Sprintf("the arguments of its compensation: %v", err)}
	}
	call := &Call{Tool: t.Contract.Tool, Args: args, Run: op.Run, ParentRun: op.ParentRun, Step: op.Step, Tenant: op.Tenant, Actor: op.Actor}
	anywhere := t.Contract
	anywhere.Scope = ScopeBusiness
	id, err := Identify(&anywhere, call)
	if err != nil {
		return nil, nil, nil, &undoError{fmt.Sprintf("the arguments of its compensation: %v", err)}
	}
	id.blob = *undoBlob(op)
	return t, call, id, nil
}

// undo makes one turn for the compensation of an operation.
func (e *Executor) undo(ctx context.Context, op *Operation) (*Operation, error) {
	t, call, id, err := e.undoing(op)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(e.opts.Turn)
	if d, ok := ctx.Deadline(); ok {
		deadline = d
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	turn := &turn{
		e: e, ctx: WithTrace(ctx, op.Trace), call: call, tool: t, id: id, effect: effectText(&t.Contract, id),
		deadline: deadline, end: deadline.Add(-e.opts.Reserve), undoes: op.ID,
		presumed: e.opts.Restore.presumes(op.Created), // it comes again by itself, in no window
	}
	env, err := turn.run()
	if err != nil {
		return nil, err
	}
	if env.ActionTaken == Refused && turn.told == nil {
		switch env.Reason {
		case ReasonInvalidArguments, ReasonParameterMismatch, ReasonGenerations:
			return nil, &undoError{"its compensation was refused: " + string(env.Reason)}
		}
	}
	return e.compensation(ctx, op)
}

// undoFailed says why a compensation will not happen by itself any more, or "" while it may.
func (e *Executor) undoFailed(c *Operation, now time.Time) string {
	again := c.Status == FailedNoEffect && (c.needsAnotherYes(now) || slices.Contains(undoneAnew, c.Reason))
	switch {
	case c.Status == Compensated:
		return "the compensation was undone itself"
	case c.Status != FailedNoEffect:
		return ""
	case again && c.Gen+1 < e.maxGenerations(c):
		return ""
	case again:
		return "its compensation was begun as often as allowed"
	case c.Reopens() && len(c.Attempts) < c.Contract.MaxAttempts:
		return ""
	case c.Reopens():
		return "its compensation was tried as often as allowed"
	}
	return "its compensation did not happen: " + string(c.Reason)
}

// undoneAnew are the reasons after which a compensation is begun anew: it provably did not
// happen, and nobody refused it.
var undoneAnew = []Reason{ReasonAbsent, ReasonFenced, ReasonPerson, ReasonApprovalExpired, ReasonApprovalChanged}

// maxGenerations is the cap on the generations of an operation as a repeat of it meets it.
func (e *Executor) maxGenerations(op *Operation) int {
	if t := e.tool(op.Tool); t != nil {
		return t.Contract.MaxGenerations
	}
	return op.Contract.MaxGenerations
}
