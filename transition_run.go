package pawl

// abort tells an operation that its run was called off: it is never begun or sent anew,
// and what it did is undone. It needs no lease and ends none.
func (s *stepper) abort() error {
	switch {
	case s.op.Undoes != (ID{}):
		return s.refuse(RefusedStatus, "what undoes another operation is not called off")
	case !s.op.Aborted.IsZero():
		return s.refuse(RefusedStatus, "it has learnt so already")
	}
	s.keepLease, s.keepReview = true, true
	s.next.Aborted = s.ev.At
	if s.op.Status == Prepared {
		s.keepReview = false
		s.noEffect(ReasonRunAborted, "")
	}
	return nil
}

// compensated takes the news that another operation has undone this one.
func (s *stepper) compensated() error {
	if s.ev.UndoneBy == (ID{}) || s.ev.UndoneBy == s.op.ID {
		return s.refuse(RefusedInput, "nothing has undone it")
	}
	if s.op.Status != Succeeded {
		return s.refuse(RefusedStatus, "")
	}
	s.next.Status, s.next.Reason, s.next.UndoneBy = Compensated, ReasonNone, s.ev.UndoneBy
	s.next.Order = ""
	return nil
}

// notUndone takes the news that the order to undo the operation came to nothing.
func (s *stepper) notUndone() error {
	if s.op.Order != ChoiceCompensate {
		return s.refuse(RefusedStatus, "nobody ordered it")
	}
	s.next.Order = ""
	return nil
}

// orderUndo takes a person's order to undo a confirmed effect. It waits for what may still
// arrive.
func (s *stepper) orderUndo() error {
	op := s.op
	switch why := op.undoBarred(later(s.ev.At, op.undoableFrom())); {
	case op.Status != Succeeded:
		return s.refuse(RefusedStatus, "")
	case why != "":
		return s.refuse(RefusedSend, why)
	}
	s.late = true
	return nil
}

// undoLate orders what an aborted run has gone past already to be undone now: a success
// that comes after a person was asked, or after the contrary was believed.
func (s *stepper) undoLate() {
	past := s.op.Status == FailedNoEffect || !s.op.Review.IsZero()
	if !s.op.Aborted.IsZero() && past && s.op.notCompensable() == "" {
		s.late = true
	}
}
