package pawl

import (
	"encoding/json"
	"time"
)

// Evidence is what was observed around one attempt. A Port fills it; the transition
// rules alone decide what follows. Class is decided from positive evidence, never from
// error text and never from the cause of a cancelled context.
type Evidence struct {
	// Class is what the observations prove.
	Class AttemptClass `json:"class"`
	// Strength grades the proof where Class is NOT_SENT or REJECTED.
	Strength Strength `json:"strength,omitempty"`
	// Proof names the rule that decided, such as "no_connection" or "status_table".
	Proof string `json:"proof,omitempty"`
	// Transient: the contract calls this refusal passing, so the operation may reopen.
	Transient bool `json:"transient,omitempty"`
	// Conflict: an answer of the conflict family, which on a later attempt may be the
	// echo of our own success and then proves nothing.
	Conflict bool `json:"conflict,omitempty"`
	// InFlight: the provider says that it still works on this key.
	InFlight bool `json:"in_flight,omitempty"`
	// KeyMismatch: the provider says that the key came with other parameters.
	KeyMismatch bool `json:"key_mismatch,omitempty"`
	// Replayed: the provider marks its answer as the replay of an earlier one.
	Replayed bool `json:"replayed,omitempty"`

	// Code is the protocol's status (HTTP status, gRPC code), 0 where none was seen.
	Code int `json:"code,omitempty"`
	// Header holds the response headers that matter, lower-case names.
	Header map[string]string `json:"header,omitempty"`
	// Body is the raw answer before anything decoded it, at most MaxBody bytes.
	Body []byte `json:"body,omitempty"`
	// ResultCut: the result was larger than MaxResult and is not kept.
	ResultCut bool `json:"result_cut,omitempty"`
	// BodySHA256 is the digest in hex of the whole body or result where it is cut.
	BodySHA256 string `json:"body_sha256,omitempty"`
	// BodySize is the size in bytes of the body as received.
	BodySize int64 `json:"body_size,omitempty"`

	// Result is the provider's result where Class is SUCCEEDED: JSON.
	Result json.RawMessage `json:"result,omitempty"`
	// Ref is the provider's own id of the effect, where the contract names it.
	Ref string `json:"ref,omitempty"`

	// BytesBegun counts the connection bytes whose write was begun for this request.
	BytesBegun int64 `json:"bytes_begun"`
	// BodyPulled counts the request-body bytes that the transport asked for.
	BodyPulled int64 `json:"body_pulled"`
	// Trace lists the transport's events in order, such as "dns", "dial", "tls", "first_byte".
	Trace []string `json:"trace,omitempty"`
	// Peer is the address the request went to.
	Peer string `json:"peer,omitempty"`
	// Error is for people. Nothing is ever decided by it.
	Error string `json:"error,omitempty"`
	// Took is the time from the permit's use to the end of the attempt.
	Took time.Duration `json:"took_ns,omitempty"`
}

// MaxBody is the number of bytes of an answer that are kept as evidence; a larger one
// is kept cut, with its digest.
const MaxBody = 64 << 10

// ProbeOutcome is a provider's answer to "did it happen?".
type ProbeOutcome string

const (
	// Found: the effect exists.
	Found ProbeOutcome = "found"
	// Absent: a complete and successful read shows no effect. Whether that settles
	// anything is for the ladder to say.
	Absent ProbeOutcome = "absent"
	// InProgress: the provider knows the request and still works on it.
	InProgress ProbeOutcome = "in_progress"
	// Inconclusive: an error, a timeout, an incomplete or an unreadable read.
	Inconclusive ProbeOutcome = "inconclusive"
)

// MatchKind says by what a probe recognised an effect.
type MatchKind string

const (
	// MatchKey: by our idempotency key.
	MatchKey MatchKind = "key"
	// MatchMarker: by a reference of ours that the request carried.
	MatchMarker MatchKind = "marker"
	// MatchState: by the state of a subject, compared with the snapshot before.
	MatchState MatchKind = "state"
	// MatchBusiness: by business fields and a time window.
	MatchBusiness MatchKind = "business"
)

// ProbeResult is what one probe saw.
type ProbeResult struct {
	Outcome ProbeOutcome `json:"outcome"`
	// Match says how the effect was recognised; it counts only where Outcome is Found.
	Match MatchKind `json:"match,omitempty"`
	// Count is the number of matching effects; more than one always goes to a person.
	Count int `json:"count,omitempty"`
	// Refs are the provider's ids of the matches.
	Refs []string `json:"refs,omitempty"`
	// Result is what the provider shows of the effect: JSON.
	Result json.RawMessage `json:"result,omitempty"`
	// Code, Body and Error are as in Evidence.
	Code  int    `json:"code,omitempty"`
	Body  []byte `json:"body,omitempty"`
	Error string `json:"error,omitempty"`
}

// FenceOutcome is a provider's answer to "see to it that it never happens".
type FenceOutcome string

const (
	// FenceHeld: the effect was absent when the fence was set.
	FenceHeld FenceOutcome = "held"
	// FenceFound: the effect already exists; the fence changed nothing.
	FenceFound FenceOutcome = "found"
	// FenceInconclusive: no usable answer.
	FenceInconclusive FenceOutcome = "inconclusive"
)

// FenceResult is what one fence call saw.
type FenceResult struct {
	Outcome FenceOutcome    `json:"outcome"`
	Ref     string          `json:"ref,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Code    int             `json:"code,omitempty"`
	Body    []byte          `json:"body,omitempty"`
	Error   string          `json:"error,omitempty"`
}
