package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Plan is what a run may do: registered before its first call, and kept as it is.
type Plan struct {
	Steps []PlanStep `json:"steps"`
	// Registered is the time of registration.
	Registered time.Time `json:"registered"`
	// Warnings say where an irreversible step comes before one that may fail, if that is allowed.
	Warnings []string `json:"warnings,omitempty"`
}

// PlanStep is one step of a plan.
type PlanStep struct {
	// Step is the step that the call names, Tool the tool that it calls.
	Step string `json:"step"`
	Tool string `json:"tool"`
	// MayFail: the step may end without its effect, so that the run has to be undone.
	MayFail bool `json:"may_fail,omitempty"`
	// Irreversible: what it did cannot be undone. It holds also where the contract says so.
	Irreversible bool `json:"irreversible,omitempty"`
}

// MaxPlan is how many steps a plan may have.
const MaxPlan = 1000

// A PlanError says why a plan is not registered.
type PlanError struct {
	// Code is for programs.
	Code PlanFault
	// Step is the step at fault, Other the one that it cannot be combined with.
	Step  string
	Other string
	What  string
}

// PlanFault names a kind of PlanError.
type PlanFault string

const (
	// PlanInvalid: the plan contradicts itself or names what there is not.
	PlanInvalid PlanFault = "plan_invalid"
	// PlanIrreversible: an irreversible step comes before one that may fail.
	PlanIrreversible PlanFault = "plan_irreversible"
	// PlanLate: the run has begun, has another plan, or was called off.
	PlanLate PlanFault = "plan_late"
)

func (e *PlanError) Error() string { return "plan: " + e.What }

func (p *Plan) index(step string) int {
	return slices.IndexFunc(p.Steps, func(s PlanStep) bool { return s.Step == step })
}

// RegisterPlan makes a plan the run's. It comes before the run's first call; the same plan
// may be registered again and changes nothing. From then on a call of the run must be a step
// of the plan.
//
// A plan that puts an irreversible step before one that may still fail is refused, or with
// Options.PlanWarns kept with a warning. The error is a *PlanError, a *CallError where a
// label is no good, or the store's.
func (e *Executor) RegisterPlan(ctx context.Context, tenant, actor, run string, steps []PlanStep) (*Run, error) {
	for _, l := range []struct{ name, value string }{{"run", run}, {"tenant", tenant}, {"actor", actor}} {
		if len(l.value) > maxLabel || l.name == "run" && l.value == "" {
			return nil, &CallError{Reason: ReasonLabelInvalid, Field: l.name, Err: fmt.Errorf("%s: want 1 to %d bytes, got %d", l.name, maxLabel, len(l.value))}
		}
	}
	plan, err := e.plan(steps)
	if err != nil {
		return nil, err
	}
	if err := e.synchronise(ctx); err != nil {
		return nil, err
	}
	now := e.now(ctx)
	plan.Registered = now
	r := &Run{Tenant: tenant, ID: run, Actor: actor, Status: RunOpen, Created: now, Plan: plan}
	err = e.putRun(ctx, r, now)
	if !errors.Is(err, ErrStale) {
		if err != nil {
			return nil, fmt.Errorf("register plan: %w", err)
		}
		return r, nil
	}
	there, err := e.store.GetRun(ctx, tenant, run)
	switch {
	case err != nil:
		return nil, fmt.Errorf("register plan: %w", err)
	case there.Status != RunOpen:
		return nil, &PlanError{Code: PlanLate, What: "the run was called off"}
	case there.Plan == nil:
		return nil, &PlanError{Code: PlanLate, What: "the run has begun without a plan"}
	case !slices.Equal(there.Plan.Steps, plan.Steps):
		return nil, &PlanError{Code: PlanLate, What: "the run has another plan"}
	}
	return there, nil
}

// plan checks the steps of a plan and completes them by what their contracts say.
func (e *Executor) plan(steps []PlanStep) (*Plan, error) {
	if len(steps) == 0 || len(steps) > MaxPlan {
		return nil, &PlanError{Code: PlanInvalid, What: fmt.Sprintf("want 1 to %d steps, got %d", MaxPlan, len(steps))}
	}
	p := &Plan{Steps: slices.Clone(steps)}
	for i := range p.Steps {
		s := &p.Steps[i]
		t := e.tool(s.Tool)
		bad := func(what string) error {
			return &PlanError{Code: PlanInvalid, Step: s.Step, What: fmt.Sprintf("step %d: %s", i+1, what)}
		}
		switch {
		case s.Step == "" || len(s.Step) > maxLabel:
			return nil, bad(fmt.Sprintf("want a name of 1 to %d bytes", maxLabel))
		case p.index(s.Step) != i:
			return nil, bad(fmt.Sprintf("%q is there twice", shown(s.Step, 60)))
		case t == nil:
			return nil, bad(fmt.Sprintf("there is no tool %q", shown(s.Tool, 60)))
		case t.Contract.Class == Read:
			return nil, bad(fmt.Sprintf("tool %q only reads, and reads need no plan", s.Tool))
		}
		s.Irreversible = s.Irreversible || t.Contract.Irreversible
	}
	for i, s := range p.Steps {
		if !s.Irreversible || !holds(irreversibleIsLast) {
			continue
		}
		for _, after := range p.Steps[i+1:] {
			if !after.MayFail {
				continue
			}
			what := fmt.Sprintf("step %q (%s) cannot be undone and comes before step %q (%s), which may still fail",
				shown(s.Step, 60), s.Tool, shown(after.Step, 60), after.Tool)
			if !e.opts.PlanWarns {
				return nil, &PlanError{Code: PlanIrreversible, Step: s.Step, Other: after.Step, What: what}
			}
			p.Warnings = append(p.Warnings, what)
			break
		}
	}
	return p, nil
}
