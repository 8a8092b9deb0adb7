package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// RunPath names a run in a path.
type RunPath struct {
	TenantQuery
	Run string `path:"run" minLength:"1" maxLength:"256" doc:"The run's id, which is the host's own; escaped where it has a slash."`
}

// Run is one run in a list.
type Run struct {
	Run      string          `json:"run"`
	Status   pawl.RunStatus  `json:"status" enum:"open,aborting,aborted" doc:"aborting: called off, and something is still to be done or to be found out."`
	Tenant   string          `json:"tenant,omitempty"`
	Actor    string          `json:"actor,omitempty" doc:"Who began it."`
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated" doc:"The last change of the run's own record."`
	Steps    []pawl.PlanStep `json:"plan,omitempty" nullable:"false" doc:"The steps of its plan, where it has one."`
	Warnings []string        `json:"warnings,omitempty" nullable:"false" doc:"Where the plan puts what cannot be undone before what may fail."`
	Abort    *pawl.Abort     `json:"abort,omitempty" doc:"Who called it off, when and why."`
}

// RunReport is a run with what has become of each of its operations.
type RunReport struct {
	Run
	Items   []RunItem `json:"items" nullable:"false" doc:"Its operations in the order in which they began."`
	Message string    `json:"message" doc:"How it stands, in words."`
}

// RunItem is one operation of a run. Of another actor's only tool and status are shown.
type RunItem struct {
	Operation          string           `json:"operation" pattern:"^op_[0-9a-f]{32}$"`
	Tool               string           `json:"tool"`
	Status             pawl.Status      `json:"status" enum:"PREPARED,PENDING,SUCCEEDED,FAILED_NO_EFFECT,UNKNOWN,COMPENSATED"`
	Outcome            pawl.UndoOutcome `json:"outcome,omitempty" enum:"undone,undoing,not_undoable,refused,unknown,no_effect" doc:"What has become of it since the run was called off."`
	Step               string           `json:"step,omitempty"`
	Effect             string           `json:"effect,omitempty" doc:"The effect in words."`
	Reason             pawl.Reason      `json:"reason,omitempty"`
	Why                string           `json:"why,omitempty" doc:"Why it is not undone."`
	Compensation       string           `json:"compensation,omitempty" doc:"The operation that undoes it."`
	CompensationStatus pawl.Status      `json:"compensation_status,omitempty"`
	Corrective         string           `json:"corrective,omitempty" doc:"What people can do about it instead."`
	Leaves             string           `json:"leaves,omitempty" doc:"What its compensation leaves."`
}

type runsInput struct {
	TenantQuery
	Status string `query:"status" enum:"open,aborting,aborted" doc:"Only this status."`
	Before string `query:"before" maxLength:"256" doc:"Continue after this run: the next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most runs of a page."`
}

type (
	runsOutput struct {
		Body struct {
			Runs []Run `json:"runs" nullable:"false"`
			// Next may come with a page that is short or empty: others' runs are left out.
			Next string `json:"next,omitempty" doc:"What before takes for the next page; absent on the last one."`
		}
	}
	runOutput       struct{ Body *Run }
	runReportOutput struct{ Body *RunReport }
)

type planInput struct {
	RunPath
	Body planRequest
}

type planRequest struct {
	Steps  []plannedStep `json:"steps" minItems:"1" maxItems:"1000" nullable:"false" doc:"The steps, in their order."`
	Tenant string        `json:"tenant,omitempty" doc:"The token's tenant, if it is named at all."`
}

type plannedStep struct {
	Step         string `json:"step" minLength:"1" maxLength:"256" doc:"The step that the call will name."`
	Tool         string `json:"tool" minLength:"1" maxLength:"256" doc:"The tool that it will call."`
	MayFail      bool   `json:"may_fail,omitempty" doc:"It may end without its effect, so that the run has to be undone."`
	Irreversible bool   `json:"irreversible,omitempty" doc:"What it did cannot be undone; also where the contract says so."`
}

type abortInput struct {
	RunPath
	Body abortRequest
}

type abortRequest struct {
	Why    string `json:"why" minLength:"1" maxLength:"2000" doc:"Why the run is called off."`
	Who    string `json:"who,omitempty" maxLength:"256" doc:"Who calls it off: the token's actor. Needed where the token has none."`
	Tenant string `json:"tenant,omitempty" doc:"The token's tenant, if it is named at all."`
}

func (d *door) addRuns() {
	register(d, route{who: forRead}, huma.Operation{
		OperationID: "runs", Method: http.MethodGet, Path: "/v1/runs", Summary: "List runs, newest first",
	}, d.runs)
	register(d, route{who: forRead}, huma.Operation{
		OperationID: "run", Method: http.MethodGet, Path: "/v1/runs/{run}", Summary: "Show a run and what has become of its operations",
	}, d.run)
	register(d, route{who: forCall}, huma.Operation{
		OperationID: "plan", Method: http.MethodPost, Path: "/v1/runs/{run}/plan", Summary: "Register a run's plan",
		Description: "Before the run's first call. From then on a call of the run must be a step of the plan. The same plan again changes nothing. " +
			"A plan that puts an irreversible step before one that may fail is refused, unless the server is told to warn.",
	}, d.plan)
	register(d, route{who: forCall}, huma.Operation{
		OperationID: "abort", Method: http.MethodPost, Path: "/v1/runs/{run}/abort", Summary: "Call a run off",
		Description: "When it is answered, no step of the run begins any more. What is in doubt is then settled and what happened is undone, the last " +
			"first, in the background; ask for the run to see how far it is. The same request again changes nothing.",
	}, d.abort)
}

// seesRun reports whether a run is for this principal.
func (p *Principal) seesRun(r *pawl.Run) bool {
	return r.Tenant == p.Tenant && (p.may(ScopeSettle) || r.Actor == p.Actor)
}

func (d *door) runs(ctx context.Context, in *runsInput) (*runsOutput, error) {
	s := sessionOf(ctx)
	found, err := d.store.FindRuns(ctx, pawl.RunQuery{
		Tenant: s.Tenant, Status: pawl.RunStatus(in.Status), Before: in.Before, BeforeTenant: s.Tenant, Limit: in.Limit + 1,
	})
	if err != nil {
		return nil, d.failed(ctx, "list runs", err)
	}
	var out runsOutput
	out.Body.Runs = []Run{}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		out.Body.Next = found[len(found)-1].ID
	}
	for _, r := range found {
		if s.seesRun(r) {
			out.Body.Runs = append(out.Body.Runs, runView(r))
		}
	}
	return &out, nil
}

func runView(r *pawl.Run) Run {
	v := Run{Run: r.ID, Status: r.Status, Tenant: r.Tenant, Actor: r.Actor, Created: r.Created.UTC(), Updated: r.Updated.UTC(), Abort: r.Abort}
	if r.Plan != nil {
		v.Steps, v.Warnings = r.Plan.Steps, r.Plan.Warnings
	}
	return v
}

func (d *door) run(ctx context.Context, in *RunPath) (*runReportOutput, error) {
	s := sessionOf(ctx)
	report, err := d.ex.RunReport(ctx, s.Tenant, in.Run)
	if err != nil {
		return nil, d.runFailed(ctx, "read run", err)
	}
	if !s.seesRun(report.Run) {
		return nil, otherActorsRun()
	}
	return &runReportOutput{reportView(s, report)}, nil
}

func otherActorsRun() *Problem {
	return problem(http.StatusForbidden, CodeOtherActor, "the run belongs to another actor")
}

func reportView(s *session, report *pawl.RunReport) *RunReport {
	v := &RunReport{Run: runView(report.Run), Items: []RunItem{}, Message: report.Message}
	for _, item := range report.Items {
		i := RunItem{Operation: item.Operation.String(), Tool: item.Tool, Status: item.Status, Outcome: item.Outcome}
		if s.may(ScopeSettle) || item.Actor == s.Actor {
			i.Step, i.Effect, i.Reason, i.Why = item.Step, item.Effect, item.Reason, item.Why
			i.Corrective, i.Leaves, i.CompensationStatus = item.Corrective, item.Leaves, item.CompensationStatus
			if item.Compensation != (pawl.ID{}) {
				i.Compensation = item.Compensation.String()
			}
		}
		v.Items = append(v.Items, i)
	}
	return v
}

func (d *door) plan(ctx context.Context, in *planInput) (*runOutput, error) {
	s := sessionOf(ctx)
	if err := d.mayChange(ctx, s, in.Run); err != nil {
		return nil, err
	}
	steps := make([]pawl.PlanStep, len(in.Body.Steps))
	for i, p := range in.Body.Steps {
		steps[i] = pawl.PlanStep(p)
	}
	r, err := d.ex.RegisterPlan(ctx, s.Tenant, s.Actor, in.Run, steps)
	if err != nil {
		return nil, d.runFailed(ctx, "register plan", err)
	}
	v := runView(r)
	return &runOutput{&v}, nil
}

func (d *door) abort(ctx context.Context, in *abortInput) (*runReportOutput, error) {
	s := sessionOf(ctx)
	who := strings.TrimSpace(in.Body.Who)
	switch {
	case s.Actor != "" && who != "" && who != s.Actor:
		return nil, problem(http.StatusForbidden, CodeOtherActor, "the request names another person than the token's actor")
	case s.Actor != "":
		who = s.Actor
	case who == "":
		return nil, invalid("body.who", "an abort names who calls the run off")
	}
	if strings.TrimSpace(in.Body.Why) == "" {
		return nil, invalid("body.why", "an abort says why the run is called off")
	}
	if err := d.mayChange(ctx, s, in.Run); err != nil {
		return nil, err
	}
	report, err := d.ex.Abort(ctx, s.Tenant, in.Run, pawl.Abort{Who: who, Why: in.Body.Why, Actor: s.Actor})
	if err != nil {
		return nil, d.runFailed(ctx, "abort run", err)
	}
	return &runReportOutput{reportView(s, report)}, nil
}

// mayChange refuses a run that another actor began.
func (d *door) mayChange(ctx context.Context, s *session, run string) error {
	r, err := d.store.GetRun(ctx, s.Tenant, run)
	switch {
	case errors.Is(err, pawl.ErrNotFound):
		return nil
	case err != nil:
		return d.runFailed(ctx, "read run", err)
	case !s.seesRun(r):
		return otherActorsRun()
	}
	return nil
}

func (d *door) runFailed(ctx context.Context, what string, err error) error {
	var bad *pawl.PlanError
	var call *pawl.CallError
	switch {
	case errors.Is(err, pawl.ErrNotFound):
		return problem(http.StatusNotFound, CodeNotFound, "there is no such run")
	case errors.As(err, &bad):
		return problem(http.StatusConflict, Code(bad.Code), "%s", bad.Error())
	case errors.As(err, &call):
		return invalid("path."+call.Field, "%s", call.Error())
	}
	return d.failed(ctx, what, err)
}
