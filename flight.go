package pawl

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"
)

// A flight drives one operation under one claim: it sends, listens, climbs the ladder,
// keeps the lease alive and lets everyone who asked for the same operation wait for it.
// Its goroutine is the only one in the process that works on the operation.
type flight struct {
	e    *Executor
	tool *Tool
	ctx  context.Context // values of the call that began it, never its end
	gone <-chan struct{} // closed when that caller has gone; nil for the sweeper
	// end is when the call's turn has to report; zero for the sweeper.
	end time.Time
	// deadline is the absolute end of the turn, for providers that take one.
	deadline time.Time
	token    int64 // the claim this flight works under
	eager    bool  // the caller asks now: make the next probe at once
	retries  int
	refused  int           // refusals by the rules in a row
	wished   time.Duration // the pause the provider last asked for

	answers chan answer
	out     int       // attempts without an answer yet
	waitFor time.Time // until when the newest attempt is waited for

	mu      sync.Mutex
	op      *Operation
	changed chan struct{}
	idle    time.Time // nothing will happen by itself before this time
	done    bool
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

// launch starts to drive an operation whose claim the caller holds and for which a place
// was admitted. send says that its newest permit has not been used yet.
func (e *Executor) launch(f *flight, send bool) {
	f.prepare()
	e.enlist(f)
	go func() {
		defer e.work.Done()
		defer f.land()
		f.drive(send)
	}()
}

func (f *flight) prepare() {
	f.answers = make(chan answer, f.op.Contract.MaxAttempts+1)
	f.changed = make(chan struct{})
}

// enlist makes the flight the one that calls of this process wait for.
func (e *Executor) enlist(f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flights[f.op.ID] = f
}

// admit reserves a place for one more flight; it fails when the executor stops or is full.
func (e *Executor) admit() (Reason, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return ReasonStopping, false
	}
	if len(e.flights) >= e.opts.MaxOpen {
		return ReasonBusy, false
	}
	e.work.Add(1)
	return ReasonNone, true
}

func (e *Executor) flight(id ID) *flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flights[id]
}

// land ends the flight: whoever waits sees the last state.
func (f *flight) land() {
	f.e.mu.Lock()
	if f.e.flights[f.op.ID] == f {
		delete(f.e.flights, f.op.ID)
	}
	f.e.mu.Unlock()
	f.mu.Lock()
	f.done = true
	close(f.changed)
	f.changed = nil
	f.mu.Unlock()
}

// publish makes a newer state visible to everyone who waits.
func (f *flight) publish(op *Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op.Version > f.op.Version {
		f.op = op
	}
	f.wake()
}

func (f *flight) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// view is the latest state, a channel that closes at the next change (nil when none will
// come), and the time before which nothing happens by itself.
func (f *flight) view() (*Operation, <-chan struct{}, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.op, f.changed, f.idle
}

func (f *flight) rest(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.idle.Equal(until) {
		f.idle = until
		f.wake()
	}
}

func (f *flight) current() *Operation {
	op, _, _ := f.view()
	return op
}

// event applies one event under the flight's claim and publishes the result. It reports
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

// drive works on the operation until it is settled or nobody waits for it here any more.
func (f *flight) drive(send bool) {
	ctx, giveUp := context.WithCancel(f.ctx)
	defer f.drain()
	defer giveUp() // closes what is still out; its evidence is drained
	stop := context.AfterFunc(f.e.base, giveUp)
	defer stop()

	if send && !f.send(ctx) {
		return
	}
	for {
		op := f.current()
		now := f.e.now(f.ctx)
		switch {
		case op.Token != f.token && f.out > 0 && op.Status.Open():
			f.await(time.Now().Add(f.e.opts.Lease)) // the claim is over: only listen
		case op.Token != f.token, op.Status == Pending && f.out == 0:
			return
		case op.Status == Pending:
			if !f.await(f.waitFor) {
				if !f.event(&Event{Kind: EventNoAnswer, Attempt: len(op.Attempts)}) {
					return
				}
			}
		case op.Reopens() && f.mayRetry(op):
			if !f.retry(ctx, op) {
				return
			}
		case op.Status.Settled() && !wantsResult(&op.State):
			return
		default:
			m := Next(op, now)
			if f.eager && m.Kind == MoveProbe {
				m.At = now
			}
			f.eager = false
			if f.out == 0 && f.stopped() {
				f.release(op, m)
				return
			}
			if m.Kind != MoveNone && !m.At.After(now) {
				if !f.move(ctx, op, m) {
					return
				}
				continue
			}
			if !f.linger(op, m, now) {
				return
			}
		}
	}
}

// linger waits for the next move or a late answer. It reports whether to go on; when not,
// the claim has been released for the sweeper.
func (f *flight) linger(op *Operation, m Move, now time.Time) bool {
	wake := now.Add(24 * time.Hour)
	if m.Kind != MoveNone {
		wake = m.At
	}
	until := time.Now().Add(wake.Sub(now)) // the store's clock and ours may differ
	if f.out == 0 {
		leave := until.After(f.end) // the turn is over before anything happens
		if f.end.IsZero() {
			leave = wake.Sub(now) > patience
		}
		if leave {
			f.release(op, m)
			return false
		}
	}
	f.rest(until)
	f.await(until)
	return f.e.base.Err() == nil || f.out > 0
}

func (f *flight) stopped() bool {
	select {
	case <-f.e.stopping:
		return true
	default:
		return false
	}
}

// release gives the claim back and says when the operation is due next.
func (f *flight) release(op *Operation, m Move) {
	var due time.Time
	if m.Kind != MoveNone {
		due = m.At
	}
	if _, err := f.e.store.Renew(f.ctx, op.ID, f.token, time.Time{}, due); err != nil {
		f.e.failed(f.ctx, "release", err, op) // the lease lapses by itself
	}
}

// take records the evidence of an attempt that ended.
func (f *flight) take(a answer) {
	f.out--
	if s, err := strconv.Atoi(a.evidence.Header["retry-after"]); err == nil && s > 0 {
		f.wished = time.Duration(min(s, 3600)) * time.Second
	}
	f.event(&Event{Kind: EventAnswer, Attempt: a.attempt, Evidence: &a.evidence})
}

// drain waits for attempts that were given up and keeps their evidence.
func (f *flight) drain() {
	for f.out > 0 {
		f.take(<-f.answers)
	}
}
