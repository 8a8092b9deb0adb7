package pawl

import (
	"context"
	"fmt"
	"log/slog"
)

// Work is a piece of work with a beginning and an end, as observers see it: a call, one
// exchange with a provider, or what the sweeper does for one operation.
type Work struct {
	Kind WorkKind
	// Call is what was called for, where Kind is WorkCall.
	Call *Call
	// Operation is what the exchange is about, as it was when the work began. A call has it
	// once it is over: the operation that it was answered from, nil where there is none. A
	// reconcile has it as it began, and once it is over as it is left. A read has one that
	// nobody records, without id and key.
	Operation *Operation
	// Attempt is the number of the attempt, 0 where the work is none.
	Attempt int

	// What came of it: Envelope and Err of a call, Evidence of an attempt or a resend, Probe
	// of a probe, Fence of a fence, Err of a snapshot.
	Envelope *Envelope
	Evidence *Evidence
	Probe    *ProbeResult
	Fence    *FenceResult
	Err      error
}

// WorkKind names a kind of work.
type WorkKind string

const (
	WorkCall     WorkKind = "call"     // Executor.Do, from the call to its envelope
	WorkAttempt  WorkKind = "attempt"  // Port.Send under a first permit or a retry's, or of a read
	WorkResend   WorkKind = "resend"   // Port.Send under a resend's permit
	WorkProbe    WorkKind = "probe"    // Prober.Probe
	WorkFence    WorkKind = "fence"    // Fencer.Fence
	WorkSnapshot WorkKind = "snapshot" // Snapshotter.Snapshot
	// WorkReconcile is what the sweeper does for one operation under one lease; its exchanges
	// are inside it.
	WorkReconcile WorkKind = "reconcile"
)

// began tells the observers that work begins. What it returns tells them that it is over.
func (e *Executor) began(ctx context.Context, w *Work) (context.Context, func()) {
	var ends []func()
	e.observe(func(o *Observer) {
		if o.Began == nil {
			return
		}
		inner, end := o.Began(ctx, w)
		if inner != nil {
			ctx = inner
		}
		if end != nil {
			ends = append(ends, end)
		}
	})
	return ctx, func() {
		for _, end := range ends {
			e.guard(end)
		}
	}
}

// guard runs what belongs to an observer; a panic is logged and changes nothing.
func (e *Executor) guard(told func()) {
	defer func() {
		if r := recover(); r != nil {
			e.opts.Log.Error("observer panicked", slog.String("type", fmt.Sprintf("%T", r)))
		}
	}()
	told()
}

// attempt is one request on the wire, told to the observers.
func (e *Executor) attempt(ctx context.Context, p Port, s *Sending, n int) Evidence {
	if !e.watched {
		return safeSend(ctx, p, s)
	}
	w := &Work{Kind: WorkAttempt, Operation: s.Operation, Attempt: n}
	if i := n - 1; i < len(s.Operation.Attempts) && s.Operation.Attempts[i].Kind == AttemptResend {
		w.Kind = WorkResend
	}
	return observed(e, ctx, w, &w.Evidence, func(ctx context.Context) Evidence { return safeSend(ctx, p, s) })
}

// observed puts a question to a port and files the answer in the work, told to the observers.
func observed[T any](e *Executor, ctx context.Context, w *Work, file **T, question func(context.Context) T) T {
	if !e.watched {
		return question(ctx)
	}
	ctx, over := e.began(ctx, w)
	answer := question(ctx)
	*file = &answer
	over()
	return answer
}
