package pawl

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Step is the whole of the transition rules: the operation and what happened to it give
// the new state, the history entry that explains it and the alarms it raises, or a
// *Refusal. It has no clock, does no I/O and leaves op as it is.
//
// What it guarantees, whatever the order of events:
//   - SUCCEEDED only on positive evidence, a key-exact probe or fence, or a named person.
//   - FAILED_NO_EFFECT only if every permit ever given is accounted for.
//   - A settled outcome is not overwritten, except that proof of the effect wins over
//     FAILED_NO_EFFECT and raises an alarm.
//   - Evidence of success is taken from anyone; everything else needs the current token.
func Step(op *Operation, ev *Event) (*Transition, error) {
	s := &stepper{op: op, ev: ev, next: op.State}
	s.next.Attempts = slices.Clone(op.Attempts)
	if err := s.apply(); err != nil {
		return nil, err
	}
	return s.finish(), nil
}

type stepper struct {
	op     *Operation
	ev     *Event
	next   State
	alarms []Alarm
	note   string
	// permitted is the number of the attempt that this event gives a permit for.
	permitted int
	// duplicate: the provider shows more than one effect, which stays open for a person.
	duplicate bool
	// late: the operation is to be undone now, and nobody else sees to it.
	late bool
	// keepLease and keepReview leave alone who works on the operation, and that a person is asked.
	keepLease, keepReview bool
}

func (s *stepper) refuse(why RefusalCode, detail string) error {
	return &Refusal{Event: s.ev.Kind, Status: s.op.Status, Why: why, Detail: detail}
}

func (s *stepper) apply() error {
	current := s.ev.Token == s.op.Token || !holds(tokensCount)
	switch s.ev.Kind {
	case EventRetry:
		return s.retry()
	case EventTakeover:
		return s.takeover()
	case EventRestore:
		return s.restore()
	case EventDecide:
		return s.decide()
	case EventQuiet:
		return s.quiet()
	case EventAbort:
		return s.abort()
	case EventCompensated:
		return s.compensated()
	case EventNotUndone:
		return s.notUndone()
	case EventPermit:
		return s.firstPermit()
	case EventLapse:
		return s.lapse()
	case EventAnswer:
		if !current && !(provesEffect(s.ev.Evidence) && holds(successFromAnyone)) {
			return s.keepStale()
		}
		return s.answer()
	case EventProbe:
		if !current && !(s.ev.Probe != nil && s.ev.Probe.Outcome == Found) {
			return s.refuse(RefusedStale, "")
		}
		return s.probe()
	case EventResend, EventSnapshot, EventGiveBack, EventNoAnswer, EventFence, EventReview:
		if !current {
			return s.refuse(RefusedStale, "")
		}
	default:
		return s.refuse(RefusedInput, "no such event")
	}
	switch s.ev.Kind {
	case EventResend:
		return s.resend()
	case EventSnapshot:
		return s.snapshot()
	case EventGiveBack:
		return s.giveBack()
	case EventNoAnswer:
		return s.noAnswer()
	case EventFence:
		return s.fence()
	default:
		return s.review()
	}
}

// finish sets what every transition sets: version, time, lease and due time, the entry.
func (s *stepper) finish() *Transition {
	n, ev := &s.next, s.ev
	n.Version++
	n.Updated = ev.At
	if n.Status.Settled() && !s.keepReview {
		if s.op.ReviewReason != ReasonDuplicateSeen || ev.Kind == EventDecide { // a person alone can judge it
			n.Review, n.ReviewReason = time.Time{}, ReasonNone
		}
		if n.Status != Succeeded || n.Order != ChoiceCompensate {
			n.Order = ""
		}
		if s.duplicate && n.Review.IsZero() {
			n.Review, n.ReviewReason = ev.At, ReasonDuplicateSeen
		}
		if s.late {
			n.Order = ChoiceCompensate
		}
	}
	n.Lease = ev.Lease
	if s.keepLease {
		n.Lease = s.op.Lease
	}
	if n.Status.Settled() && !wantsResult(n) {
		n.Lease = time.Time{}
	}
	if ev.Token != s.op.Token && ev.NewToken == 0 && ev.Kind != EventDecide {
		n.Lease = s.op.Lease // a reporter without a lease leaves the holder's alone
		if n.Status.Settled() {
			n.Lease = time.Time{}
		}
	}
	n.Due = n.Lease
	if n.Lease.IsZero() {
		after := Operation{Intent: s.op.Intent, State: *n}
		if m := Next(&after, ev.At); m.Kind != MoveNone {
			n.Due = m.At
		}
	}
	e := Entry{
		Seq: n.Version, At: ev.At, Event: string(ev.Kind), By: ev.By, From: s.op.Status, To: n.Status, Reason: n.Reason,
		Attempt: max(ev.Attempt, s.permitted), Probe: ev.Probe, Fence: ev.Fence, Decision: ev.Decision, Note: ev.Note,
	}
	if s.note != "" {
		e.Note = strings.TrimSpace(s.note + " " + ev.Note)
	}
	if ev.Evidence != nil {
		kept := *ev.Evidence
		if n.Result != nil {
			kept.Result = nil // the operation holds it
			if kept.Class == ClassSucceeded {
				kept.Body = nil
			}
		}
		e.Evidence = &kept
	}
	return &Transition{State: *n, Entry: e, Alarms: s.alarms}
}

const noteStale = "kept as evidence, decides nothing"

func provesEffect(e *Evidence) bool {
	return e != nil && (e.Class == ClassSucceeded || e.Class == ClassResultLost || e.Class == ClassAccepted && !holds(acceptedIsNotDone))
}

// keepStale records evidence that came under a lease that is over: it decides nothing.
func (s *stepper) keepStale() error {
	if s.ev.Evidence == nil {
		return s.refuse(RefusedInput, "no evidence")
	}
	s.note = noteStale
	s.alarms = append(s.alarms, AlarmStaleEvidence)
	return nil
}

func (s *stepper) attempt(n int) *Attempt {
	if n < 1 || n > len(s.next.Attempts) {
		return nil
	}
	return &s.next.Attempts[n-1]
}

// retry gives a permit after FAILED_NO_EFFECT: same key, next attempt.
func (s *stepper) retry() error {
	if s.op.Status != FailedNoEffect {
		return s.refuse(RefusedStatus, "")
	}
	if !s.op.Reopens() {
		return s.refuse(RefusedSend, "the outcome is definite")
	}
	if len(s.op.Attempts) >= s.op.Contract.MaxAttempts {
		return s.refuse(RefusedSend, "the cap on attempts is reached")
	}
	if s.op.needsAnotherYes(s.ev.At) && holds(sentWithAYes) {
		return s.refuse(RefusedSend, "the yes is too old")
	}
	if s.ev.NewToken == 0 || s.ev.Lease.IsZero() {
		return s.refuse(RefusedInput, "a retry starts a lease")
	}
	s.next.Token = s.ev.NewToken
	s.next.Status, s.next.Reason = Pending, ReasonNone
	s.next.SettledBy = ""
	s.next.Before = nil // others may have changed the subject since: it is read again
	s.permit(AttemptRetry)
	return nil
}

// resend gives a permit after UNKNOWN: same stored bytes, same key. The status stays.
func (s *stepper) resend() error {
	if s.op.Status != Unknown {
		return s.refuse(RefusedStatus, "")
	}
	if s.op.Order == ChoiceResend {
		if why := s.op.orderBarred(ChoiceResend, s.ev.At); why != "" {
			return s.refuse(RefusedSend, why)
		}
		s.next.Order = ""
	} else {
		if why := s.op.resendBarred(s.ev.At); why != "" {
			return s.refuse(RefusedSend, why)
		}
		if !s.op.resendReady() {
			return s.refuse(RefusedSend, "the probe has not said absent often enough")
		}
	}
	if s.ev.Lease.IsZero() {
		return s.refuse(RefusedInput, "a resend needs a lease")
	}
	s.permit(AttemptResend)
	return nil
}

func (s *stepper) permit(kind AttemptKind) {
	n := len(s.next.Attempts) + 1
	s.next.Attempts = append(s.next.Attempts, Attempt{N: n, Kind: kind, Permit: s.ev.At, Worker: s.ev.By})
	s.next.Probes = Probes{Count: s.next.Probes.Count, Last: s.next.Probes.Last}
	s.permitted = n
}

// snapshot keeps the state before an attempt, read while the operation holds its subject.
// The permit has not been used, so that it counts from now.
func (s *stepper) snapshot() error {
	a := s.attempt(s.ev.Attempt)
	switch {
	case a == nil || !a.Out() || s.op.Status != Pending:
		return s.refuse(RefusedStatus, "the attempt is not out")
	case s.ev.Before == nil:
		return s.refuse(RefusedInput, "no state before")
	}
	a.Permit, s.next.Before = s.ev.At, s.ev.Before
	return nil
}

// giveBack accounts for a permit whose live holder wrote nothing.
func (s *stepper) giveBack() error {
	a := s.attempt(s.ev.Attempt)
	if a == nil || !a.Out() {
		return s.refuse(RefusedStatus, "the attempt is not out")
	}
	a.Class, a.Strength, a.Proof, a.NoEffect, a.Ended = ClassNotSent, P1, "given_back", true, s.ev.At
	if s.op.Status == Pending || s.op.Status == Unknown {
		s.fold(cmp.Or(s.ev.Reason, ReasonGivenBack))
	}
	return nil
}

func (s *stepper) noAnswer() error {
	a := s.attempt(s.ev.Attempt)
	if a == nil || !a.Out() || !s.op.Status.Open() {
		return s.refuse(RefusedStatus, "the attempt is not out")
	}
	s.next.Status, s.next.Reason = Unknown, ReasonNoAnswer
	if !holds(silenceIsUnknown) {
		s.noEffect(ReasonNotSent, ByAnswer)
	}
	return nil
}

// takeover starts a new lease after a lapsed lease. What was out is lost: it may have
// been sent.
func (s *stepper) takeover() error {
	if s.op.Status != Pending && s.op.Status != Unknown && !wantsResult(&s.op.State) {
		return s.refuse(RefusedStatus, "")
	}
	switch {
	case s.ev.NewToken != 0:
		if s.op.Lease.After(s.ev.At) && holds(leaseAtTakeover) {
			return s.refuse(RefusedLease, "")
		}
		s.next.Token = s.ev.NewToken
	case s.ev.Token != s.op.Token:
		return s.refuse(RefusedStale, "")
	}
	s.lose()
	if s.op.Status == Pending {
		s.next.Status, s.next.Reason = Unknown, ReasonOwnerLost
		if !holds(lapsedIsUnknown) {
			s.noEffect(ReasonNotSent, ByAnswer)
		}
	}
	return nil
}

// lose gives up what was out under a lease that is over: it may have been sent.
func (s *stepper) lose() {
	for i := range s.next.Attempts {
		if a := &s.next.Attempts[i]; a.Out() {
			a.Lost = true
		}
	}
}

// quiet ends the claim on the subject. It is a matter of time and needs no lease.
func (s *stepper) quiet() error {
	switch {
	case s.op.Quiet.IsZero():
		return s.refuse(RefusedStatus, "no copy is waited for")
	case !s.ev.At.After(s.op.Quiet):
		return s.refuse(RefusedEarly, "")
	}
	s.next.Quiet = time.Time{}
	return nil
}

func (s *stepper) review() error {
	if s.op.Status != Unknown {
		return s.refuse(RefusedStatus, "")
	}
	why := s.ev.Reason
	if why == ReasonNone {
		why = s.op.Reason
	}
	s.openReview(why)
	return nil
}

func (s *stepper) openReview(why Reason) {
	if s.next.Review.IsZero() {
		s.next.Review = s.ev.At
	}
	s.next.ReviewReason = why
}
