package pawl

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"
)

// send uses the newest permit, or gives it back unsent when the lease or the turn has too
// little time left: the commit of the permit may have taken long.
func (f *flight) send(ctx context.Context) bool {
	op := f.current()
	if op.Token != f.token || !op.Status.Open() {
		return false // decided by someone else meanwhile: what is out is lost, nothing is sent
	}
	n := len(op.Attempts)
	c := op.Contract
	permit := op.Attempts[n-1]
	now := f.e.now(f.ctx)
	late := !f.end.IsZero() && permit.Kind != AttemptResend && time.Until(f.end) < c.MinTime && holds(deadlineBeforeSend)
	lapsing := (op.Lease.Sub(now) < f.e.opts.Lease/4 || now.Sub(permit.Permit) > c.Pause/2) && holds(leaseBeforeWrite)
	off := !op.Aborted.IsZero() && permit.Kind != AttemptResend && holds(abortStopsSteps)
	if late || lapsing || off || f.stopped() {
		return f.event(&Event{Kind: EventGiveBack, Attempt: n, Note: giveBackNote(late, lapsing, off)})
	}
	wait := c.Timeout
	if !f.end.IsZero() && time.Until(f.end) < wait && permit.Kind != AttemptResend {
		wait = time.Until(f.end)
	}
	f.waitFor = time.Now().Add(wait)
	attempt := newUntil(ctx, f.waitFor.Add(c.Linger))
	s := &Sending{Operation: f.asStored(op), Attempt: op.mayHaveReached(n) + 1, Permit: permit.Permit, Deadline: f.deadline}
	if s.Deadline.IsZero() || permit.Kind == AttemptResend && time.Until(s.Deadline) < wait {
		s.Deadline = f.waitFor
	}
	var handed *Permit
	if f.hand != nil && permit.Kind != AttemptResend {
		handed = &Permit{Attempt: n, Token: f.token, Deadline: f.waitFor}
	}
	f.outs = append(f.outs, out{attempt: n, until: f.waitFor.Add(c.Linger + giveUpGrace)})
	f.sending = func() answer {
		defer attempt.stop()
		if handed != nil {
			return answer{attempt: n, evidence: f.byCaller(attempt, s, handed)}
		}
		return answer{attempt: n, evidence: f.e.attempt(attempt, f.tool.Port, s, n)}
	}
	return true
}

// prompt is how long an attempt may take before another goroutine attends to its flight.
const prompt = 10 * time.Millisecond

// attempt makes the attempt that is due on the goroutine that drives the flight, which then
// takes the answer. If that takes longer than prompt, carryOn drives the flight meanwhile and
// attempt returns false: the answer has been delivered to it.
func (f *flight) attempt(carryOn func()) bool {
	var moved atomic.Bool // whoever sets it drives the flight from here on
	send := f.sending
	f.sending = nil
	watch := time.AfterFunc(prompt, func() {
		f.show()
		if moved.CompareAndSwap(false, true) {
			carryOn()
		}
	})
	defer watch.Stop()
	returned := false
	defer func() {
		if !returned && moved.CompareAndSwap(false, true) { // the port ended its goroutine
			go carryOn()
		}
	}()
	a := send()
	returned = true
	if !moved.CompareAndSwap(false, true) {
		f.deliver(&a)
		return false
	}
	f.take(&a)
	f.show()
	return true
}

func giveBackNote(late, lapsing, off bool) string {
	switch {
	case off:
		return "the run was called off"
	case late:
		return "too little time left in the turn"
	case lapsing:
		return "the lease was about to lapse"
	default:
		return "the executor stops"
	}
}

// deliver hands an answer to the flight, or to the record where the flight has stopped
// waiting for it.
func (f *flight) deliver(a *answer) {
	f.mu.Lock()
	late := f.abandoned[a.attempt]
	if !late {
		f.answers <- a // never blocks: there is room for every attempt
	}
	f.mu.Unlock()
	if !late {
		return
	}
	op, err := f.e.store.Get(f.ctx, f.current().Tenant, f.id)
	if err == nil {
		_, err = f.e.apply(f.ctx, op, &Event{
			Kind: EventAnswer, At: f.e.now(f.ctx), By: "worker " + f.e.opts.Worker, Token: f.token, Lease: op.Lease, Attempt: a.attempt, Evidence: &a.evidence,
		})
	}
	if err != nil {
		f.e.failed(f.ctx, "record a late answer", err, op)
	}
}

// mayHaveReached counts the permits before n that may have reached the provider.
func (op *Operation) mayHaveReached(n int) int {
	k := 0
	for _, a := range op.Attempts[:n-1] {
		if a.Class != ClassNotSent || !a.NoEffect {
			k++
		}
	}
	return k
}

// mayRetry reports whether a call that provably had no effect is tried again by itself.
func (f *flight) mayRetry(op *Operation) bool {
	if f.end.IsZero() || f.hand != nil || f.retries >= maxRetries || op.Reason == ReasonGivenBack || op.Reason == ReasonSnapshot || len(f.outs) > 0 || f.stopped() {
		return false
	}
	return f.caller.Err() == nil && len(op.Attempts) < op.Contract.MaxAttempts && time.Until(f.end) > f.retryPause(op)+op.Contract.MinTime
}

// retryPause grows with the operation's attempts and honours a provider's wish.
func (f *flight) retryPause(op *Operation) time.Duration {
	pause := 200 * time.Millisecond << min(len(op.Attempts), 6)
	if op.Reason == ReasonTransient {
		pause = max(pause, f.wished)
	}
	return pause
}

func (f *flight) retry(ctx context.Context, op *Operation) bool {
	f.retries++
	pause := f.retryPause(op)
	timer := time.NewTimer(pause/2 + spread(op, pause/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.caller.Done():
		return false
	case <-f.e.stopping:
		return false
	}
	f.replace(doubtful(op)) // whoever is told now is told while the permit is being written
	fresh, err := f.e.reopen(ctx, op)
	switch {
	case err == nil:
		f.token = fresh.Token
		f.replace(fresh)
		return f.start(ctx)
	case !mayBeWritten(err) && !errors.Is(err, ErrStale):
		f.replace(fresh) // someone else may have reopened it
	}
	return false
}

// spread is a time up to most that differs from operation to operation, so that retries do
// not come together. For one operation it is always the same: its schedule can be replayed.
func spread(op *Operation, most time.Duration) time.Duration {
	x := binary.BigEndian.Uint64(op.Key[8:]) * uint64(2*len(op.Attempts)+1)
	return time.Duration(x>>1) % (most + 1)
}

// doubtful is an operation as nobody knows it: a permit of a retry, or of another worker, may
// be on record, and then whoever finds it must take it for used.
func doubtful(op *Operation) *Operation {
	view := *op
	view.Status, view.Reason = Unknown, ReasonStore
	return &view
}

// move makes one step of the ladder.
func (f *flight) move(ctx context.Context, op *Operation, m Move) bool {
	switch m.Kind {
	case MoveReview:
		return f.event(&Event{Kind: EventReview, Reason: m.Why})
	case MoveQuiet:
		return f.event(&Event{Kind: EventQuiet})
	case MovePermit:
		return f.takeApproved(ctx, op)
	case MoveLapse:
		return f.event(&Event{Kind: EventLapse, Contract: f.tool.hash})
	case MoveResend:
		if !f.event(&Event{Kind: EventResend}) {
			return false
		}
		if len(f.current().Attempts) == len(op.Attempts) {
			return true // the rules said no
		}
		return f.send(ctx)
	case MoveFence:
		asked := f.e.now(f.ctx)
		r := ask(f, ctx, op, FenceResult{Outcome: FenceInconclusive, Error: "no answer in time"}, func(ctx context.Context, p Port, op *Operation) FenceResult {
			w := &Work{Kind: WorkFence, Operation: op}
			return observed(f.e, ctx, w, &w.Fence, func(ctx context.Context) FenceResult { return safeFence(ctx, p, op) })
		})
		return f.event(&Event{Kind: EventFence, Asked: asked, Fence: &r})
	default:
		asked := f.e.now(f.ctx)
		r := ask(f, ctx, op, ProbeResult{Outcome: Inconclusive, Error: "no answer in time"}, func(ctx context.Context, p Port, op *Operation) ProbeResult {
			w := &Work{Kind: WorkProbe, Operation: op}
			return observed(f.e, ctx, w, &w.Probe, func(ctx context.Context) ProbeResult { return safeProbe(ctx, p, op) })
		})
		return f.event(&Event{Kind: EventProbe, Asked: asked, Probe: &r})
	}
}

// ask puts a question to the port and keeps the lease alive meanwhile. It waits no longer
// than the contract's timeout and a grace, whatever the port does.
func ask[T any](f *flight, ctx context.Context, op *Operation, silence T, question func(context.Context, Port, *Operation) T) T {
	ctx, cancel := context.WithTimeout(ctx, op.Contract.Timeout)
	defer cancel()
	reply := make(chan T, 1)
	go func() { reply <- question(ctx, f.tool.Port, op) }()
	over := time.NewTimer(op.Contract.Timeout + giveUpGrace)
	defer over.Stop()
	renew := time.NewTimer(f.e.opts.Lease / 3)
	defer renew.Stop()
	abort := f.e.base.Done()
	for {
		select {
		case r := <-reply:
			return r
		case <-over.C:
			return silence
		case <-abort:
			abort = nil
			over.Reset(giveUpGrace)
		case <-renew.C:
			f.renew()
			renew.Reset(f.e.opts.Lease / 3)
		}
	}
}
