package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
)

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Operation is one operation in a list. What it does not have is left out; to others than
// its actor, so is everything from Effect on.
type Operation struct {
	ID      string      `json:"id" pattern:"^op_[0-9a-f]{32}$"`
	Tool    string      `json:"tool"`
	Status  pawl.Status `json:"status" enum:"PREPARED,PENDING,SUCCEEDED,FAILED_NO_EFFECT,UNKNOWN,COMPENSATED"`
	Version int64       `json:"version" doc:"What a decision must name, so that nobody decides on an older state."`
	Created time.Time   `json:"created"`
	Updated time.Time   `json:"updated"`

	Effect       string         `json:"effect,omitempty" doc:"The effect in words."`
	Reason       pawl.Reason    `json:"reason,omitempty"`
	Tenant       string         `json:"tenant,omitempty"`
	Actor        string         `json:"actor,omitempty"`
	Run          string         `json:"run,omitempty"`
	ParentRun    string         `json:"parent_run,omitempty"`
	Step         string         `json:"step,omitempty"`
	Scope        pawl.Scope     `json:"scope,omitempty" enum:"step,run,parent_run,business"`
	Generation   int            `json:"generation,omitempty"`
	Key          string         `json:"key,omitempty" doc:"The idempotency key: 32 hex digits."`
	Attempts     int            `json:"attempts,omitempty"`
	SettledBy    pawl.SettledBy `json:"settled_by,omitempty"`
	Ref          string         `json:"ref,omitempty" doc:"The provider's own id of the effect."`
	Review       time.Time      `json:"review,omitzero" doc:"Since when a person is asked."`
	ReviewReason pawl.Reason    `json:"review_reason,omitempty"`
	Due          time.Time      `json:"due,omitzero" doc:"When it moves next by itself."`
}

// outline is what everybody in the tenant may know.
func outline(op *pawl.Operation) Operation {
	return Operation{
		ID: op.ID.String(), Tool: op.Tool, Status: op.Status, Version: op.Version, Created: op.Created.UTC(), Updated: op.Updated.UTC(),
	}
}

func summary(op *pawl.Operation) Operation {
	s := outline(op)
	s.Effect, s.Reason, s.Tenant, s.Actor = op.Effect, op.Reason, op.Tenant, op.Actor
	s.Run, s.ParentRun, s.Step, s.Scope, s.Generation = op.Run, op.ParentRun, op.Step, op.Scope, op.Gen
	s.Key, s.Attempts, s.SettledBy, s.Ref = op.Key.String(), len(op.Attempts), op.SettledBy, op.Ref
	s.Review, s.ReviewReason, s.Due = utc(op.Review), op.ReviewReason, utc(op.Due)
	return s
}

// utc keeps the zero time zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// Detail is one operation with everything but its history.
type Detail struct {
	Operation Operation `json:"operation"`
	Envelope  envelope  `json:"envelope"`
	// SafeAt is the time after which no request of ours can land or be invisible any more.
	SafeAt       time.Time         `json:"safe_at,omitzero" doc:"From when on a person may say that it did not happen."`
	Args         json.RawMessage   `json:"args,omitempty" doc:"The canonical arguments."`
	Identity     json.RawMessage   `json:"identity,omitempty" doc:"The canonical identity."`
	Request      string            `json:"request,omitempty" doc:"What is sent, credentials by name only."`
	Before       json.RawMessage   `json:"before,omitempty" doc:"The state read before the first attempt."`
	Attributes   map[string]string `json:"attributes,omitempty"`
	ContractHash string            `json:"contract_hash,omitempty"`
	Attempts     []pawl.Attempt    `json:"attempts,omitempty" nullable:"false"`
}

// detail shows an operation as far as the session may see it.
func (d *door) detail(ctx context.Context, s *session, op *pawl.Operation) (*Detail, error) {
	if !s.sees(op) {
		env, err := d.ex.Status(ctx, s.Tenant, s.Actor, op.ID)
		if err != nil {
			return nil, d.failed(ctx, "read operation", on(&op.Intent, err))
		}
		return &Detail{Operation: outline(op), Envelope: envelope{&env}}, nil
	}
	env := pawl.Report(op, d.now(ctx))
	v := &Detail{
		Operation: summary(op), Envelope: envelope{env}, Args: op.Args, Identity: op.Identity, Request: string(op.Request),
		Before: op.Before, Attributes: op.Attributes, ContractHash: op.ContractHash, Attempts: op.Attempts,
	}
	if op.Contract != nil {
		v.SafeAt = op.SafeAt().UTC()
	}
	return v, nil
}

// now is the store's clock, or ours where the store does not say.
func (d *door) now(ctx context.Context) time.Time {
	if now, err := d.store.Now(ctx); err == nil {
		return now
	}
	return time.Now()
}
