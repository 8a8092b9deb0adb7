package pawl

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// send uses the newest permit, or gives it back unsent when the claim or the turn has too
// little time left: the commit of the permit may have taken long.
func (f *flight) send(ctx context.Context) bool {
	op := f.current()
	n := len(op.Attempts)
	c := op.Contract
	kind := op.Attempts[n-1].Kind
	now := f.e.now(f.ctx)
	late := !f.end.IsZero() && kind != AttemptResend && time.Until(f.end) < c.MinTime
	lapsing := op.Lease.Sub(now) < f.e.opts.Lease/4 || now.Sub(op.Attempts[n-1].Permit) > c.Pause/2
	if late || lapsing || f.stopped() {
		return f.event(&Event{Kind: EventGiveBack, Attempt: n, Note: giveBackNote(late, lapsing)})
	}
	wait := c.Timeout
	if !f.end.IsZero() && time.Until(f.end) < wait && kind != AttemptResend {
		wait = time.Until(f.end)
	}
	f.waitFor = time.Now().Add(wait)
	attempt, cancel := context.WithTimeout(ctx, wait+c.Linger)
	s := &Sending{Operation: op, Attempt: op.ordinal(n), Permit: op.Attempts[n-1].Permit, Deadline: f.deadline}
	if s.Deadline.IsZero() || kind == AttemptResend && time.Until(s.Deadline) < wait {
		s.Deadline = f.waitFor
	}
	f.out++
	go func() {
		defer cancel()
		f.answers <- answer{attempt: n, evidence: safeSend(attempt, f.tool.Port, s)}
	}()
	return true
}

func giveBackNote(late, lapsing bool) string {
	switch {
	case late:
		return "too little time left in the turn"
	case lapsing:
		return "the claim was about to lapse"
	default:
		return "the executor stops"
	}
}

// ordinal counts the permits up to n that may have reached the provider, n included.
func (op *Operation) ordinal(n int) int {
	k := 1
	for _, a := range op.Attempts[:n-1] {
		if a.Class != ClassNotSent || !a.NoEffect {
			k++
		}
	}
	return k
}

// safeSend keeps a panic of a port from taking the process down: it proves nothing.
func safeSend(ctx context.Context, p Port, s *Sending) (e Evidence) {
	began := time.Now()
	defer func() {
		if r := recover(); r != nil {
			e = Evidence{Class: ClassAmbiguous, Proof: "panic", Error: fmt.Sprintf("panic: %T", r)}
		}
		if e.Class == "" {
			e.Class = ClassAmbiguous
		}
		e.Took = time.Since(began)
	}()
	return p.Send(ctx, s)
}

// mayRetry reports whether a call that provably had no effect is tried again by itself.
func (f *flight) mayRetry(op *Operation) bool {
	if f.end.IsZero() || f.retries >= maxRetries || op.Reason == ReasonGivenBack || f.out > 0 || f.stopped() {
		return false
	}
	select {
	case <-f.gone:
		return false
	default:
	}
	return len(op.Attempts) < op.Contract.MaxAttempts && time.Until(f.end) > f.retryPause(op)+op.Contract.MinTime
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
	timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.gone:
		return false
	case <-f.e.stopping:
		return false
	}
	fresh, err := f.e.reopen(f.ctx, f.tool, op)
	if err != nil {
		return false // someone else reopened it, or the store failed: the record stands
	}
	f.token = fresh.Token
	f.publish(fresh)
	return f.send(ctx)
}

// move makes one step of the ladder.
func (f *flight) move(ctx context.Context, op *Operation, m Move) bool {
	c := op.Contract
	if op.Lease.Sub(f.e.now(f.ctx)) < c.Timeout+f.e.opts.Lease/4 {
		f.renew()
	}
	switch m.Kind {
	case MoveReview:
		return f.event(&Event{Kind: EventReview, Reason: m.Why})
	case MoveResend:
		if !f.event(&Event{Kind: EventResend}) {
			return false
		}
		if len(f.current().Attempts) == len(op.Attempts) {
			return true // the rules said no
		}
		return f.send(ctx)
	}
	ask, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	asked := f.e.now(f.ctx)
	if m.Kind == MoveFence {
		r := safeFence(ask, f.tool.Port, op)
		return f.event(&Event{Kind: EventFence, Asked: asked, Fence: &r})
	}
	r := safeProbe(ask, f.tool.Port, op)
	return f.event(&Event{Kind: EventProbe, Asked: asked, Probe: &r})
}

// safeProbe asks the port; what goes wrong there is inconclusive.
func safeProbe(ctx context.Context, p Port, op *Operation) (r ProbeResult) {
	defer func() {
		if v := recover(); v != nil {
			r = ProbeResult{Outcome: Inconclusive, Error: fmt.Sprintf("panic: %T", v)}
		}
	}()
	prober, ok := p.(Prober)
	if !ok {
		return ProbeResult{Outcome: Inconclusive, Error: "the tool has no probe any more"}
	}
	return prober.Probe(ctx, op)
}

// safeFence is safeProbe for a fence.
func safeFence(ctx context.Context, p Port, op *Operation) (r FenceResult) {
	defer func() {
		if v := recover(); v != nil {
			r = FenceResult{Outcome: FenceInconclusive, Error: fmt.Sprintf("panic: %T", v)}
		}
	}()
	fencer, ok := p.(Fencer)
	if !ok {
		return FenceResult{Outcome: FenceInconclusive, Error: "the tool has no fence any more"}
	}
	return fencer.Fence(ctx, op)
}
