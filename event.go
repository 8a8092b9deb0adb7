package pawl

import "time"

// EventKind names what can happen to an operation.
type EventKind string

const (
	EventBegin    EventKind = "begin"     // the intent and the first permit are recorded
	EventPermit   EventKind = "permit"    // the first permit of what was approved
	EventLapse    EventKind = "lapse"     // no yes came in time, or it is good no more
	EventRetry    EventKind = "retry"     // a permit after FAILED_NO_EFFECT
	EventResend   EventKind = "resend"    // a permit after UNKNOWN: same bytes, same key
	EventSnapshot EventKind = "snapshot"  // the state before was read, under a permit not used yet
	EventGiveBack EventKind = "give_back" // a permit returned unsent by its live holder
	EventNoAnswer EventKind = "no_answer" // the wait for an answer ended; the attempt is still out
	EventAnswer   EventKind = "answer"    // an attempt ended with evidence
	EventTakeover EventKind = "takeover"  // another worker found a lapsed lease
	EventProbe    EventKind = "probe"     // a probe was answered
	EventFence    EventKind = "fence"     // a fence was answered
	EventReview   EventKind = "review"    // no automatic move is left
	EventRestore  EventKind = "restore"   // the store is a copy: permits may be missing
	EventDecide   EventKind = "decide"    // a named person decided
	EventQuiet    EventKind = "quiet"     // no further copy of a convergent request can land

	EventAbort       EventKind = "abort"       // the run was called off
	EventCompensated EventKind = "compensated" // another operation has undone this one
	EventNotUndone   EventKind = "not_undone"  // an order to undo it came to nothing
)

// Event is one thing that happened to an operation, as Step takes it.
type Event struct {
	Kind EventKind
	// At is the store's time of the event; Asked the store's time at which a probe or
	// fence was asked, which is what its answer speaks about.
	At    time.Time
	Asked time.Time
	// By is who or what reports it.
	By string
	// Token is the one of the reporter's lease. It is not looked at for EventDecide.
	Token int64
	// NewToken starts a new lease: with EventRetry and EventRestore always, with EventTakeover and EventPermit
	// where the store has not given one already.
	NewToken int64
	// Lease is the end of the reporter's lease after the event; zero releases it.
	Lease time.Time

	// Attempt is the number of the attempt that EventSnapshot, EventGiveBack,
	// EventNoAnswer and EventAnswer speak of.
	Attempt  int
	Evidence *Evidence
	Probe    *ProbeResult
	Fence    *FenceResult
	Decision *Decision
	// Contract is the hash of the contract that the tool has now, for EventPermit and
	// EventLapse.
	Contract string
	// Restore is what EventRestore rests on.
	Restore *Restore
	// UndoneBy is the compensation that EventCompensated speaks of.
	UndoneBy ID
	// Before is what EventSnapshot read.
	Before []byte
	// Reason is why EventReview asks a person, or why EventGiveBack returns the permit:
	// ReasonGivenBack where it is empty.
	Reason Reason
	Note   string
}

// Refusal is why Step does not make a transition. It is an answer, not a fault.
type Refusal struct {
	Event  EventKind
	Status Status
	Why    RefusalCode
	Detail string
}

// RefusalCode names why an event may not change an operation.
type RefusalCode string

const (
	// RefusedStale: the reporter's lease is over and it does not report a success.
	RefusedStale RefusalCode = "stale_token"
	// RefusedStatus: the event has no place in this status.
	RefusedStatus RefusalCode = "status"
	// RefusedLease: the lease of another worker still runs.
	RefusedLease RefusalCode = "lease_held"
	// RefusedSend: the rules do not allow another request now.
	RefusedSend RefusalCode = "send_not_allowed"
	// RefusedEarly: absence cannot be concluded yet.
	RefusedEarly RefusalCode = "too_early"
	// RefusedVersion: the person saw another version.
	RefusedVersion RefusalCode = "version"
	// RefusedLate: the time in which it could be said is over.
	RefusedLate RefusalCode = "too_late"
	// RefusedPersons: another person has to say it.
	RefusedPersons RefusalCode = "persons"
	// RefusedDecision: the id of the decision names another one.
	RefusedDecision RefusalCode = "decision"
	// RefusedInput: the event lacks something.
	RefusedInput RefusalCode = "input"
)

func (r *Refusal) Error() string {
	s := string(r.Event) + " refused in " + string(r.Status) + ": " + string(r.Why)
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return s
}

// Transition is what Step decides.
type Transition struct {
	State  State
	Entry  Entry
	Alarms []Alarm
}
