package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// Permit is the right to send one request, at most once.
type Permit struct {
	OperationID string            `json:"operation_id" pattern:"^op_[0-9a-f]{32}$"`
	Attempt     int               `json:"attempt" doc:"The number of the attempt that it is for."`
	Token       string            `json:"token" doc:"What the report must carry."`
	Key         string            `json:"key" doc:"The idempotency key: 32 hex digits. The request has it in the form that the provider takes."`
	Request     string            `json:"request" doc:"The exact request: method and URL, headers, an empty line, body; credentials by name only."`
	Header      map[string]string `json:"header" nullable:"false" doc:"Headers that the request must carry besides, such as the time after which the receiver refuses it."`
	Deadline    time.Time         `json:"deadline" doc:"Until when the report is waited for; after it the outcome is UNKNOWN."`
}

type permitOutput struct {
	Body struct {
		Permit   *Permit  `json:"permit,omitempty" doc:"Absent where the envelope answers already: then nothing may be sent."`
		Envelope envelope `json:"envelope"`
	}
}

type reportInput struct {
	OperationPath
	Body reportRequest
}

type reportRequest struct {
	Attempt int             `json:"attempt" minimum:"1" maximum:"100" doc:"The permit's."`
	Token   string          `json:"token" pattern:"^[0-9]{1,19}$" doc:"The permit's."`
	Outcome string          `json:"outcome" enum:"answer,not_sent,no_answer" doc:"answer: the provider answered, see answer. not_sent: not a byte was written. no_answer: anything else."`
	Answer  *providerAnswer `json:"answer,omitempty" doc:"What the provider answered, whole, with outcome answer."`
	Error   string          `json:"error,omitempty" maxLength:"1000" doc:"For people. Nothing is decided by it."`
	Tenant  string          `json:"tenant,omitempty" doc:"The token's tenant, if it is named at all."`
}

// providerAnswer is a provider's answer as a caller received it.
type providerAnswer struct {
	Status int               `json:"status" minimum:"200" maximum:"599"`
	Header map[string]string `json:"header,omitempty" doc:"The headers."`
	Body   string            `json:"body,omitempty" doc:"The body as text."`
}

func (d *door) addPermits() {
	register(d, route{who: forCall}, huma.Operation{
		OperationID: "permit", Method: http.MethodPost, Path: "/v1/permits", Summary: "Get the right to send a call's request oneself",
		Description: "For callers whose own client must send. With a permit, send its request at most once and report; without one the envelope answers. " +
			"Unless the contract declares a pause, nothing bounds when the request leaves, and then an outcome in doubt is sent again or taken for none only if the receiver enforces a not-after.",
	}, d.permit)
	register(d, route{who: forCall}, huma.Operation{
		OperationID: "report", Method: http.MethodPost, Path: "/v1/permits/{id}/report", Summary: "Report what became of a permit's request",
		Description: "The answer is the operation as it stands then. A report that comes late settles only if it proves the effect.",
	}, d.report)
}

func (d *door) permit(ctx context.Context, in *callInput) (*permitOutput, error) {
	call, ctx, end := in.turn(ctx)
	defer end()
	p, env, err := d.ex.Permit(ctx, call)
	if errors.Is(err, pawl.ErrNoPermits) {
		return nil, problem(http.StatusConflict, CodeNoPermits, "the tool's requests are sent by pawl alone")
	}
	d.unrecorded(ctx, &call, err)
	var out permitOutput
	out.Body.Envelope = envelope{&env}
	if p != nil {
		out.Body.Permit = &Permit{
			OperationID: p.Operation.String(), Attempt: p.Attempt, Token: strconv.FormatInt(p.Token, 10), Key: p.Key.String(),
			Request: string(p.Request), Header: map[string]string{}, Deadline: p.Deadline.UTC(),
		}
		maps.Copy(out.Body.Permit.Header, p.Header)
	}
	return &out, nil
}

func (d *door) report(ctx context.Context, in *reportInput) (*envelopeOutput, error) {
	s := sessionOf(ctx)
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	r, err := in.Body.report()
	if err != nil {
		return nil, err
	}
	env, err := d.ex.ReportPermit(context.WithoutCancel(ctx), s.Tenant, s.Actor, id, *r)
	switch {
	case errors.Is(err, pawl.ErrNoPermit):
		return nil, problem(http.StatusConflict, CodeNoPermit, "there is no such permit of this operation")
	case err != nil:
		return nil, d.failed(ctx, "record report", on(&pawl.Intent{ID: id}, err))
	}
	return &envelopeOutput{envelope{&env}}, nil
}

// report refuses what contradicts itself.
func (r *reportRequest) report() (*pawl.PermitReport, error) {
	token, err := strconv.ParseInt(r.Token, 10, 64)
	if err != nil {
		return nil, invalid("body.token", "want the permit's token")
	}
	if (r.Outcome == "answer") != (r.Answer != nil) {
		return nil, invalid("body.answer", "belongs to outcome answer, and only to it")
	}
	report := &pawl.PermitReport{Attempt: r.Attempt, Token: token, NotSent: r.Outcome == "not_sent", Error: r.Error}
	if r.Answer != nil {
		report.Answer = &pawl.Answer{Status: r.Answer.Status, Header: map[string][]string{}, Body: []byte(r.Answer.Body)}
		for name, value := range r.Answer.Header {
			report.Answer.Header[name] = []string{value}
		}
	}
	return report, nil
}
