package pawl

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A flight drives one operation under one lease: it sends, listens, climbs the ladder,
// keeps the lease alive and lets everyone who asked for the same operation wait for it.
// Its goroutine is the only one in the process that works on the operation.
type flight struct {
	e    *Executor
	id   ID
	tool *Tool
	ctx  context.Context // values of the call that began it, never its end
	// caller ends when that call is over or its caller has gone; nil for the sweeper, unless
	// it sends what was approved.
	caller context.Context
	// end is when the call's turn has to report; zero where caller is nil.
	end time.Time
	// deadline is the absolute end of the turn, for providers that take one.
	deadline time.Time
	token    int64 // the token of the lease this flight works under
	eager    bool  // the caller asks now: make the next probe at once
	retries  int
	// hand takes the permits of a caller that sends itself; nil where this flight sends.
	hand    chan<- *Permit
	refused int           // refusals by the rules in a row
	wished  time.Duration // the pause the provider last asked for

	// permit: the newest permit has not been used yet.
	permit bool
	// sending is the attempt that is about to be made.
	sending func() answer

	answers chan *answer
	outs    []out     // attempts without an answer yet
	waitFor time.Time // until when the newest attempt is waited for

	mu        sync.Mutex
	op        *Operation
	changed   chan struct{} // closed at the next change; nil while nobody waits for it
	landed    bool
	ready     chan struct{} // closed when the caller may look; nil once it is
	idle      time.Time     // nothing will happen by itself before this time
	abandoned map[int]bool  // attempts whose answer is no longer waited for
}

// out is an attempt that is on its way, listened to until a time.
type out struct {
	attempt int
	until   time.Time
}

type answer struct {
	attempt  int
	evidence Evidence
}

const (
	// maxRetries bounds the automatic retries of one call.
	maxRetries = 2
	// patience is how far ahead the next move may be for the sweeper to stay with it.
	patience = 3 * time.Second
	// storePatience bounds how long an outcome that cannot be written is tried again.
	storePatience = 30 * time.Second
	// storePause is the first pause between two such tries.
	storePause = 50 * time.Millisecond
	// maxRefused is how many events in a row the rules may refuse before a flight lands.
	maxRefused = 4
)

// enlist makes the flight the one that calls of this process wait for.
func (e *Executor) enlist(f *flight) {
	f.answers = make(chan *answer, f.op.Contract.MaxAttempts+1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flights[f.id] = f
}

// admit reserves a place for one more call; it fails when the executor stops or is full.
// Each success is given back by one dismiss.
func (e *Executor) admit() (Reason, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.stopped:
		return ReasonStopping, false
	case e.open >= e.opts.MaxOpen:
		return ReasonBusy, false
	}
	e.open++
	e.work.Add(1)
	return ReasonNone, true
}

func (e *Executor) dismiss() {
	e.mu.Lock()
	e.open--
	e.mu.Unlock()
	e.work.Done()
}

func (e *Executor) flight(id ID) *flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flights[id]
}

// land ends the flight: whoever waits sees the last state.
func (f *flight) land() {
	f.e.mu.Lock()
	if f.e.flights[f.id] == f {
		delete(f.e.flights, f.id)
	}
	f.e.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.landed = true
	f.wake()
}

// publish makes a newer state visible to everyone who waits.
func (f *flight) publish(op *Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op.Version > f.op.Version || op.Version == f.op.Version && op.Token != f.op.Token {
		f.op = op
	}
	f.wake()
}

// show lets the caller that began the flight look at it.
func (f *flight) show() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ready != nil {
		close(f.ready)
		f.ready = nil
	}
}

// replace makes an operation the one that is waited for, whatever was before.
func (f *flight) replace(op *Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.op = op
	f.wake()
}

func (f *flight) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// view is the latest state, a channel that closes at the next change (nil when none will
// come), and the time before which nothing happens by itself.
func (f *flight) view() (*Operation, <-chan struct{}, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil && !f.landed {
		f.changed = make(chan struct{})
	}
	return f.op, f.changed, f.idle
}

func (f *flight) current() *Operation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.op
}

// restsBeyond reports whether the flight goes on and nothing will happen by itself until
// after a time.
func (f *flight) restsBeyond(end time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.landed && f.idle.After(end)
}

func (f *flight) rest(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.idle.Equal(until) {
		f.idle = until
		f.wake()
	}
}

// event applies one event under the flight's token and publishes the result. It reports
// whether the flight can go on: the record could be written, or the rules said no.
func (f *flight) event(ev *Event) bool {
	ev.By, ev.Token = "worker "+f.e.opts.Worker, f.token
	give := time.Now().Add(storePatience)
	for wait := storePause; ; wait = min(2*wait, 2*time.Second) {
		if ev.At.IsZero() || wait > storePause {
			ev.At = f.e.now(f.ctx)
		}
		ev.Lease = ev.At.Add(f.e.opts.Lease)
		op, err := f.e.apply(f.ctx, f.current(), ev)
		var refused *Refusal
		switch {
		case err == nil:
			f.refused = 0
			f.publish(op)
			return true
		case errors.As(err, &refused):
			f.refused++
			f.publish(op)
			return f.refused < maxRefused
		case (errors.Is(err, ErrBusy) || errors.Is(err, ErrFull)) && time.Now().Before(give):
			if !f.pause(wait) {
				return false
			}
		default:
			f.e.failed(f.ctx, "record "+string(ev.Kind), err, f.current())
			return false
		}
	}
}

// pause waits, unless the executor gives everything up meanwhile.
func (f *flight) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.e.base.Done():
		return false
	}
}

// fly drives an operation whose lease the caller holds and for which a place was admitted,
// until it is settled or nobody waits for it here any more.
func (f *flight) fly() { f.drive(f.e.dismiss) }

// drive works on the operation and calls over at the end.
func (f *flight) drive(over func()) {
	ctx := newUntil(valued{f.e.base, f.ctx}, time.Time{})
	land := func() {
		ctx.stop() // closes what is still out; its evidence is drained
		f.drain()
		f.land()
		f.show()
		over()
	}
	f.carryOn(ctx, land, !f.permit || f.start(ctx))
}

// carryOn works until there is nothing more to do here. A first attempt is made by this
// goroutine itself; if that takes long, another one carries on meanwhile.
func (f *flight) carryOn(ctx context.Context, land func(), on bool) {
	for on {
		if f.sending == nil {
			on = f.step(ctx)
		} else if !f.attempt(func() { f.carryOn(ctx, land, true) }) {
			return
		}
	}
	land()
}

// valued is a context that ends with one and has the values of another.
type valued struct {
	context.Context
	values context.Context
}

func (v valued) Value(key any) any {
	if value := v.values.Value(key); value != nil {
		return value
	}
	return v.Context.Value(key)
}

// step does the next thing there is to do, or waits for it. It reports whether to go on.
func (f *flight) step(ctx context.Context) bool {
	f.abandonOverdue()
	op, changed, _ := f.view()
	switch {
	case op.Token != f.token && len(f.outs) > 0 && op.Status.Open():
		f.await(changed, time.Now().Add(f.e.opts.Lease)) // the lease is over: only listen
		return true
	case op.Token != f.token, op.Status == Pending && len(f.outs) == 0:
		return false
	case op.Status == Pending:
		f.await(changed, f.waitFor)
		if time.Now().Before(f.waitFor) || f.current().Status != Pending {
			return true
		}
		return f.event(&Event{Kind: EventNoAnswer, Attempt: len(op.Attempts)})
	case op.Reopens() && f.mayRetry(op):
		return f.retry(ctx, op)
	case op.Status.Settled() && !wantsResult(&op.State):
		return f.settled(op)
	case op.out() && len(f.outs) == 0:
		return f.event(&Event{Kind: EventTakeover}) // an answer that could not be recorded is lost
	}
	now := f.e.now(f.ctx)
	m := Next(op, now)
	if f.eager && m.Kind == MoveProbe {
		m.At = now
	}
	f.eager = false
	if m.Kind == MoveResend && len(f.outs) > 0 && f.stopped() {
		m = Move{Kind: MoveNone} // its permit would be given back, and counts for life
	}
	switch {
	case len(f.outs) == 0 && f.stopped():
		f.release(op, m)
		return false
	case m.Kind != MoveNone && !m.At.After(now):
		return f.move(ctx, op, m)
	default:
		return f.linger(op, changed, m, now)
	}
}

// settled does what is left to do for an operation that is settled, if its time has come.
// Otherwise it lets go of a lease that was renewed while someone else settled it.
func (f *flight) settled(op *Operation) bool {
	if op.Quiet.IsZero() && op.Lease.IsZero() {
		return false
	}
	now := f.e.now(f.ctx)
	m := Next(op, now)
	switch {
	case m.Kind == MoveUndo && !m.At.After(now) && !op.Lease.IsZero():
		return f.undo(op)
	case m.Kind == MoveQuiet && !m.At.After(now):
		return f.event(&Event{Kind: EventQuiet})
	case !op.Lease.IsZero():
		f.release(op, m)
	}
	return false
}

// linger waits for the next move or a late answer. It reports whether to go on; when not,
// the lease has been released for the sweeper.
func (f *flight) linger(op *Operation, changed <-chan struct{}, m Move, now time.Time) bool {
	wake := now.Add(24 * time.Hour)
	if m.Kind != MoveNone {
		wake = m.At
	}
	until := time.Now().Add(wake.Sub(now)) // the store's clock and ours may differ
	if len(f.outs) == 0 {
		leave := until.After(f.end) // the turn is over before anything happens
		if f.end.IsZero() {
			leave = wake.Sub(now) > patience
		}
		if leave {
			f.release(op, m)
			return false
		}
	}
	for _, o := range f.outs {
		if o.until.Before(until) {
			until = o.until
		}
	}
	f.rest(until)
	f.await(changed, until)
	return true
}

func (f *flight) stopped() bool {
	select {
	case <-f.e.stopping:
		return true
	default:
		return false
	}
}

// release gives the lease back and says when the operation is due next.
func (f *flight) release(op *Operation, m Move) {
	var due time.Time
	if m.Kind != MoveNone {
		due = m.At
	}
	if _, err := f.e.store.Renew(f.ctx, op.ID, f.token, time.Time{}, due); err != nil {
		f.e.failed(f.ctx, "release", err, op) // the lease lapses by itself
		return
	}
	f.leased(op, time.Time{}, due)
	f.e.mu.Lock()
	swept := f.e.sweeping
	f.e.mu.Unlock()
	if !swept && m.Kind != MoveNone {
		f.e.unswept.Do(func() {
			f.e.opts.Log.LogAttrs(f.ctx, slog.LevelWarn, "open operations wait: this executor was not started",
				slog.Time("due", due), about(&op.Intent))
		})
	}
}

// take records the evidence of an attempt that ended.
func (f *flight) take(a *answer) {
	f.outs = slices.DeleteFunc(f.outs, func(o out) bool { return o.attempt == a.attempt })
	f.wished = a.evidence.retryAfter()
	f.event(&Event{Kind: EventAnswer, Attempt: a.attempt, Evidence: &a.evidence})
}

// drain keeps the evidence of attempts that were given up.
func (f *flight) drain() {
	for len(f.outs) > 0 {
		f.hurry()
		f.await(nil, time.Now().Add(giveUpGrace))
		f.abandonOverdue()
	}
}
