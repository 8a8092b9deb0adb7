package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Permit is the right to write one request, given to a caller that sends it itself. It is on
// record as an attempt: whatever becomes of its caller, the request may have been sent.
type Permit struct {
	Operation ID
	Attempt   int
	// Token is what the report must carry.
	Token int64
	Key   Key
	// Request is the exact request, credentials by name only; Header what it must carry
	// besides, such as the time after which the receiver refuses it.
	Request []byte
	Header  map[string]string
	// Deadline is the end of the wait for the report. After it the outcome is UNKNOWN.
	Deadline time.Time
}

// PermitReport is what a caller says became of the request that it had a permit for.
type PermitReport struct {
	Attempt int
	Token   int64
	// Answer is what the provider answered, whole.
	Answer *Answer
	// NotSent: the caller vouches that not a byte was written. Without it and without an answer
	// the request may have had its effect.
	NotSent bool
	// Error is for people. Nothing is decided by it.
	Error string
}

// Answer is a provider's answer as a caller received it.
type Answer struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// Delegate is a Port whose requests a caller may send.
type Delegate interface {
	// Header is what the request of a permit must carry besides what is stored.
	Header(s *Sending) map[string]string
	// Classify says what an answer proves, as Send would have.
	Classify(s *Sending, a *Answer) Evidence
}

var (
	// ErrNoPermits: the tool's requests are not given out: it is a read or no HTTP tool, or a
	// person may have to say yes first.
	ErrNoPermits = errors.New("the tool's requests are sent by pawl alone")
	// ErrNoPermit: nobody was given a permit for this attempt.
	ErrNoPermit = errors.New("there is no such permit")
)

// Permit begins the operation of a call, or reopens it after FAILED_NO_EFFECT, and gives its
// permit to the caller, who sends the request at most once and then reports. There is no
// permit where the envelope already answers: what stood in the way is told as by Do.
//
// Nothing bounds how long the caller may pause before it sends, unless the contract declares
// its pause. So nothing is sent again, and nothing concludes that it did not happen, unless
// the receiver enforces a not-after.
func (e *Executor) Permit(ctx context.Context, call Call) (*Permit, Envelope, error) {
	chosen := call
	if t := e.chosen(&chosen); t != nil && t.handed == nil {
		return nil, Envelope{}, fmt.Errorf("tool %s: %w", call.Tool, ErrNoPermits)
	}
	return e.call(ctx, &call, make(chan *Permit, 1))
}

// handedOut is a tool as the operations of its permits pin it; nil where it gives none.
func handedOut(t *Tool, pauseDeclared bool) *Tool {
	c := t.Contract
	if _, ok := t.Port.(Delegate); !ok || c.Class == Read || c.asks() {
		return nil
	}
	c.CallerSends, c.PauseUnbounded = true, !pauseDeclared
	return &Tool{Contract: c, Port: t.Port, hash: c.Hash()}
}

// attemptID names an attempt that a caller makes.
type attemptID struct {
	operation ID
	attempt   int
}

// awaited is where the report of a permit goes.
type awaited struct {
	token   int64
	flight  *flight
	reports chan<- Evidence // has room for one
}

// byCaller gives the permit of an attempt out and waits for the report.
func (f *flight) byCaller(ctx context.Context, s *Sending, p *Permit) Evidence {
	reports := make(chan Evidence, 1)
	id := attemptID{f.id, p.Attempt}
	f.e.mu.Lock()
	f.e.handed[id] = awaited{token: p.Token, flight: f, reports: reports}
	f.e.mu.Unlock()
	began := time.Now()
	var err error
	p.Operation, p.Key, p.Request = s.Operation.ID, s.Operation.Key, s.Operation.Request
	if p.Header, err = safeHeader(f.tool.Port.(Delegate), s); err != nil {
		f.e.reportedFor(id, p.Token)
		return Evidence{Class: ClassNotSent, Strength: P1, Proof: "not_given_out", Error: err.Error()}
	}
	f.hand <- p // there is room: a flight gives out one
	var ev Evidence
	select {
	case ev = <-reports:
	case <-ctx.Done():
		if _, waits := f.e.reportedFor(id, p.Token); waits {
			ev = Evidence{Class: ClassAmbiguous, Proof: "not_reported"}
		} else {
			ev = <-reports // it came at the last moment
		}
	}
	ev.Took = time.Since(began)
	return ev
}

// safeHeader turns a panic into an error.
func safeHeader(d Delegate, s *Sending) (header map[string]string, err error) {
	defer func() {
		if r := recover(); r != nil {
			header, err = nil, fmt.Errorf("panic: %T", r)
		}
	}()
	return d.Header(s), nil
}

// ReportPermit takes what a caller says became of its request and answers with the operation
// as it stands then. A report that comes after the wait counts as late news does: proof of the
// effect settles, anything else is kept. The error is ErrNotFound, also for the operation of
// another actor, ErrNoPermit, a *Refusal where the attempt was reported already, or the
// store's.
func (e *Executor) ReportPermit(ctx context.Context, tenant, actor string, id ID, r PermitReport) (Envelope, error) {
	if err := e.synchronise(ctx); err != nil {
		return Envelope{}, err
	}
	op, err := e.store.Get(ctx, tenant, id)
	if err != nil {
		return Envelope{}, err
	}
	if op.Actor != actor {
		return Envelope{}, ErrNotFound
	}
	tool := e.tool(op.Tool)
	if op.Contract == nil || !op.Contract.CallerSends || r.Attempt < 1 || r.Attempt > len(op.Attempts) || op.Attempts[r.Attempt-1].Kind == AttemptResend || tool == nil {
		return Envelope{}, ErrNoPermit
	}
	ev := e.reported(tool, op, &r)
	if op, err = e.takeReport(ctx, op, &r, ev); err != nil {
		return Envelope{}, &RecordError{Intent: &op.Intent, Err: err}
	}
	return *Report(op, e.now(ctx)), nil
}

// reported is the evidence in a report.
func (e *Executor) reported(tool *Tool, op *Operation, r *PermitReport) (ev Evidence) {
	d, ok := tool.Port.(Delegate)
	switch {
	case r.Answer != nil && ok:
		s := &Sending{Operation: op, Attempt: op.mayHaveReached(r.Attempt) + 1, Permit: op.Attempts[r.Attempt-1].Permit}
		ev = safeClassify(d, s, r.Answer)
	case r.NotSent && r.Answer == nil:
		ev = Evidence{Class: ClassNotSent, Strength: P1, Proof: "reported"}
	default:
		ev = Evidence{Class: ClassAmbiguous, Proof: "reported"}
	}
	if r.Error != "" {
		ev.Error = r.Error
	}
	ev.tidy()
	return ev
}

// safeClassify turns a panic into no proof.
func safeClassify(d Delegate, s *Sending, a *Answer) (ev Evidence) {
	defer func() {
		if r := recover(); r != nil {
			ev = Evidence{Class: ClassAmbiguous, Proof: "panic", Error: fmt.Sprintf("panic: %T", r)}
		}
	}()
	return d.Classify(s, a)
}

// reportedFor ends the wait for the report of a permit. It returns where the report goes, and
// false where nobody waits for it here any more: the first report counts.
func (e *Executor) reportedFor(id attemptID, token int64) (awaited, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, here := e.handed[id]
	if !here || w.token != token {
		return awaited{}, false
	}
	delete(e.handed, id)
	return w, true
}

// takeReport hands the evidence to the flight that waits for it, or else to the record.
func (e *Executor) takeReport(ctx context.Context, op *Operation, r *PermitReport, ev Evidence) (*Operation, error) {
	if w, here := e.reportedFor(attemptID{op.ID, r.Attempt}, r.Token); here {
		w.reports <- ev
		return w.flight.after(ctx, r.Attempt), nil
	}
	return e.apply(ctx, op, &Event{
		Kind: EventAnswer, At: e.now(ctx), By: "caller " + op.Actor, Token: r.Token, Lease: op.Lease, Attempt: r.Attempt, Evidence: &ev,
	})
}

// after is the operation once an attempt has ended, or as it is when ctx ends.
func (f *flight) after(ctx context.Context, attempt int) *Operation {
	for {
		op, changed, _ := f.view()
		if changed == nil || len(op.Attempts) >= attempt && !op.Attempts[attempt-1].Out() {
			return op
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return f.current()
		}
	}
}
