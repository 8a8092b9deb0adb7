package pawl

// MaxResult is the number of bytes of a provider's result that are kept for replay.
const MaxResult = 1 << 20

// answer takes the evidence of an attempt that ended and folds all attempts.
func (s *stepper) answer() error {
	e := s.ev.Evidence
	a := s.attempt(s.ev.Attempt)
	if e == nil || a == nil {
		return s.refuse(RefusedInput, "no evidence of an attempt")
	}
	if a.Class == "" {
		a.Class, a.Strength, a.Proof, a.Code = e.Class, e.Strength, e.Proof, e.Code
		a.Replayed, a.Ended, a.Lost = e.Replayed, s.ev.At, false
		a.NoEffect = a.NoEffect || s.provesNoEffect(e, s.ev.Attempt)
	} else if !provesEffect(e) {
		return s.refuse(RefusedStatus, "the attempt has ended already")
	}
	if provesEffect(e) {
		s.succeed(e.Result, e.Ref, s.answeredBy(a), s.answerReason(e, a))
		return nil
	}
	if !s.op.Status.Open() {
		s.note = noteStale
		return nil
	}
	if e.KeyMismatch {
		s.alarms = append(s.alarms, AlarmKeyMismatch)
	}
	s.fold(openReason(e))
	return nil
}

func (s *stepper) answeredBy(a *Attempt) SettledBy {
	switch {
	case a.Kind == AttemptResend:
		return ByResend
	case s.op.Status == Pending:
		return ByAnswer
	default:
		return ByNews
	}
}

func (s *stepper) answerReason(e *Evidence, a *Attempt) Reason {
	switch {
	case e.Class == ClassResultLost:
		return ReasonResultLost
	case e.ResultCut:
		return ReasonResultCut
	case s.op.Status == Pending || s.op.Status == FailedNoEffect || a.Kind == AttemptResend:
		return ReasonConfirmed
	default:
		return ReasonLateNews
	}
}

// provesNoEffect says whether evidence accounts for its own permit.
func (s *stepper) provesNoEffect(e *Evidence, n int) bool {
	if e.Class != ClassNotSent && e.Class != ClassRejected {
		return !holds(doubtIsUnknown)
	}
	switch e.Strength {
	case P1, P2, P3:
	case P4:
		if !s.op.Contract.Conventions && holds(conventionsAgreed) {
			return false
		}
	default:
		return false
	}
	// The conflict family may be the echo of our own success.
	return !(e.Class == ClassRejected && e.Conflict && s.op.mayHaveReached(n) > 0 && holds(conflictMayBeEcho))
}

// openReason names why an answer leaves the operation open.
func openReason(e *Evidence) Reason {
	switch {
	case e.KeyMismatch:
		return ReasonKeyMismatch
	case e.InFlight:
		return ReasonInFlight
	case e.Class == ClassAccepted:
		return ReasonAccepted
	case e.Class == ClassEffectPossible:
		return ReasonEffectPossible
	case e.Class == ClassNotSent:
		return ReasonNotSent
	case e.Class == ClassRejected && e.Transient:
		return ReasonTransient
	case e.Class == ClassRejected:
		return ReasonRejected
	default:
		return ReasonAmbiguous
	}
}

// fold derives the status of an open operation from all its attempts. The refusal of a
// later attempt is no verdict on an earlier one.
func (s *stepper) fold(last Reason) {
	for _, a := range s.next.Attempts {
		if a.NoEffect || a.N != s.ev.Attempt && !holds(everyPermitCounts) {
			continue
		}
		s.next.Status = Unknown
		switch last {
		case ReasonNotSent, ReasonGivenBack, ReasonSnapshot, ReasonRejected, ReasonTransient:
			if s.op.Status == Pending || s.next.Reason == ReasonNone {
				s.next.Reason = ReasonAmbiguous
			}
		default:
			s.next.Reason = last
		}
		if last == ReasonKeyMismatch {
			s.openReview(last)
		}
		return
	}
	s.next.Status, s.next.Reason, s.next.SettledBy = FailedNoEffect, last, ByAnswer
}

// succeed settles SUCCEEDED. Proof of the effect wins over FAILED_NO_EFFECT.
func (s *stepper) succeed(result []byte, ref string, by SettledBy, why Reason) {
	n := &s.next
	switch s.op.Status {
	case Succeeded, Compensated:
		if wantsResult(n) && result != nil {
			n.Reason = ReasonConfirmed
			s.keepResult(result)
		}
		if n.Ref == "" {
			n.Ref = ref
		}
		return
	case FailedNoEffect:
		s.alarms = append(s.alarms, AlarmConflict)
		if !holds(successWins) {
			return
		}
	}
	n.Status, n.Reason, n.SettledBy = Succeeded, why, by
	s.undoLate()
	if after := (Operation{Intent: s.op.Intent, State: *n}); after.copies() > 1 && holds(copiesHoldSubject) {
		n.Quiet = after.SafeAt()
	}
	if ref != "" {
		n.Ref = ref
	}
	s.keepResult(result)
}

// copies counts the requests of a convergent operation that may land: one is the effect, and
// another one would set the state once more, over a later change of the subject.
func (op *Operation) copies() (n int) {
	if op.Contract.Class != Convergent || (op.SubjectClaim == Digest{}) {
		return 0
	}
	for _, a := range op.Attempts {
		if !a.NoEffect {
			n++
		}
	}
	return n
}

func (s *stepper) keepResult(result []byte) {
	if result != nil {
		s.next.Result = result
	}
}

// wantsResult reports whether an effect is confirmed whose result was lost on the way.
func wantsResult(n *State) bool {
	return n.Status == Succeeded && n.Reason == ReasonResultLost && n.Result == nil
}
