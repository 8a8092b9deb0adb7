package pawl

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"sync"
	"time"
)

// ID names one operation: 48 bits of time and 80 random bits, so that rows arrive in
// order and no id can be guessed.
type ID [16]byte

// Time is the time at which the id was made, to the millisecond.
func (id ID) Time() time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)) }

// NewID returns a fresh id for an operation begun at the given time.
func NewID(at time.Time) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	rand.Read(id[6:]) // never fails
	return id
}

// ids gives the ids of one executor, which rise with each operation that it begins, also
// where its clock stands still for a moment.
type ids struct {
	mu   sync.Mutex
	last ID
}

// next is NewID, but above the id before it unless the clock was set back.
func (s *ids) next(at time.Time) ID {
	id := NewID(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if back := s.last.Time().Sub(id.Time()); back >= 0 && back < time.Second {
		// What is added is random, so the sum is as hard to guess as what is added.
		high, low := binary.BigEndian.Uint64(s.last[:8]), binary.BigEndian.Uint64(s.last[8:])
		sum, carry := bits.Add64(low, binary.BigEndian.Uint64(id[8:]), 0)
		binary.BigEndian.PutUint64(id[:8], high+carry)
		binary.BigEndian.PutUint64(id[8:], sum)
	}
	s.last = id
	return id
}

const idPrefix = "op_"

// String is the form people and programs see: "op_" and 32 hex digits.
func (id ID) String() string { return idPrefix + hex.EncodeToString(id[:]) }

// ParseID reads the form that String gives.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != len(idPrefix)+32 || s[:len(idPrefix)] != idPrefix {
		return id, fmt.Errorf("operation id: want %q and 32 hex digits", idPrefix)
	}
	if _, err := hex.Decode(id[:], []byte(s[len(idPrefix):])); err != nil {
		return id, fmt.Errorf("operation id: want %q and 32 hex digits", idPrefix)
	}
	return id, nil
}

// MarshalText gives the form of String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the form of String.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}

// Digest is a truncated SHA-256 that stores index: of an identity, a subject.
type Digest [16]byte

// Operation is one intended business effect: one id, one key, one record for its life.
type Operation struct {
	Intent
	State
}

// Intent is the part that Begin writes and nothing changes afterwards.
type Intent struct {
	ID     ID     `json:"id"`
	Tenant string `json:"tenant,omitempty"`
	Actor  string `json:"actor,omitempty"`
	Tool   string `json:"tool"`

	Run       string `json:"run,omitempty"`
	ParentRun string `json:"parent_run,omitempty"`
	Step      string `json:"step,omitempty"`
	Scope     Scope  `json:"scope"`
	Gen       int    `json:"gen,omitempty"`

	// Key is the root of the idempotency key; SecretID and Canonical are what it was made with.
	Key       Key    `json:"key"`
	SecretID  string `json:"secret_id,omitempty"`
	Canonical int    `json:"canonical"`
	// Identity holds the canonical identity fields: JSON.
	Identity json.RawMessage `json:"identity"`

	// The claims an operation holds, each unique within the store. IdentityClaim with Gen
	// is held for ever; StepClaim, of the identity in its run, while the operation is open;
	// OnceClaim, by the first step of a run that has the effect, or of a plan's step by its
	// call, while it is open or has succeeded; SubjectClaim while it is open. A zero digest
	// claims nothing.
	IdentityClaim Digest `json:"-"`
	StepClaim     Digest `json:"-"`
	OnceClaim     Digest `json:"-"`
	SubjectClaim  Digest `json:"-"`

	// Args are the canonical arguments: JSON.
	Args json.RawMessage `json:"args"`
	// Request is the exact outbound request, credentials by name only.
	Request []byte `json:"request"`
	// Effect is the effect in words.
	Effect string `json:"effect"`
	// Contract is pinned for the operation's life. Stores keep it once per hash.
	Contract     *Contract `json:"-"`
	ContractHash string    `json:"contract_hash"`
	// Deadline is the absolute end of the turn that began it.
	Deadline time.Time `json:"deadline"`
	// Created is the store's time of Begin.
	Created time.Time `json:"created"`
	// Attributes are the caller's labels for the record, such as a tool-call id. Never identity.
	Attributes map[string]string `json:"attributes,omitempty"`
	// Trace is the W3C trace context of the call that began it, where one was observed.
	Trace string `json:"trace,omitempty"`
	// Planned: the call was held to the plan of its run.
	Planned bool `json:"planned,omitempty"`
	// Undoes is the operation that this one compensates; zero where it is none.
	Undoes ID `json:"undoes,omitzero"`
}

// State is the part that changes, one Entry of history per change.
type State struct {
	Status Status `json:"status"`
	Reason Reason `json:"reason,omitempty"`
	// Version counts the entries of the history; every change adds one.
	Version int64 `json:"version"`
	// Token is what a writer must carry; a new one is given at each Begin and Claim.
	Token int64 `json:"token"`
	// Lease is the end of the holder's lease by the store's clock; zero when nobody holds it.
	Lease time.Time `json:"lease,omitzero"`
	// Due is the time from which a sweeper may claim it; zero means never by itself.
	Due time.Time `json:"due,omitzero"`
	// Updated is the store's time of the last change.
	Updated time.Time `json:"updated"`

	Attempts []Attempt `json:"attempts,omitempty"`
	Probes   Probes    `json:"probes,omitzero"`
	// Before is the snapshot read before the first attempt or the last retry: JSON.
	Before json.RawMessage `json:"before,omitempty"`
	// Result is the provider's result: JSON; nil where it is not known (yet).
	Result json.RawMessage `json:"result,omitempty"`
	// Ref is the provider's own id of the effect.
	Ref string `json:"ref,omitempty"`
	// SettledBy names the rung that settled it.
	SettledBy SettledBy `json:"settled_by,omitempty"`
	// Review is the time since when a person is asked; zero when nobody is.
	Review time.Time `json:"review,omitzero"`
	// ReviewReason says why.
	ReviewReason Reason `json:"review_reason,omitempty"`
	// Approval is what the first permit waits for, or waited for; nil where it needed no yes.
	Approval *Approval `json:"approval,omitempty"`
	// Order is what a person has ordered and nobody has done yet: ChoiceResend or ChoiceFence.
	Order Choice `json:"order,omitempty"`
	// Quiet is the time until which a further copy of a convergent request may land although
	// the operation has succeeded: its subject stays claimed until then. Zero where none can.
	Quiet time.Time `json:"quiet,omitzero"`
	// Aborted is the time at which the operation learnt that its run was called off.
	Aborted time.Time `json:"aborted,omitzero"`
	// UndoneBy is the operation that compensated this one.
	UndoneBy ID `json:"undone_by,omitzero"`
	// Chain is the hash of the last entry of the history.
	Chain []byte `json:"chain"`
}

// held returns the claims that an operation holds in a state.
func (s *State) held() ClaimsHeld {
	h := s.Status.Held()
	h.Subject = h.Subject || !s.Quiet.IsZero()
	return h
}

// Attempt is one permit and what became of it.
type Attempt struct {
	N      int         `json:"n"`
	Kind   AttemptKind `json:"kind"`
	Permit time.Time   `json:"permit"`
	Worker string      `json:"worker,omitempty"`
	// Class is empty while the attempt is out.
	Class    AttemptClass `json:"class,omitempty"`
	Strength Strength     `json:"strength,omitempty"`
	Proof    string       `json:"proof,omitempty"`
	Code     int          `json:"code,omitempty"`
	// NoEffect: this permit is accounted for and cannot have an effect any more.
	NoEffect bool `json:"no_effect,omitempty"`
	// Replayed: the answer was a stored failure, replayed.
	Replayed bool      `json:"replayed,omitempty"`
	Ended    time.Time `json:"ended,omitzero"`
	// Lost: the holder died or lost its lease while the attempt was out.
	Lost bool `json:"lost,omitempty"`
}

// Out reports whether nothing is known yet about the attempt.
func (a Attempt) Out() bool { return a.Class == "" && !a.Lost }

// AttemptKind says why a permit was given.
type AttemptKind string

const (
	AttemptFirst  AttemptKind = "first"
	AttemptRetry  AttemptKind = "retry"  // after FAILED_NO_EFFECT
	AttemptResend AttemptKind = "resend" // same bytes, same key, after UNKNOWN
	// AttemptPresumed is a permit that is not on record: it may have been given after the
	// store was copied.
	AttemptPresumed AttemptKind = "presumed"
)

// Probes sums up the probes since the last permit; the history has each.
type Probes struct {
	// Count is the number of probes asked for the operation's life.
	Count int `json:"count,omitempty"`
	// Absent counts the spaced, visible "absent" answers since the last permit.
	Absent int `json:"absent,omitempty"`
	// Last is the time the last probe was asked, Outcome its answer.
	Last    time.Time    `json:"last,omitzero"`
	Outcome ProbeOutcome `json:"outcome,omitempty"`
	// Fenced is the time since when a fence holds.
	Fenced time.Time `json:"fenced,omitzero"`
	// Tries counts the fence calls since the last permit.
	Tries int `json:"tries,omitempty"`
}

// SettledBy names what settled an operation.
type SettledBy string

const (
	ByAnswer SettledBy = "answer"
	ByNews   SettledBy = "late_news"
	ByProbe  SettledBy = "probe"
	ByResend SettledBy = "resend"
	ByFence  SettledBy = "fence"
	ByPerson SettledBy = "person"
)

// Entry is one line of an operation's history. Entries are chained by ChainHash over
// their stored bytes.
type Entry struct {
	Seq   int64     `json:"seq"`
	At    time.Time `json:"at"`
	Event string    `json:"event"`
	// By is who or what made the change: "caller", "worker w1", "sweeper w1", "person ana".
	By      string `json:"by"`
	From    Status `json:"from,omitempty"`
	To      Status `json:"to"`
	Reason  Reason `json:"reason,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Evidence, Probe, Fence and Decision say what the change rests on.
	Evidence *Evidence    `json:"evidence,omitempty"`
	Probe    *ProbeResult `json:"probe,omitempty"`
	Fence    *FenceResult `json:"fence,omitempty"`
	Decision *Decision    `json:"decision,omitempty"`
	Note     string       `json:"note,omitempty"`
}

// begun is the first entry of an operation's history.
type begun struct {
	entry Entry
	raw   []byte
}

// newOperation is the state that Begin writes: the intent with its first permit.
func newOperation(in *Intent, now time.Time, lease time.Duration, worker string) (*Operation, *begun, error) {
	in.Created = now
	op := &Operation{Intent: *in, State: State{
		Status: Pending, Version: 1, Token: newToken(), Lease: now.Add(lease), Due: now.Add(lease), Updated: now,
		Attempts: []Attempt{{N: 1, Kind: AttemptFirst, Permit: now, Worker: worker}},
	}}
	first := &begun{entry: Entry{Seq: 1, At: now, Event: string(EventBegin), By: worker, To: Pending, Attempt: 1}}
	var err error
	if first.raw, err = EncodeEntry(&first.entry); err != nil {
		return nil, nil, fmt.Errorf("encode history: %w", err)
	}
	op.Chain = ChainHash(nil, first.raw)
	return op, first, nil
}
