package pawl

import (
	"errors"
	"fmt"
)

// meetRun answers for a run that keeps the call from beginning: it was called off, or it has
// a plan. A call that fits the plan is begun as planned.
func (t *turn) meetRun(r *Run) (*Envelope, error) {
	if r.Status != RunOpen {
		return t.refuse(ReasonRunAborted, ""), nil
	}
	why, detail, err := t.fit(r)
	switch {
	case err != nil:
		return undecided(t.effect, ""), err
	case why != ReasonNone:
		return t.refuse(why, detail), nil
	}
	t.planned = true
	return nil, nil
}

// fit says why a call does not fit the plan of its run, or ReasonNone where it does: the
// step is planned for this tool and has had no other call, and no earlier step stands
// without its effect. Before an irreversible step every earlier one must have had its own.
func (t *turn) fit(r *Run) (Reason, string, error) {
	if !holds(callsFitThePlan) {
		return ReasonNone, "", nil
	}
	n := r.Plan.index(t.call.Step)
	switch {
	case t.call.Step == "":
		return ReasonNotInPlan, "the run has a plan, and the call names no step of it", nil
	case n < 0:
		return ReasonNotInPlan, fmt.Sprintf("the plan has no step %q", shown(t.call.Step, 60)), nil
	case r.Plan.Steps[n].Tool != t.tool.Contract.Tool && r.Plan.Steps[n].Tool != t.named:
		return ReasonNotInPlan, fmt.Sprintf("step %q of the plan is for %s", shown(t.call.Step, 60), r.Plan.Steps[n].Tool), nil
	}
	ops, err := t.e.operationsOf(t.ctx, r)
	if err != nil {
		return ReasonNone, "", err
	}
	latest := map[string]*Operation{}
	own := t.identityClaim()
	for _, op := range ops { // the newest first
		if op.Undoes != (ID{}) {
			continue
		}
		if op.Step == t.call.Step && op.IdentityClaim != own && op.Status != FailedNoEffect {
			return ReasonNotInPlan, fmt.Sprintf("step %q of the plan has had its call", shown(op.Step, 60)), nil
		}
		if latest[op.Step] == nil {
			latest[op.Step] = op
		}
	}
	for _, s := range r.Plan.Steps[:n] {
		op := latest[s.Step]
		switch {
		case op == nil && r.Plan.Steps[n].Irreversible:
			return ReasonPlanOrder, fmt.Sprintf("step %q cannot be undone and step %q has not been made yet", shown(t.call.Step, 60), shown(s.Step, 60)), nil
		case op != nil && op.Status != Succeeded:
			return ReasonPlanOrder, fmt.Sprintf("step %q is %s", shown(s.Step, 60), op.Status), nil
		}
	}
	return ReasonNone, "", nil
}

// planClaim is what the call of a plan's step holds against any other one.
func planClaim(call *Call) (Digest, error) {
	b, err := AppendJSON(nil, map[string]any{"run": call.Run, "step": call.Step, "tenant": call.Tenant})
	if err != nil {
		return Digest{}, err
	}
	d := digest("plan", b)
	return placed(d, RunPlace(call.Run), d), nil
}

// stepTaken refuses a call of a plan's step that has another one by now.
func (t *turn) stepTaken() *Envelope {
	return t.refuse(ReasonNotInPlan, fmt.Sprintf("step %q of the plan has had its call", shown(t.call.Step, 60)))
}

// isPlanned reports whether the call is a step of a registered plan that it fits.
func (t *turn) isPlanned() bool {
	if t.call.Run == "" || t.call.Step == "" {
		return false
	}
	if !t.planned {
		r, err := t.e.store.GetRun(t.ctx, t.call.Tenant, t.call.Run)
		if err != nil || r.Plan == nil || r.Status != RunOpen {
			return false
		}
		why, _, err := t.fit(r)
		t.planned = err == nil && why == ReasonNone
	}
	return t.planned
}

// undo carries out the order to undo a confirmed operation.
func (f *flight) undo(op *Operation) bool {
	c, err := f.e.compensate(f.ctx, op)
	var cannot *undoError
	switch {
	case errors.As(err, &cannot):
		return f.event(&Event{Kind: EventNotUndone, Note: cannot.why})
	case err == nil && c != nil && f.e.undoFailed(c, f.e.now(f.ctx)) != "":
		return f.event(&Event{Kind: EventNotUndone, Note: f.e.undoFailed(c, f.e.now(f.ctx))})
	case err == nil && c != nil && c.Status == Succeeded:
		return false
	case err != nil && !errors.Is(err, errNotHere):
		f.e.failed(f.ctx, "undo", err, op)
	}
	now := f.e.now(f.ctx)
	pause := min(max(now.Sub(op.Updated)/8, patience), abortSlow)
	f.release(op, Move{Kind: MoveUndo, At: now.Add(pause)})
	return false
}
