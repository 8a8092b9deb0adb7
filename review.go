package pawl

import (
	"context"
	"errors"
	"time"
)

// Review is an operation as it is put to a person: why, what is known, what to look for,
// how much time is left, and what can be decided.
type Review struct {
	Operation *Operation
	// Since is the time since when a person is asked, Reason why; zero and empty where nobody
	// is asked (any more).
	Since  time.Time
	Reason Reason
	// LookFor says what to look for at the provider.
	LookFor []LookFor
	// SafeAt is the time after which no request of ours can land or be invisible any more.
	SafeAt time.Time
	// KeyUntil is the end of the key's retention counted from the first permit; zero where
	// there is none. After it nothing may be sent again.
	KeyUntil time.Time
	// Expires is the time until which a yes is taken, or until which one that was given is
	// good; zero where none is waited for.
	Expires time.Time
	// Offers are the choices, legal or not.
	Offers []Offer
}

// LookFor is one thing by which the effect can be found at the provider.
type LookFor struct {
	What  string `json:"what" doc:"Such as identity, idempotency key, sent from."`
	Value string `json:"value"`
}

// NewReview puts an operation to a person at a time of the store's clock.
func NewReview(op *Operation, now time.Time) *Review {
	r := &Review{Operation: op, Since: op.Review, Reason: op.ReviewReason}
	if op.Contract == nil {
		return r // the row failed its check: nothing in it can be relied on
	}
	r.Offers = Offers(op, now)
	if op.Status == Prepared && op.Approval != nil {
		r.Expires = op.Approval.Expires
		if !op.Approval.Until.IsZero() {
			r.Expires = op.Approval.Until
		}
		return r
	}
	if len(op.Attempts) == 0 {
		return r
	}
	r.SafeAt = op.SafeAt()
	first, last := op.Attempts[0].Permit, op.Attempts[len(op.Attempts)-1].Permit
	if op.Contract.Class == Keyed && op.Contract.Retention > 0 {
		r.KeyUntil = first.Add(op.Contract.Retention)
	}
	add := func(what, value string) {
		if value != "" {
			r.LookFor = append(r.LookFor, LookFor{what, value})
		}
	}
	add("effect", op.Effect)
	add("identity", string(op.Identity))
	if op.Contract.Class == Keyed {
		add("idempotency key", op.Key.String())
	}
	add("reference", op.Ref)
	add("sent from", first.UTC().Format(time.RFC3339))
	add("sent until", later(last, op.lastPermit()).Add(op.Contract.Flight+op.Contract.Landing).UTC().Format(time.RFC3339))
	return r
}

// Review puts one operation to a person. The error is ErrNotFound or the store's.
func (e *Executor) Review(ctx context.Context, tenant string, id ID) (*Review, error) {
	op, err := e.store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return NewReview(op, e.now(ctx)), nil
}

// Reviews lists what waits for a person, newest first, as far as q selects it.
func (e *Executor) Reviews(ctx context.Context, q Query) ([]*Review, error) {
	q.Review = true
	ops, err := e.store.Find(ctx, q)
	if err != nil {
		return nil, err
	}
	now := e.now(ctx)
	list := make([]*Review, len(ops))
	for i, op := range ops {
		list[i] = NewReview(op, now)
	}
	return list, nil
}

// Try says what Step would say to a decision about an operation at a time, and changes
// nothing: the preview of a decision about many.
func Try(op *Operation, d *Decision, now time.Time) *Refusal {
	if op.Contract == nil {
		return &Refusal{Event: EventDecide, Status: op.Status, Why: RefusedStatus, Detail: "its row failed its check"}
	}
	_, err := Step(op, &Event{Kind: EventDecide, At: now, Decision: d})
	var r *Refusal
	errors.As(err, &r)
	return r
}
