package pawl

// probe takes the answer to "did it happen?".
func (s *stepper) probe() error {
	p := s.ev.Probe
	if p == nil || s.ev.Asked.IsZero() {
		return s.refuse(RefusedInput, "no answer of a probe")
	}
	n := &s.next
	if s.op.Status == Prepared || s.op.Status == Compensated {
		return s.refuse(RefusedStatus, "")
	}
	spaced := n.Probes.Last.IsZero() || s.ev.Asked.Sub(n.Probes.Last) >= probeSpacing
	n.Probes.Count++
	n.Probes.Last, n.Probes.Outcome = s.ev.Asked, p.Outcome
	switch p.Outcome {
	case Found:
		s.found(p)
	case Absent:
		if s.op.Status == Unknown {
			if n.Reason == ReasonInFlight {
				n.Reason = ReasonAmbiguous
			}
			s.absent(spaced)
		}
	case InProgress:
		n.Probes.Absent = 0
		if s.op.Status == Unknown {
			n.Reason = ReasonInFlight
		}
	}
	return nil
}

func (s *stepper) found(p *ProbeResult) {
	ours := p.Match == MatchKey || p.Match == MatchMarker
	if s.op.Status.Settled() && !ours {
		return // the subject is not held any more: it may be another one's
	}
	if p.Count > 1 {
		s.alarms = append(s.alarms, AlarmDuplicate)
		s.note, s.duplicate = "more than one effect seen", true
		if s.op.Status.Open() {
			s.openReview(ReasonDuplicateSeen)
		}
		return
	}
	exact := ours || !holds(lookAlikesAsk) ||
		(s.op.Contract.Probe != nil && s.op.Contract.Probe.SoleWriter && s.op.SubjectClaim != Digest{} && s.op.knowsBefore())
	switch {
	case exact:
		ref := ""
		if len(p.Refs) == 1 {
			ref = p.Refs[0]
		}
		s.succeed(p.Result, ref, ByProbe, ReasonProbeFound)
	case s.op.Status == Unknown:
		s.openReview(ReasonCandidate)
	}
}

// absent counts only if an effect would have been visible when the probe was asked, and
// settles only after quiescence where the contract calls it proof.
func (s *stepper) absent(spaced bool) {
	c, last := s.op.Contract, s.op.lastPermit()
	visible := c.Landing
	if c.Probe != nil {
		visible += c.Probe.Lag
	}
	if spaced && s.ev.Asked.Sub(last) >= visible {
		s.next.Probes.Absent++
	}
	if s.op.tooEarly(s.ev.Asked) || s.op.out() || s.op.asksAPerson() != ReasonNone {
		return
	}
	switch {
	case c.Probe == nil || !c.Probe.NegativeProof: // it may miss what exists
	case !s.next.Probes.Fenced.IsZero():
		s.noEffect(ReasonFenced, ByFence)
	default:
		s.noEffect(ReasonAbsent, ByProbe)
	}
}

// noEffect settles FAILED_NO_EFFECT by a rung that accounts for every permit at once.
func (s *stepper) noEffect(why Reason, by SettledBy) {
	for i := range s.next.Attempts {
		s.next.Attempts[i].NoEffect = true
	}
	s.next.Status, s.next.Reason, s.next.SettledBy = FailedNoEffect, why, by
}

// fence takes the answer to "see to it that it never happens".
func (s *stepper) fence() error {
	f, c := s.ev.Fence, s.op.Contract
	if f == nil || c.Fence == nil {
		return s.refuse(RefusedInput, "no answer of a fence")
	}
	if s.op.Status != Unknown {
		return s.refuse(RefusedStatus, "")
	}
	s.next.Probes.Tries++
	s.next.Order = ""
	switch f.Outcome {
	case FenceFound:
		s.succeed(f.Result, f.Ref, ByFence, ReasonProbeFound)
	case FenceHeld:
		s.next.Probes.Fenced = s.ev.At
		if c.fenceIsFinal() {
			s.noEffect(ReasonFenced, ByFence)
		}
	}
	return nil
}

// fenceIsFinal reports whether a held fence alone settles: it outlives everything that may
// still arrive, and nothing that has arrived lands later.
func (c *Contract) fenceIsFinal() bool {
	if c.Landing > 0 || c.mayArriveAnyTime() {
		return false
	}
	outlive := c.Flight + c.Pause
	if c.NotAfter > 0 {
		outlive = min(outlive, c.NotAfter)
	}
	return c.Fence.RefusesLater && (c.Fence.Tombstone > outlive || !holds(fenceOutlives))
}

// knowsBefore reports whether what a probe sees can be told from the state before, where
// the contract asks for it.
func (op *Operation) knowsBefore() bool { return !op.Contract.Snapshot || op.Before != nil }
