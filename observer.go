package pawl

import (
	"context"
	"time"
)

// Observer is told what the executor does. Any function may be nil. Functions are
// called on the executor's goroutines and must return quickly and never call back into
// the executor. They see operations after the change is durable and must not alter them.
type Observer struct {
	// Changed: one transition was written.
	Changed func(ctx context.Context, op *Operation, entry *Entry)
	// Answered: a call got its envelope, took after it was made.
	Answered func(ctx context.Context, call *Call, env *Envelope, took time.Duration)
	// Refused: a call was answered without an operation of its own.
	Refused func(ctx context.Context, call *Call, env *Envelope)
	// Replayed: a call was answered from an earlier operation's record.
	Replayed func(ctx context.Context, call *Call, op *Operation)
	// Alarm: a contract or the record turned out wrong and a person must look.
	Alarm func(ctx context.Context, op *Operation, what Alarm)
	// Failed: a background step could not be done; it is tried again.
	Failed func(ctx context.Context, what string, err error)
	// Swept: the sweeper has looked, and claimed all that was due.
	Swept func(ctx context.Context)
	// Began: work begins. What it returns may be nil: the context that the work goes on in,
	// made from ctx, and a function that is told, once, that the work is over.
	Began func(ctx context.Context, w *Work) (context.Context, func())
}

// Alarm names something that must never happen and did.
type Alarm string

const (
	// AlarmConflict: proof of the effect against a standing FAILED_NO_EFFECT.
	AlarmConflict Alarm = "success_after_no_effect"
	// AlarmKeyMismatch: the provider holds our key with other parameters.
	AlarmKeyMismatch Alarm = "key_mismatch"
	// AlarmDuplicate: the provider shows more than one effect.
	AlarmDuplicate Alarm = "duplicate_seen"
	// AlarmStaleEvidence: evidence came under a lease that is over; it was kept.
	AlarmStaleEvidence Alarm = "stale_evidence"
)
