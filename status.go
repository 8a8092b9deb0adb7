package pawl

// Status is where an operation stands. Three of the six are outcomes a caller may
// act on; UNKNOWN is one of them and is never dressed up as another.
type Status string

const (
	// Prepared: recorded, nothing can have been sent.
	Prepared Status = "PREPARED"
	// Pending: a permit is committed, so a request may be on the wire.
	Pending Status = "PENDING"
	// Succeeded: the effect exists.
	Succeeded Status = "SUCCEEDED"
	// FailedNoEffect: the effect does not exist and cannot still land.
	FailedNoEffect Status = "FAILED_NO_EFFECT"
	// Unknown: no proof either way.
	Unknown Status = "UNKNOWN"
	// Compensated: the effect existed and a confirmed compensation undid it.
	Compensated Status = "COMPENSATED"
)

// Open reports whether an operation in this status may still change by itself:
// open operations hold the cross-step guard and the subject lock.
func (s Status) Open() bool { return s == Prepared || s == Pending || s == Unknown }

// Settled reports whether the status is final unless stronger news arrives.
func (s Status) Settled() bool { return !s.Open() }

// Class says how a tool behaves when its request arrives twice.
type Class string

const (
	// Read has no effect; nothing is recorded.
	Read Class = "read"
	// Keyed honours an idempotency key for a published time.
	Keyed Class = "keyed"
	// Convergent reaches the same state however often the same bytes arrive, as long
	// as nothing else changes the subject in between.
	Convergent Class = "convergent"
	// Unsafe promises nothing: one request, and doubt goes to a probe or a person.
	Unsafe Class = "unsafe"
)

// AttemptClass is what the evidence of one attempt proves.
type AttemptClass string

const (
	// ClassNotSent: no request byte reached a peer that could act.
	ClassNotSent AttemptClass = "NOT_SENT"
	// ClassRejected: the peer says, with an obligation behind it, that it did not act.
	ClassRejected AttemptClass = "REJECTED"
	// ClassAmbiguous: bytes may have been acted on and nobody can say.
	ClassAmbiguous AttemptClass = "AMBIGUOUS"
	// ClassEffectPossible: the application ran and reported a failure without a no-effect contract.
	ClassEffectPossible AttemptClass = "EFFECT_POSSIBLE"
	// ClassAccepted: taken in, lands later.
	ClassAccepted AttemptClass = "ACCEPTED"
	// ClassSucceeded: the response proves the effect.
	ClassSucceeded AttemptClass = "SUCCEEDED"
	// ClassResultLost: the effect exists, its result could not be read.
	ClassResultLost AttemptClass = "RESULT_LOST"
)

// Strength grades a proof of no effect, strongest first. The zero value is no proof.
type Strength string

const (
	// P1: our own observation, such as zero bytes written.
	P1 Strength = "P1"
	// P2: an assertion of the protocol layer, such as REFUSED_STREAM.
	P2 Strength = "P2"
	// P3: a response that the tool's contract lists as "no effect".
	P3 Strength = "P3"
	// P4: a status-code convention; counts only where the contract accepts it.
	P4 Strength = "P4"
)

// Reason says why an operation or a refused call has its status. Programs branch on
// it; the envelope table maps every pair of status and reason to what the caller may do.
type Reason string

// Reasons of an operation's status.
const (
	ReasonNone           Reason = ""
	ReasonNotSent        Reason = "not_sent"        // every attempt proven unsent
	ReasonGivenBack      Reason = "given_back"      // the permit was returned unsent
	ReasonSnapshot       Reason = "snapshot"        // the same, because the state before could not be read
	ReasonRejected       Reason = "rejected"        // a definite refusal
	ReasonTransient      Reason = "transient"       // a refusal the contract calls transient
	ReasonNoAnswer       Reason = "no_answer"       // the wait for the answer ended first
	ReasonAmbiguous      Reason = "ambiguous"       // the attempt ended without proof
	ReasonEffectPossible Reason = "effect_possible" // the provider failed after it ran
	ReasonAccepted       Reason = "accepted"        // lands later
	ReasonInFlight       Reason = "in_flight"       // the provider still works on our key
	ReasonKeyMismatch    Reason = "key_mismatch"    // the provider saw our key with other parameters
	ReasonOwnerLost      Reason = "owner_lost"      // the worker died or its lease lapsed
	ReasonRestored       Reason = "restored"        // the store is a copy: it may have been sent
	ReasonConfirmed      Reason = "confirmed"       // the answer proves the effect
	ReasonResultLost     Reason = "result_lost"     // the effect exists, the result was unreadable
	ReasonResultCut      Reason = "result_cut"      // the effect exists, its result is too large to keep
	ReasonProbeFound     Reason = "probe_found"     // the provider shows the effect
	ReasonAbsent         Reason = "absent"          // absent after quiescence
	ReasonFenced         Reason = "fenced"          // the fence made absence final
	ReasonPerson         Reason = "person"          // a named person decided
	ReasonLateNews       Reason = "late_news"       // an answer that came after the wait
	ReasonCandidate      Reason = "candidate"       // a look-alike that only a person can judge
	ReasonDuplicateSeen  Reason = "duplicate_seen"  // the provider shows more than one
	ReasonReviewOpen     Reason = "review_open"     // only a person can find out
	ReasonRowRefused     Reason = "row_refused"     // the stored row failed its check

	ReasonRunAborted Reason = "run_aborted" // the run was called off; of a call: before it began
	ReasonNotInPlan  Reason = "not_in_plan" // the call is no step of its run's plan
	ReasonPlanOrder  Reason = "plan_order"  // an earlier step of the plan stands in its way

	ReasonApprovalNeeded  Reason = "approval_needed"  // a person or the host must say yes first
	ReasonLookAlike       Reason = "look_alike"       // the same, because it looks like another call
	ReasonApproved        Reason = "approved"         // the yes is there, nothing is sent yet
	ReasonNotApproved     Reason = "not_approved"     // a person said no
	ReasonWithdrawn       Reason = "withdrawn"        // who asked for it does not want it any more
	ReasonApprovalExpired Reason = "approval_expired" // no yes came in time, or it got too old
	ReasonApprovalChanged Reason = "approval_changed" // the tool's contract changed before it was sent
)

// Reasons of a call that was refused: nothing was sent for it.
const (
	ReasonUnknownTool       Reason = "unknown_tool"
	ReasonInvalidArguments  Reason = "invalid_arguments"
	ReasonIdentityMissing   Reason = "identity_missing"
	ReasonRunRequired       Reason = "run_required"
	ReasonLabelInvalid      Reason = "label_invalid"      // run, step, tenant, actor or an attribute
	ReasonDeadline          Reason = "deadline"           // too little time left to start
	ReasonParameterMismatch Reason = "parameter_mismatch" // same key, another guard value
	ReasonSubjectBusy       Reason = "subject_busy"       // another operation on the subject is open
	ReasonOpenElsewhere     Reason = "open_elsewhere"     // the same identity is open at another step
	ReasonDoneElsewhere     Reason = "done_elsewhere"     // the same identity succeeded at another step
	ReasonNotYours          Reason = "not_yours"          // the operation belongs to another actor
	ReasonGenerations       Reason = "generations"        // the cap on generations in a run is reached
	ReasonAttempts          Reason = "attempts"           // the cap on attempts for life is reached
	ReasonStore             Reason = "store"              // the intent could not be made durable
	ReasonBusy              Reason = "busy"               // the executor has as many open calls as it may
	ReasonStopping          Reason = "stopping"           // the executor takes no new calls
	ReasonRead              Reason = "read"               // a read: nothing is recorded
)
