package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// ReviewFilter selects what waits for a person.
type ReviewFilter struct {
	Tool   string `query:"tool" doc:"Only this tool."`
	Run    string `query:"run" doc:"Only this run."`
	Status string `query:"status" enum:"PREPARED,PENDING,SUCCEEDED,FAILED_NO_EFFECT,UNKNOWN,COMPENSATED" doc:"Only this status: PREPARED waits for a yes, UNKNOWN for somebody who finds out."`
	Reason string `query:"reason" pattern:"^[a-z_]{1,64}$" doc:"Only what a person is asked about for this reason: the review_reason of an operation."`
}

func (f *ReviewFilter) query(s *session) pawl.Query {
	return pawl.Query{Tenant: s.Tenant, Tool: f.Tool, Run: f.Run, Status: pawl.Status(f.Status), Review: true, ReviewReason: pawl.Reason(f.Reason)}
}

type reviewsInput struct {
	TenantQuery
	ReviewFilter
	Before string `query:"before" pattern:"^op_[0-9a-f]{32}$" doc:"Continue after this operation: the next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most items of a page."`
}

// Review is an operation as it is put to a person.
type Review struct {
	Operation Operation      `json:"operation"`
	LookFor   []pawl.LookFor `json:"look_for,omitempty" nullable:"false" doc:"By what the effect can be found at the provider."`
	SafeAt    time.Time      `json:"safe_at,omitzero" doc:"From when on a person may say that it did not happen."`
	KeyUntil  time.Time      `json:"key_until,omitzero" doc:"The end of the key's retention: nothing is sent again after it."`
	KeyLeftS  int64          `json:"key_left_s,omitempty" doc:"The seconds left until then; negative once it is over."`
	Expires   time.Time      `json:"expires,omitzero" doc:"Until when a yes is taken, or one that was given is good."`
	Approval  *Approval      `json:"approval,omitempty" doc:"What the sending waits for."`
	Order     pawl.Choice    `json:"order,omitempty" doc:"What a person has ordered and nobody has done yet."`
	Choices   []Offer        `json:"choices" nullable:"false" doc:"What can be decided, and why the rest cannot."`
}

// Approval is what the sending of an operation waits for.
type Approval struct {
	Persons    int      `json:"persons" doc:"How many people must say yes."`
	Yes        []Yes    `json:"yes,omitempty" nullable:"false" doc:"Who has said so."`
	LookAlikes []string `json:"look_alikes,omitempty" nullable:"false" doc:"The operations that this one looks like."`
}

// Yes is one person's or the host's word.
type Yes struct {
	Who       string    `json:"who"`
	At        time.Time `json:"at"`
	Reference string    `json:"reference,omitempty" doc:"The decider's own name for it."`
}

// Offer is a choice and why it cannot be made now.
type Offer struct {
	Choice pawl.Choice `json:"choice" enum:"approve,reject,withdraw,happened,did_not_happen,resend,fence,compensate,note"`
	Legal  bool        `json:"legal"`
	Code   Code        `json:"code,omitempty" doc:"Why it is not, for programs."`
	Why    string      `json:"why,omitempty" doc:"Why it is not, for people."`
	Waiver bool        `json:"waiver,omitempty" doc:"A waiver lets it through."`
}

func review(r *pawl.Review, now time.Time) Review {
	v := Review{
		Operation: summary(r.Operation), LookFor: r.LookFor, SafeAt: utc(r.SafeAt), KeyUntil: utc(r.KeyUntil), Expires: utc(r.Expires),
		Order: r.Operation.Order, Choices: []Offer{},
	}
	if !r.KeyUntil.IsZero() {
		v.KeyLeftS = int64(r.KeyUntil.Sub(now) / time.Second)
	}
	if a := r.Operation.Approval; a != nil {
		v.Approval = &Approval{Persons: a.Persons}
		for _, y := range a.Yes {
			v.Approval.Yes = append(v.Approval.Yes, Yes{y.Who, y.At.UTC(), y.Reference})
		}
		for _, id := range a.LookAlikes {
			v.Approval.LookAlikes = append(v.Approval.LookAlikes, id.String())
		}
	}
	for _, o := range r.Offers {
		v.Choices = append(v.Choices, Offer{o.Choice, o.Legal, Code(o.Code), o.Why, o.Waiver})
	}
	return v
}

type reviewsOutput struct {
	Body struct {
		Reviews []Review `json:"reviews" nullable:"false"`
		Next    string   `json:"next,omitempty" doc:"What before takes for the next page; absent on the last one."`
	}
}

type reviewOutput struct {
	Body struct {
		Review  Review       `json:"review"`
		Detail  *Detail      `json:"detail"`
		History []pawl.Entry `json:"history" nullable:"false" doc:"One entry for each change, oldest first."`
	}
}

func (d *door) addReviews() {
	register(d, route{who: forRead}, huma.Operation{
		OperationID: "reviews", Method: http.MethodGet, Path: "/v1/reviews", Summary: "List what waits for a person, newest first",
	}, d.reviews)
	register(d, route{who: forRead}, huma.Operation{
		OperationID: "review", Method: http.MethodGet, Path: "/v1/reviews/{id}", Summary: "Show an operation as it is put to a person",
		Description: "With its evidence, what to look for at the provider, and what can be decided. It need not wait for a person.",
	}, d.review)
	register(d, route{who: forSettle}, huma.Operation{
		OperationID: "preview", Method: http.MethodPost, Path: "/v1/reviews/preview", Summary: "Show what one decision about many would do",
		Description: "Freezes the set that a filter selects now: its items are what decide-many takes. Nothing is decided.",
	}, d.preview)
}

func (d *door) reviews(ctx context.Context, in *reviewsInput) (*reviewsOutput, error) {
	s := sessionOf(ctx)
	q := in.query(s)
	q.Limit = in.Limit + 1 // one more tells whether there are more
	if in.Before != "" {
		var err error
		if q.Before, err = pawl.ParseID(in.Before); err != nil {
			return nil, invalid("query.before", "want op_ and 32 hex digits")
		}
	}
	list, err := d.ex.Reviews(ctx, q)
	if err != nil {
		return nil, d.failed(ctx, "list reviews", err)
	}
	var out reviewsOutput
	out.Body.Reviews = []Review{}
	if len(list) > in.Limit {
		list = list[:in.Limit]
		out.Body.Next = list[len(list)-1].Operation.ID.String()
	}
	now := d.now(ctx)
	for _, r := range list {
		if s.sees(r.Operation) {
			out.Body.Reviews = append(out.Body.Reviews, review(r, now))
		}
	}
	return &out, nil
}

func (d *door) review(ctx context.Context, in *OperationPath) (*reviewOutput, error) {
	op, err := d.get(ctx, in)
	if err != nil {
		return nil, err
	}
	s := sessionOf(ctx)
	if !s.sees(op) {
		return nil, problem(http.StatusForbidden, CodeOtherActor, "the operation is for its own actor and for tokens with the scope settle")
	}
	var out reviewOutput
	now := d.now(ctx)
	out.Body.Review = review(pawl.NewReview(op, now), now)
	if out.Body.Detail, err = d.detail(ctx, s, op); err != nil {
		return nil, err
	}
	if out.Body.History, err = d.store.History(ctx, op.Tenant, op.ID); err != nil {
		return nil, d.failed(ctx, "read history", on(&op.Intent, err))
	}
	return &out, nil
}

type previewInput struct {
	TenantQuery
	Body previewRequest
}

type previewRequest struct {
	Choice pawl.Choice `json:"choice" enum:"approve,reject,withdraw,happened,did_not_happen,resend,fence,compensate,note" doc:"What would be decided."`
	Who    string      `json:"who,omitempty" maxLength:"256" doc:"Who would decide: the token's actor. Needed where the token has none."`
	Tool   string      `json:"tool,omitempty" doc:"Only this tool."`
	Run    string      `json:"run,omitempty" doc:"Only this run."`
	Status string      `json:"status,omitempty" enum:"PREPARED,PENDING,SUCCEEDED,FAILED_NO_EFFECT,UNKNOWN,COMPENSATED" doc:"Only this status."`
	Reason string      `json:"reason,omitempty" pattern:"^[a-z_]{1,64}$" doc:"Only what a person is asked about for this reason."`
	Tenant string      `json:"tenant,omitempty" doc:"The token's tenant, if it is named at all."`
}

// Previewed is one operation of a set.
type Previewed struct {
	ID      string      `json:"id"`
	Version int64       `json:"version"`
	Tool    string      `json:"tool"`
	Status  pawl.Status `json:"status"`
	Effect  string      `json:"effect"`
	Legal   bool        `json:"legal"`
	Code    Code        `json:"code,omitempty" doc:"Why it would be refused."`
}

type previewOutput struct {
	Body struct {
		Count int         `json:"count" doc:"How many operations the filter selects."`
		Legal int         `json:"legal" doc:"About how many of them the decision would be taken."`
		More  bool        `json:"more,omitempty" doc:"The filter selects more than the 1000 that are listed."`
		Items []Previewed `json:"items" nullable:"false"`
	}
}

// maxMany bounds the operations of one decision about many.
const maxMany = 1000

func (d *door) preview(ctx context.Context, in *previewInput) (*previewOutput, error) {
	s := sessionOf(ctx)
	what := Said{Choice: in.Body.Choice, Who: in.Body.Who, Why: "preview", Tenant: in.Body.Tenant}
	decision, err := what.decision(s)
	if err != nil {
		return nil, err
	}
	filter := ReviewFilter{Tool: in.Body.Tool, Run: in.Body.Run, Status: in.Body.Status, Reason: in.Body.Reason}
	q := filter.query(s)
	var out previewOutput
	out.Body.Items = []Previewed{}
	now := d.now(ctx)
	for q.Limit = 200; ; {
		ops, err := d.store.Find(ctx, q)
		if err != nil {
			return nil, d.failed(ctx, "list reviews", err)
		}
		if out.Body.Count == maxMany {
			out.Body.More = len(ops) > 0
			break
		}
		for _, op := range ops {
			decision.Version = op.Version
			v := Previewed{ID: op.ID.String(), Version: op.Version, Tool: op.Tool, Status: op.Status, Effect: op.Effect, Legal: true}
			if r := pawl.Try(op, decision, now); r != nil {
				v.Legal, v.Code = false, Code(r.Why)
			} else {
				out.Body.Legal++
			}
			out.Body.Items = append(out.Body.Items, v)
		}
		out.Body.Count = len(out.Body.Items)
		if len(ops) < q.Limit {
			break
		}
		q.Before = ops[len(ops)-1].ID
	}
	return &out, nil
}
