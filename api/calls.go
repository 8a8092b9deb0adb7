package api

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// Intention is what a call wants and where in a plan: all that its identity can rest on.
type Intention struct {
	Tool      string `json:"tool" doc:"The tool's name."`
	Args      object `json:"args,omitzero" doc:"The arguments as the model wrote them."`
	Run       string `json:"run,omitempty" doc:"The run, from the host application and never from the model."`
	ParentRun string `json:"parent_run,omitempty" doc:"The run's parent, for tools with that scope."`
	Step      string `json:"step,omitempty" doc:"The step of the run; without one the whole run is the scope."`
	Tenant    string `json:"tenant,omitempty" doc:"The token's tenant, if it is named at all."`
}

func (i *Intention) call(s *session) pawl.Call {
	return pawl.Call{
		Tool: i.Tool, Args: i.Args.RawMessage, Run: i.Run, ParentRun: i.ParentRun, Step: i.Step, Tenant: s.Tenant, Actor: s.Actor,
	}
}

// TenantQuery is the tenant in a query.
type TenantQuery struct {
	Tenant string `query:"tenant" doc:"The token's tenant, if it is named at all."`
}

type callInput struct {
	TenantQuery
	Trace string `header:"traceparent" doc:"The W3C trace context of the caller; one that cannot be read is ignored."`
	Body  callRequest
}

type callRequest struct {
	Intention
	Again      bool              `json:"again,omitempty" doc:"The host's word that an effect which this run had is wanted once more, at this new step."`
	DeadlineMS int64             `json:"deadline_ms,omitempty" minimum:"1" maximum:"600000" doc:"How many milliseconds are left of the caller's turn; without it, the server's own length of a turn."`
	Attributes map[string]string `json:"attributes,omitempty" doc:"Labels for the record, such as a tool-call id. Never identity."`
}

type envelopeOutput struct{ Body envelope }

func (d *door) addCalls() {
	register(d, route{who: forCall}, huma.Operation{
		OperationID: "call", Method: http.MethodPost, Path: "/v1/calls", Summary: "Have the effect of a call happen once",
		Description: "The answer comes inside the turn. Every business outcome is 200 with the envelope, refusals included. The same call again sends nothing.",
	}, d.call)
}

// turn is the call that a request makes, in a turn of its own: a caller that hangs up ends
// nothing. end releases what belongs to the turn.
func (in *callInput) turn(ctx context.Context) (call pawl.Call, _ context.Context, end context.CancelFunc) {
	s := sessionOf(ctx)
	call = in.Body.call(s)
	call.Again, call.Attributes, call.Trace = in.Body.Again, in.Body.Attributes, in.Trace
	ctx = context.WithoutCancel(ctx)
	if left := in.Body.DeadlineMS; left > 0 {
		ctx, end = context.WithDeadline(ctx, s.arrived.Add(milliseconds(left)))
		return call, ctx, end
	}
	return call, ctx, func() {}
}

func (d *door) call(ctx context.Context, in *callInput) (*envelopeOutput, error) {
	call, ctx, end := in.turn(ctx)
	defer end()
	env, err := d.ex.Do(ctx, call)
	d.unrecorded(ctx, &call, err)
	return &envelopeOutput{envelope{&env}}, nil
}

// unrecorded logs a call that could not be recorded. Its envelope is true all the same, and
// says what to do.
func (d *door) unrecorded(ctx context.Context, call *pawl.Call, err error) {
	if err != nil {
		d.opts.Log.LogAttrs(ctx, slog.LevelError, "call could not be recorded", slog.Any("error", err), about(on(&pawl.Intent{Tool: call.Tool, Run: call.Run}, err)))
	}
}
