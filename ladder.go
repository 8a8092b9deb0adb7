package pawl

import (
	"slices"
	"time"
)

// MoveKind names a rung of the ladder from UNKNOWN to known.
type MoveKind string

const (
	MoveNone   MoveKind = "none"   // nothing moves by itself any more
	MoveProbe  MoveKind = "probe"  // ask the provider
	MoveResend MoveKind = "resend" // same bytes, same key
	MoveFence  MoveKind = "fence"  // make absence final
	MoveReview MoveKind = "review" // ask a person
	MoveQuiet  MoveKind = "quiet"  // let go of the subject
	MoveUndo   MoveKind = "undo"   // compensate what succeeded
	MovePermit MoveKind = "permit" // send what was approved
	MoveLapse  MoveKind = "lapse"  // nobody said yes in time
)

// Move is the next automatic step of an operation and the time from which it may be made.
type Move struct {
	Kind MoveKind
	At   time.Time
	// Why says for a review what the person is asked about.
	Why Reason
}

const (
	// probeSpacing is the least time between two probes whose "absent" both count.
	probeSpacing = time.Second
	// absentBeforeResend is the number of spaced, visible "absent" answers before a resend.
	absentBeforeResend = 2
	// absentBeforeFence is the same before a fence.
	absentBeforeFence = 1
	// resendMargin keeps a resend clear of the end of the key's retention.
	resendMargin = 10 * time.Second
	// reviewGrace is how long after quiescence inconclusive probes are still hoped for.
	reviewGrace = 15 * time.Minute
	// maxFenceTries and maxResultProbes bound what is asked without an answer.
	maxFenceTries   = 8
	maxResultProbes = 5
	// fastCap and slowCap bound the pause between probes before and after quiescence.
	fastCap = 5 * time.Minute
	slowCap = time.Hour
)

// Next says what may be done for an operation at the given time, or from when. It is a
// pure function, so the inline reconciler and the sweeper climb the same ladder: late
// news needs no move; then probe, resend, fence, absence after quiescence (which Step
// concludes from a probe) and, when no rung is left, a person.
func Next(op *Operation, now time.Time) Move {
	switch {
	case wantsResult(&op.State) && op.Contract.Probe != nil && op.Probes.Count < maxResultProbes:
		return Move{Kind: MoveProbe, At: op.nextProbe(fastCap)}
	case op.Status == Succeeded && op.Order == ChoiceCompensate:
		return Move{Kind: MoveUndo, At: later(op.Updated, op.undoableFrom())}
	case !op.Quiet.IsZero():
		return Move{Kind: MoveQuiet, At: op.Quiet.Add(time.Millisecond)}
	case op.Status == Prepared && op.Approval != nil:
		return op.nextPrepared(now)
	case op.Status != Unknown:
		return Move{Kind: MoveNone}
	case op.Order == ChoiceResend && op.orderBarred(ChoiceResend, now) == "":
		return Move{Kind: MoveResend, At: op.Updated}
	case op.Order == ChoiceFence && op.orderBarred(ChoiceFence, now) == "":
		return Move{Kind: MoveFence, At: op.Updated}
	}
	c := op.Contract
	var best Move
	consider := func(kind MoveKind, at time.Time) {
		if best.Kind == "" || at.Before(best.At) {
			best = Move{Kind: kind, At: at}
		}
	}
	safe := op.lastPermit().Add(c.expected()) // where nothing bounds it, a person is asked at some time
	hope := op.out()                          // a late answer may still come
	switch {
	case op.resendBarred(later(now, op.nextResend())) == "":
		if op.resendReady() {
			hope = true
			consider(MoveResend, op.nextResend())
		} else if !now.After(safe.Add(reviewGrace)) || op.Probes.Outcome == Absent {
			hope = true // the probe may yet say absent, or say it once more
		}
	case c.Fence != nil && op.fenceUseful() && op.asksAPerson() == ReasonNone:
		hope = true
		if !op.out() && (c.Probe == nil || op.Probes.Absent >= absentBeforeFence || now.After(safe)) {
			consider(MoveFence, op.Updated.Add(backoff(op.Probes.Tries, fastCap)))
		}
	}
	if c.Probe != nil {
		at := op.nextProbe(fastCap)
		if sure := safe.Add(time.Millisecond); !op.Probes.Last.After(safe) && at.After(sure) {
			at = sure // the first moment at which absence counts
		}
		switch {
		case !now.After(safe):
			hope = true
		case c.Probe.NegativeProof && !now.After(safe.Add(reviewGrace)):
			hope = true
		case !op.Probes.Last.After(safe):
			hope = true // however old the doubt is, the provider is asked before a person
		case !op.Review.IsZero():
			at = op.nextProbe(slowCap)
		}
		consider(MoveProbe, at)
	}
	if op.Review.IsZero() {
		if why := op.asksAPerson(); why != ReasonNone || !hope {
			if why == ReasonNone {
				why = op.Reason
			}
			return Move{Kind: MoveReview, At: now, Why: why}
		}
	}
	if best.Kind == "" {
		return Move{Kind: MoveNone}
	}
	return best
}

// nextPrepared is the next move of what waits for a yes.
func (op *Operation) nextPrepared(now time.Time) Move {
	a := op.Approval
	switch {
	case a.Until.IsZero():
		return Move{Kind: MoveLapse, At: a.Expires.Add(time.Millisecond)}
	case now.After(a.Until):
		return Move{Kind: MoveLapse, At: a.Until.Add(time.Millisecond)}
	default:
		return Move{Kind: MovePermit, At: op.Updated}
	}
}

// asksAPerson names what only a person can judge, whatever rungs are left.
func (op *Operation) asksAPerson() Reason {
	switch {
	case op.ReviewReason == ReasonDuplicateSeen || op.ReviewReason == ReasonCandidate || op.ReviewReason == ReasonKeyMismatch:
		return op.ReviewReason
	case op.Reason == ReasonKeyMismatch:
		return ReasonKeyMismatch
	default:
		return ReasonNone
	}
}

// resendReady reports whether the probe, where there is one, has said absent often enough
// since the last permit.
func (op *Operation) resendReady() bool {
	return op.Contract.Probe == nil || op.Probes.Absent >= absentBeforeResend || !holds(absentBeforeSend)
}

// resendBarred says why no resend is allowed from the time on, or "" where one is. Only a keyed
// tool inside its key's retention, counted from the first permit, or a convergent one
// inside its short horizon, whose subject lock keeps later changes out.
func (op *Operation) resendBarred(now time.Time) string {
	if op.asksAPerson() != ReasonNone {
		return "only a person can judge it"
	}
	return op.sendBarred(now)
}

// sendBarred is resendBarred for a person who has judged.
func (op *Operation) sendBarred(now time.Time) string {
	c := op.Contract
	if len(op.Attempts) >= c.MaxAttempts {
		return "the cap on attempts is reached"
	}
	if op.presumed() && c.asks() {
		return "nobody has said yes"
	}
	if op.Approval != nil && now.After(op.Approval.Until) && !slices.ContainsFunc(op.Attempts, Attempt.used) && holds(sentWithAYes) {
		return "the yes is too old"
	}
	if !op.Aborted.IsZero() && holds(abortStopsResends) {
		switch {
		case op.notCompensable() != "":
			return "its run was called off, and it could not be undone"
		case c.Fence != nil || c.Probe != nil && c.Probe.NegativeProof:
			return "its run was called off, and there are other ways to find out"
		}
	}
	if c.mayArriveAnyTime() {
		return "a caller's request may still arrive after the key is forgotten"
	}
	first := op.Attempts[0].Permit
	if !holds(firstPermitCounts) {
		first = op.Attempts[len(op.Attempts)-1].Permit
	}
	switch c.Class {
	case Keyed:
		if c.Retention == 0 {
			return "the key has no published retention"
		}
		if now.Add(c.Flight+c.Pause+resendMargin).After(first.Add(c.Retention)) && holds(retentionEnds) {
			return "the key's retention may end before the request arrives"
		}
		if c.PauseUnbounded && c.NotAfter+resendMargin > c.Retention && holds(callersPauseCounts) {
			return "a caller's request may arrive after the key is forgotten"
		}
	case Convergent:
		if c.ConvergentFor == 0 {
			return "the contract gives no horizon"
		}
		if (op.SubjectClaim == Digest{}) {
			return "the subject is not locked"
		}
		if !op.knowsBefore() {
			return "there is no state before to tell its effect from"
		}
		if now.After(first.Add(c.ConvergentFor)) {
			return "the horizon is over"
		}
	default:
		if holds(unsafeSentOnce) {
			return "the tool is " + string(c.Class)
		}
	}
	for _, a := range op.Attempts {
		if a.Class == ClassEffectPossible && (c.ReplaysErrors || c.Probe == nil) {
			return "the provider failed after it ran, so only a probe can tell"
		}
	}
	return ""
}

// fenceUseful reports whether a fence call can still change something.
func (op *Operation) fenceUseful() bool {
	return op.Probes.Fenced.IsZero() && op.Probes.Tries < maxFenceTries
}

// SafeAt is the time strictly after which no request of ours can land or be invisible:
// the last permit that is not accounted for, plus quiescence.
func (op *Operation) SafeAt() time.Time {
	return op.lastPermit().Add(op.Contract.Quiescence())
}

// tooEarly reports whether absence that was asked for at a time proves nothing.
func (op *Operation) tooEarly(asked time.Time) bool {
	safe := op.SafeAt()
	switch {
	case !holds(absenceWaits):
		return false
	case !holds(absenceIsStrict):
		return asked.Before(safe)
	default:
		return !asked.After(safe)
	}
}

// lastPermit is the time of the last permit that may still have an effect.
func (op *Operation) lastPermit() time.Time {
	if len(op.Attempts) > 0 && !holds(lastPermitCounts) {
		return op.Attempts[0].Permit
	}
	for i := len(op.Attempts) - 1; i >= 0; i-- {
		if !op.Attempts[i].NoEffect {
			return op.Attempts[i].Permit
		}
	}
	if len(op.Attempts) > 0 {
		return op.Attempts[len(op.Attempts)-1].Permit
	}
	return op.Created
}

// used reports whether a permit that is on record may have been used.
func (a Attempt) used() bool { return !a.NoEffect && a.Kind != AttemptPresumed }

// out reports whether an attempt is still on its way with a live holder.
func (op *Operation) out() bool {
	for _, a := range op.Attempts {
		if a.Out() {
			return true
		}
	}
	return false
}

// Reopens reports whether a repeat of the call gets the next attempt under the same key.
func (op *Operation) Reopens() bool {
	return op.Status == FailedNoEffect && (op.Aborted.IsZero() || !holds(abortStopsSteps)) &&
		(op.Reason == ReasonNotSent || op.Reason == ReasonGivenBack || op.Reason == ReasonSnapshot || op.Reason == ReasonTransient)
}

// nextProbe is the time of the next probe: at once, then at growing distances.
func (op *Operation) nextProbe(most time.Duration) time.Time {
	if op.Probes.Last.IsZero() {
		return op.Updated
	}
	return op.Probes.Last.Add(backoff(op.Probes.Count-1, most))
}

// nextResend is the time of the next resend, counted from the last news of an attempt.
func (op *Operation) nextResend() time.Time {
	last := op.Attempts[len(op.Attempts)-1]
	from := last.Ended
	if from.IsZero() {
		from = op.Updated
	}
	return from.Add(backoff(len(op.Attempts)-1, fastCap))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// backoff is 1 s, 2 s, 4 s … and at most the given pause.
func backoff(n int, most time.Duration) time.Duration {
	if n > 30 {
		return most
	}
	return min(time.Second<<max(n, 0), most)
}
