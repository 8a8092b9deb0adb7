package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxRunOperations bounds the operations of a run that an abort looks at.
	maxRunOperations = 100_000
	// abortSlow is the longest pause between two looks at an aborted run in which something
	// is still unknown.
	abortSlow = time.Minute
)

// Abort calls a run off, for good: when it returns, no step of the run begins any more.
// What is in doubt is then settled and what happened is undone, the last first, by the
// sweeper; without Start it is done within this call as far as its context reaches. A run
// that is called off already stays as it is, and is looked at once more. A run that nothing
// is known of is kept from beginning.
//
// The error is a *Refusal where Who or Why is missing, a *CallError where the run's id is no
// good, or the store's.
func (e *Executor) Abort(ctx context.Context, tenant, run string, a Abort) (*RunReport, error) {
	if err := validAbort(run, &a); err != nil {
		return nil, err
	}
	if err := e.synchronise(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	alone := !e.sweeping
	e.mu.Unlock()
	r, err := e.changeRun(ctx, tenant, run, func(r *Run, now time.Time) bool {
		if r.Version == 0 {
			r.Actor = a.Actor
		}
		if r.Status == RunOpen {
			a.At = now
			r.Abort = &a
		}
		r.Status, r.Due = RunAborting, now
		if alone {
			r.Lease = now.Add(e.opts.Turn)
			r.Due = r.Lease
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("abort run: %w", err)
	}
	if _, err := e.tellAll(ctx, r); err != nil {
		e.failed(ctx, "abort run", err, nil) // whoever works on it does so again
	}
	if alone {
		own, cancel := context.WithTimeout(ctx, e.opts.Turn)
		defer cancel()
		e.callOff(own, r)
	}
	return e.RunReport(ctx, tenant, run)
}

func validAbort(run string, a *Abort) error {
	if run == "" || len(run) > maxLabel {
		return &CallError{Reason: ReasonLabelInvalid, Field: "run", Err: fmt.Errorf("run: want 1 to %d bytes, got %d", maxLabel, len(run))}
	}
	for _, text := range []struct{ name, value string }{{"who", a.Who}, {"why", a.Why}} {
		switch {
		case strings.TrimSpace(text.value) == "":
			return &Refusal{Event: EventAbort, Why: RefusedInput, Detail: "an abort names who and why"}
		case len(text.value) > MaxDecision:
			return &Refusal{Event: EventAbort, Why: RefusedInput, Detail: fmt.Sprintf("%s: %d bytes, at most %d are allowed", text.name, len(text.value), MaxDecision)}
		}
	}
	return nil
}

// changeRun writes a change of a run's record over whatever others write meanwhile. change
// reports whether there is one to make. A record that there is not yet is an open run.
func (e *Executor) changeRun(ctx context.Context, tenant, run string, change func(r *Run, now time.Time) bool) (*Run, error) {
	for range 16 {
		now := e.now(ctx)
		r, err := e.store.GetRun(ctx, tenant, run)
		switch {
		case errors.Is(err, ErrNotFound):
			r = &Run{Tenant: tenant, ID: run, Status: RunOpen, Created: now}
		case err != nil:
			return nil, err
		}
		if !change(r, now) {
			return r, nil
		}
		if err := e.putRun(ctx, r, now); !errors.Is(err, ErrStale) {
			return r, err
		}
	}
	return nil, fmt.Errorf("run: %w", ErrStale)
}

func (e *Executor) putRun(ctx context.Context, r *Run, now time.Time) error {
	r.Version++
	r.Updated = now
	return e.store.PutRun(ctx, r)
}

// barred refuses a permit to an operation whose run was called off, and tells it so.
func (e *Executor) barred(ctx context.Context, op *Operation, what EventKind) error {
	if op.Run == "" || op.Undoes != (ID{}) || !holds(abortStopsSteps) {
		return nil
	}
	r, err := e.store.GetRun(ctx, op.Tenant, op.Run)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil // it began before there were records of runs
	case err != nil:
		return fmt.Errorf("look at the run: %w", err)
	case r.Status == RunOpen:
		return nil
	}
	if _, err := e.tellAborted(ctx, op, r.Abort); err != nil {
		return err
	}
	return &Refusal{Event: what, Status: op.Status, Why: RefusedSend, Detail: "the run was called off"}
}

// callOff works on a run that was called off and is leased to this worker, and says in its
// record when it is to be looked at again.
func (e *Executor) callOff(ctx context.Context, r *Run) {
	for {
		again, err := e.undoRun(ctx, r)
		if err != nil && !errors.Is(err, errNotHere) {
			if ctx.Err() == nil {
				e.failed(ctx, "abort run", err, nil)
			}
			again = max(again, time.Second)
		}
		// Without a sweeper what can be done inside the call is done.
		if deadline, ok := ctx.Deadline(); ok && again > 0 && time.Until(deadline) > again+e.opts.Reserve && err == nil && again <= patience {
			if !e.sleep(ctx, again) {
				return
			}
			continue
		}
		now := e.now(ctx)
		r.Lease, r.Due = time.Time{}, now.Add(again)
		if again == 0 {
			r.Status, r.Due = RunAborted, time.Time{}
		}
		if err := e.putRun(context.WithoutCancel(ctx), r, now); err != nil && !errors.Is(err, ErrStale) {
			e.failed(ctx, "abort run", err, nil) // its lease lapses by itself
		}
		return
	}
}

func (e *Executor) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-e.stopping:
		return false
	}
}

// undoRun makes one pass over a run that was called off: every operation learns of it,
// doubt is waited for, then what happened is undone, the last first. It says after what time
// to look again, and zero where nothing is left.
func (e *Executor) undoRun(ctx context.Context, r *Run) (time.Duration, error) {
	ops, err := e.tellAll(ctx, r)
	if err != nil {
		return 0, err
	}
	poll := r.poll(e.now(ctx))
	for _, op := range ops {
		if op.inDoubt() && holds(doubtIsSettledFirst) {
			return poll, nil
		}
	}
	var again time.Duration
	for _, op := range ops {
		if e.stoppedNow() {
			return poll, nil
		}
		next, err := e.undoOne(ctx, op, poll)
		switch {
		case errors.Is(err, errNotHere):
			return poll, nil // another worker may have the tools
		case err != nil:
			return 0, err
		case next.first:
			return next.wait, nil
		case again == 0 || next.wait > 0:
			again = max(again, next.wait)
		}
	}
	return again, nil
}

func (e *Executor) stoppedNow() bool {
	select {
	case <-e.stopping:
		return true
	default:
		return false
	}
}

// inDoubt reports whether an operation is open and something moves by itself that may
// settle it.
func (op *Operation) inDoubt() bool {
	return op.Contract != nil && op.Undoes == (ID{}) && op.Status.Open() && op.Review.IsZero()
}

// undoLeft is when to look again at an operation that is to be undone: zero means that
// nothing is left to do for it. first says that what began before it is undone after it.
type undoLeft struct {
	wait  time.Duration
	first bool
}

// undoOne undoes one operation of a run that was called off, if it can be undone.
func (e *Executor) undoOne(ctx context.Context, op *Operation, poll time.Duration) (undoLeft, error) {
	done, asked := undoLeft{}, undoLeft{wait: poll}
	switch {
	case op.Contract == nil || op.Undoes != (ID{}):
		return done, nil
	case op.Status.Open():
		return asked, nil // a person is asked; what comes of it is seen then
	case op.Status != Succeeded || op.notCompensable() != "":
		return done, nil
	}
	now := e.now(ctx)
	if from := op.undoableFrom(); now.Before(from) && holds(openPermitsWait) {
		return undoLeft{min(from.Sub(now), abortSlow), true}, nil
	}
	if wantsResult(&op.State) && Next(op, now).Kind == MoveProbe {
		return undoLeft{poll, true}, nil // what undoes it may need the result
	}
	c, err := e.compensation(ctx, op)
	if err != nil {
		return done, err
	}
	switch {
	case c == nil || c.Status == Succeeded:
	case e.undoFailed(c, now) != "":
		return done, nil
	case c.Status.Open() && !c.Review.IsZero():
		return asked, nil // what began before it need not wait for a person
	case c.Reopens() && now.Before(c.nextTry()):
		return undoLeft{min(c.nextTry().Sub(now), abortSlow), true}, nil
	}
	var cannot *undoError
	switch c, err = e.compensate(ctx, op); {
	case errors.As(err, &cannot):
		return done, nil // the report says so
	case err != nil:
		return done, err
	case c == nil:
		return undoLeft{poll, true}, nil
	case c.Status == Succeeded || e.undoFailed(c, now) != "":
		return done, nil
	case c.Status.Open() && !c.Review.IsZero():
		return asked, nil
	}
	return undoLeft{poll, true}, nil
}

// nextTry is the time of the next attempt of a compensation that provably was not made.
func (op *Operation) nextTry() time.Time {
	return op.Updated.Add(10 * backoff(len(op.Attempts)-1, abortSlow/2))
}

// poll is the pause between two looks at a run, which grows with the time since its abort.
func (r *Run) poll(now time.Time) time.Duration {
	return min(max(now.Sub(r.Abort.At)/8, 250*time.Millisecond), abortSlow)
}

// tellAll makes every operation of a run know that the run was called off, and lists them,
// the one begun last first.
func (e *Executor) tellAll(ctx context.Context, r *Run) ([]*Operation, error) {
	ops, err := e.operationsOf(ctx, r)
	if err != nil {
		return nil, err
	}
	for i, op := range ops {
		if ops[i], err = e.tellAborted(ctx, op, r.Abort); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// tellAborted makes an operation know that its run was called off.
func (e *Executor) tellAborted(ctx context.Context, op *Operation, a *Abort) (*Operation, error) {
	if op.Contract == nil || op.Undoes != (ID{}) || !op.Aborted.IsZero() {
		return op, nil
	}
	told, err := e.apply(ctx, op, &Event{Kind: EventAbort, At: e.now(ctx), By: "person " + a.Who, Note: a.Why})
	var refused *Refusal
	if err != nil && !errors.As(err, &refused) {
		return op, err
	}
	if f := e.flight(op.ID); f != nil {
		f.publish(told)
	}
	return told, nil
}

// operationsOf lists the operations of a run, the one begun last first.
func (e *Executor) operationsOf(ctx context.Context, r *Run) (ops []*Operation, err error) {
	q := Query{Tenant: r.Tenant, Run: r.ID, Limit: 1000}
	for len(ops) < maxRunOperations {
		page, err := e.store.Find(ctx, q)
		if err != nil {
			return nil, err
		}
		ops = append(ops, page...)
		if len(page) < q.Limit {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	return slices.Clip(ops), nil
}

// claimRuns works on runs that are due, as many as there are free hands.
func (e *Executor) claimRuns(h *hands) {
	limit, free := h.idle([]string{""}) // as one tool, runs leave others half of the hands
	if limit = min(limit, max(1, h.most/2)); limit <= 0 || len(free) == 0 {
		return
	}
	claimed, err := e.store.ClaimRuns(e.base, limit, e.opts.Turn+e.opts.Lease)
	if err != nil {
		if e.base.Err() == nil {
			e.failed(e.base, "claim runs", err, nil)
		}
		return
	}
	for _, r := range claimed {
		h.take("")
		e.work.Add(1)
		go func() {
			defer e.work.Done()
			defer h.give("")
			ctx, cancel := context.WithTimeout(e.base, e.opts.Turn)
			defer cancel()
			e.callOff(ctx, r)
		}()
	}
}
