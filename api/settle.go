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

type settleInput struct {
	OperationPath
	Body settleRequest
}

// settleRequest is a decision: pawl.Decision as a person sends it.
type settleRequest struct {
	Version  int64           `json:"version" minimum:"1" doc:"The version of the operation that the person looked at."`
	Happened bool            `json:"happened" doc:"The effect exists; otherwise it does not and cannot come any more."`
	Why      string          `json:"why" minLength:"1" maxLength:"2000" doc:"How the person knows."`
	Who      string          `json:"who,omitempty" maxLength:"256" doc:"Who decides: the token's actor. Needed where the token has none."`
	Ref      string          `json:"ref,omitempty" maxLength:"256" doc:"The provider's id of an effect that happened."`
	Result   json.RawMessage `json:"result,omitempty" doc:"The provider's result of an effect that happened."`
	Waiver   string          `json:"waiver,omitempty" maxLength:"2000" doc:"Why it is true before its time that nothing happened."`
	Tenant   string          `json:"tenant,omitempty" doc:"The token's tenant, if it is named at all."`
}

func (d *door) addSettle() {
	register(d, route{who: forSettle}, huma.Operation{
		OperationID: "settle", Method: http.MethodPost, Path: "/v1/operations/{id}/settle", Summary: "Record what a person found out",
		Description: "Decides an operation that is UNKNOWN. A decision that the rules do not allow is 409 with the rule as code; " +
			"with code version, the operation has changed since the person looked.",
	}, d.settle)
}

func (d *door) settle(ctx context.Context, in *settleInput) (*envelopeOutput, error) {
	s := sessionOf(ctx)
	decision, err := in.Body.decision(s)
	if err != nil {
		return nil, err
	}
	op, err := d.get(ctx, &in.OperationPath)
	if err != nil {
		return nil, err
	}
	env, err := d.ex.Settle(ctx, s.Tenant, op.ID, *decision)
	var refused *pawl.Refusal
	if errors.As(err, &refused) && refused.Why == pawl.RefusedVersion {
		p := problem(http.StatusConflict, Code(refused.Why), "the operation has changed since: look at it again")
		if now, err := d.store.Get(ctx, s.Tenant, op.ID); err == nil {
			p.Version = now.Version
		}
		return nil, p
	}
	if err != nil {
		return nil, d.failed(ctx, "settle operation", err)
	}
	return &envelopeOutput{envelope{&env}}, nil
}

// decision refuses what leaves something open.
func (r *settleRequest) decision(s *session) (*pawl.Decision, error) {
	who := strings.TrimSpace(r.Who)
	switch {
	case s.Actor != "" && who != "" && who != s.Actor:
		return nil, problem(http.StatusForbidden, CodeOtherActor, "the decision names another person than the token's actor")
	case s.Actor != "":
		who = s.Actor
	case who == "":
		return nil, invalid("body.who", "a decision names who decides")
	}
	switch {
	case strings.TrimSpace(r.Why) == "":
		return nil, invalid("body.why", "a decision says how the person knows")
	case !r.Happened && r.Ref != "":
		return nil, invalid("body.ref", "belongs to an effect that happened")
	case !r.Happened && r.Result != nil:
		return nil, invalid("body.result", "belongs to an effect that happened")
	case r.Happened && r.Waiver != "":
		return nil, invalid("body.waiver", "belongs to an effect that did not happen")
	}
	return &pawl.Decision{Happened: r.Happened, Who: who, Why: r.Why, Ref: r.Ref, Result: r.Result, Waiver: r.Waiver, Version: r.Version}, nil
}
