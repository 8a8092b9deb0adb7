package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// Said is what a decision says beside the operation and its version: pawl.Decision as a
// person or a host sends it.
type Said struct {
	ID        string          `json:"id,omitempty" minLength:"1" maxLength:"256" doc:"Names the decision: sent again with the same content it changes nothing and has the same answer; with other content it is refused."`
	Choice    pawl.Choice     `json:"choice" enum:"approve,reject,withdraw,happened,did_not_happen,resend,fence,compensate,note" doc:"What is decided."`
	Why       string          `json:"why" minLength:"1" maxLength:"2000" doc:"How the person knows, or why it is wanted."`
	Who       string          `json:"who,omitempty" maxLength:"256" doc:"Who decides: the token's actor. Needed where the token has none."`
	Ref       string          `json:"ref,omitempty" maxLength:"256" doc:"The provider's id of an effect that happened."`
	Result    json.RawMessage `json:"result,omitempty" doc:"The provider's result of an effect that happened."`
	Waiver    string          `json:"waiver,omitempty" maxLength:"2000" doc:"Why it is true before its time that nothing happened."`
	Reference string          `json:"reference,omitempty" maxLength:"256" doc:"The decider's own name for the decision, such as the id of a ticket."`
	Tenant    string          `json:"tenant,omitempty" doc:"The token's tenant, if it is named at all."`
}

type decisionInput struct {
	OperationPath
	Body decisionRequest
}

type decisionRequest struct {
	Said
	Version int64 `json:"version" minimum:"1" doc:"The version of the operation that the person looked at."`
}

func (d *door) addDecisions() {
	register(d, route{who: forSettle}, huma.Operation{
		OperationID: "decide", Method: http.MethodPost, Path: "/v1/reviews/{id}/decisions", Summary: "Decide about an operation",
		Description: "Records a decision of a person, or of the host application by its own rules, together with its consequence. A decision that " +
			"the rules do not allow is 409 with the rule as code; with code version, the operation has changed since the person looked.",
	}, d.decide)
	register(d, route{who: forSettle}, huma.Operation{
		OperationID: "decide-many", Method: http.MethodPost, Path: "/v1/reviews/decisions", Summary: "Decide about many operations",
		Description: "Makes one decision about each operation that is listed, as a preview showed it. Each is recorded by itself; the answer says " +
			"of each what became of it. The same request again changes nothing.",
	}, d.decideMany)
}

func (d *door) decide(ctx context.Context, in *decisionInput) (*envelopeOutput, error) {
	s := sessionOf(ctx)
	decision, err := in.Body.decision(s)
	if err != nil {
		return nil, err
	}
	decision.Version = in.Body.Version
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	env, err := d.ex.Decide(ctx, s.Tenant, id, *decision)
	if p := d.refused(ctx, id, err); p != nil {
		return nil, p
	}
	if err != nil {
		return nil, d.failed(ctx, "decide about operation", on(&pawl.Intent{ID: id}, err))
	}
	return &envelopeOutput{envelope{&env}}, nil
}

// refused is the problem for a decision that the rules do not take; nil where it is no such.
func (d *door) refused(ctx context.Context, id pawl.ID, err error) *Problem {
	var refused *pawl.Refusal
	if !errors.As(err, &refused) {
		return nil
	}
	if refused.Why != pawl.RefusedVersion {
		return problem(http.StatusConflict, Code(refused.Why), "%s", refused.Error())
	}
	p := problem(http.StatusConflict, Code(refused.Why), "the operation has changed since: look at it again")
	if now, err := d.store.Get(ctx, sessionOf(ctx).Tenant, id); err == nil {
		p.Version = now.Version
	}
	return p
}

// decision refuses what leaves something open.
func (r *Said) decision(s *session) (*pawl.Decision, error) {
	who := strings.TrimSpace(r.Who)
	switch {
	case s.Actor != "" && who != "" && who != s.Actor:
		return nil, problem(http.StatusForbidden, CodeOtherActor, "the decision names another person than the token's actor")
	case s.Actor != "":
		who = s.Actor
	case who == "":
		return nil, invalid("body.who", "a decision names who decides")
	}
	if strings.TrimSpace(r.Why) == "" {
		return nil, invalid("body.why", "a decision says how the person knows")
	}
	d := &pawl.Decision{
		ID: r.ID, Choice: r.Choice, Who: who, Why: r.Why, Ref: r.Ref, Result: r.Result, Waiver: r.Waiver, Reference: r.Reference,
	}
	if field, what := d.Fault(); field != "" {
		return nil, invalid("body."+field, "%s", what)
	}
	return d, nil
}

type decideManyInput struct {
	TenantQuery
	Body decideManyRequest
}

type decideManyRequest struct {
	Said
	Items []decidedItem `json:"items" minItems:"1" maxItems:"1000" nullable:"false" doc:"The operations, as a preview listed them."`
}

// decidedItem names one operation as a person saw it.
type decidedItem struct {
	ID      string `json:"id" pattern:"^op_[0-9a-f]{32}$"`
	Version int64  `json:"version" minimum:"1"`
}

// Decided is what became of one decision of many.
type Decided struct {
	ID string `json:"id"`
	OK bool   `json:"ok" doc:"The decision is recorded, now or by an earlier request."`
	// Status is the operation's, where the decision is recorded.
	Status pawl.Status `json:"status,omitempty"`
	Code   Code        `json:"code,omitempty" doc:"Why it is not, for programs."`
	Detail string      `json:"detail,omitempty" doc:"Why it is not, for people."`
}

type decideManyOutput struct {
	Body struct {
		Results []Decided `json:"results" nullable:"false" doc:"One for each item, in their order."`
	}
}

func (d *door) decideMany(ctx context.Context, in *decideManyInput) (*decideManyOutput, error) {
	s := sessionOf(ctx)
	if in.Body.ID == "" {
		return nil, invalid("body.id", "many decisions need an id, so that the request can be repeated")
	}
	decision, err := in.Body.decision(s)
	if err != nil {
		return nil, err
	}
	ids := make([]pawl.ID, len(in.Body.Items))
	for i, item := range in.Body.Items {
		if ids[i], err = pawl.ParseID(item.ID); err != nil {
			return nil, invalid("body.items", "want op_ and 32 hex digits")
		}
	}
	var out decideManyOutput
	out.Body.Results = make([]Decided, len(ids))
	for i, item := range in.Body.Items {
		r := &out.Body.Results[i]
		r.ID = item.ID
		one := *decision
		one.Version = item.Version
		env, err := d.ex.Decide(ctx, s.Tenant, ids[i], one)
		if err == nil {
			r.OK, r.Status = true, env.Status
			continue
		}
		p := d.refused(ctx, ids[i], err)
		if p == nil && !errors.As(d.failed(ctx, "decide about operation", on(&pawl.Intent{ID: ids[i]}, err)), &p) {
			return nil, err
		}
		r.Code, r.Detail = p.Code, p.Detail
	}
	return &out, nil
}
