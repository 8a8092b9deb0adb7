package pawl

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Contract is what is declared about one tool: how it behaves when a request is
// lost, late or repeated. Absent means unknown, and unknown never permits a send.
// The zero value of every field is the cautious one. An operation keeps the contract
// it began under for its whole life.
type Contract struct {
	// Tool is the name callers use.
	Tool string `json:"tool"`
	// Class defaults to Unsafe.
	Class Class `json:"class"`

	// Identity lists the fields that make two calls the same intention.
	Identity []Field `json:"identity,omitempty"`
	// IdentityNone declares that the scope alone is the identity.
	IdentityNone bool `json:"identity_none,omitempty"`
	// IdentityAll makes the whole argument object the identity: undeclared tools.
	IdentityAll bool `json:"identity_all,omitempty"`
	// Free lists argument names or JSON pointers that may differ between repeats.
	// Every argument that is neither identity nor free is a guard.
	Free []string `json:"free,omitempty"`
	// Scope says how far the identity reaches. It defaults to ScopeStep.
	Scope Scope `json:"scope"`
	// Repeat says whether another step of a run may repeat a success. It defaults to RepeatStep.
	Repeat Repeat `json:"repeat"`
	// AfterRejection says what a repeat after a definite refusal does. It defaults to AfterRejectionReplay.
	AfterRejection AfterRejection `json:"after_rejection"`
	// MaxGenerations caps the generations of one identity in a run; 0 means 3.
	MaxGenerations int `json:"max_generations,omitempty"`
	// MaxAttempts caps the attempts of one operation for its whole life; 0 means 8.
	MaxAttempts int `json:"max_attempts,omitempty"`
	// Shared lets every actor of the tenant see the result.
	Shared bool `json:"shared,omitempty"`
	// Serialize names the identity fields that make up the subject: while an operation on
	// it is open, no other operation on the same subject begins. Tools that name the same
	// fields share subjects.
	Serialize []string `json:"serialize,omitempty"`

	// Timeout bounds one wait for the answer; 0 means 10 s.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Linger is how long the attempt listens for a late answer after the wait; 0 means 20 s.
	Linger time.Duration `json:"linger,omitempty"`
	// MinTime is the least time left in the turn for a start; 0 means 1 s.
	MinTime time.Duration `json:"min_time,omitempty"`

	// Flight is the longest time from the write of a request to its arrival or loss;
	// 0 means 15 minutes. It is at least Timeout + Linger.
	Flight time.Duration `json:"flight,omitempty"`
	// Pause is the longest time between the permit's commit and the write; 0 means 1 minute.
	Pause time.Duration `json:"pause,omitempty"`
	// Landing is the longest time between "accepted" and the effect.
	Landing time.Duration `json:"landing,omitempty"`
	// NotAfter is set where the receiver refuses arrivals later than permit + NotAfter;
	// quiescence then does not depend on Flight and Pause.
	NotAfter time.Duration `json:"not_after,omitempty"`

	// CallerSends: the operation began with Executor.Permit, and its caller sends its first
	// request and those after FAILED_NO_EFFECT. An executor sets it; no tool declares it.
	CallerSends bool `json:"caller_sends,omitempty"`
	// PauseUnbounded: nobody declared how long that caller may pause between permit and write.
	// Only NotAfter then bounds when a request may still arrive.
	PauseUnbounded bool `json:"pause_unbounded,omitempty"`

	// Retention is the published minimum life of a key; 0 means none is published, and
	// then nothing is ever sent again.
	Retention time.Duration `json:"retention,omitempty"`
	// ReplaysErrors: the provider stores failures under the key and replays them, so that
	// after a replayed failure only a probe can tell more.
	ReplaysErrors bool `json:"replays_errors,omitempty"`
	// ConvergentFor is how long after the first permit a convergent tool may resend.
	ConvergentFor time.Duration `json:"convergent_for,omitempty"`

	// Probe is nil where the provider cannot be asked.
	Probe *ProbeTerms `json:"probe,omitempty"`
	// Fence is nil where the provider has none.
	Fence *FenceTerms `json:"fence,omitempty"`
	// Snapshot: the port reads the state before the first attempt.
	Snapshot bool `json:"snapshot,omitempty"`

	// Conventions accepts a status-code convention (P4) as a proof of no effect.
	Conventions bool `json:"conventions,omitempty"`
	// Confirm is nil where no call needs a yes; Watch where look-alikes are not held for one.
	Confirm *ConfirmTerms `json:"confirm,omitempty"`
	Watch   *WatchTerms   `json:"watch,omitempty"`
	// Irreversible: no compensation exists.
	Irreversible bool `json:"irreversible,omitempty"`
	// Compensation is nil where none is declared.
	Compensation *CompensationTerms `json:"compensation,omitempty"`
	// Corrective says what people can do about an effect that cannot be undone, such as "send
	// a correction e-mail".
	Corrective string `json:"corrective,omitempty"`
	// Effect is the text of the effect for people, such as "refund of 49.90 EUR on order
	// A-1182", with {field} standing for canonical identity fields and scalar arguments.
	Effect string `json:"effect,omitempty"`
	// Source is the text the contract was compiled from, pinned with it.
	Source string `json:"source,omitempty"`
}

// Scope says how far an identity reaches.
type Scope string

const (
	ScopeStep      Scope = "step"       // the step of a run; a call without a step gets ScopeRun
	ScopeRun       Scope = "run"        // the whole run
	ScopeParentRun Scope = "parent_run" // every run of one parent
	ScopeBusiness  Scope = "business"   // every run of the tenant
)

// Repeat says whether another step of the same run may repeat a success.
type Repeat string

const (
	RepeatStep     Repeat = "step"     // another step of the host's plan is another effect
	RepeatExplicit Repeat = "explicit" // only with Call.Again, which comes from the host
)

// AfterRejection says what a repeat of a definitely refused call does.
type AfterRejection string

const (
	AfterRejectionReplay        AfterRejection = "replay"
	AfterRejectionNewGeneration AfterRejection = "new_generation"
)

// ProbeTerms declares what a probe is worth.
type ProbeTerms struct {
	// Lag is the longest time until an effect is visible to the probe.
	Lag time.Duration `json:"lag,omitempty"`
	// NegativeProof: absent, asked after quiescence, proves that there is no effect.
	NegativeProof bool `json:"negative_proof,omitempty"`
	// SoleWriter: nobody but pawl makes this change to this subject, so a match by state
	// or business fields counts like one by key where the tool also serialises.
	SoleWriter bool `json:"sole_writer,omitempty"`
	// ShowsProgress: the probe shows accepted work that has not landed, so that Landing
	// is no term of quiescence.
	ShowsProgress bool `json:"shows_progress,omitempty"`
}

// FenceTerms declares what a fence is worth.
type FenceTerms struct {
	// RefusesLater: a later arrival under the fenced key is refused.
	RefusesLater bool `json:"refuses_later,omitempty"`
	// Tombstone is how long the refusal lasts.
	Tombstone time.Duration `json:"tombstone,omitempty"`
}

// Defaults of the terms that a contract leaves open.
const (
	DefaultTimeout        = 10 * time.Second
	DefaultLinger         = 20 * time.Second
	DefaultMinTime        = time.Second
	DefaultFlight         = 15 * time.Minute
	DefaultPause          = time.Minute
	DefaultMaxAttempts    = 8
	DefaultMaxGenerations = 3
)

// WithDefaults returns the contract with every open term replaced by its default.
func (c Contract) WithDefaults() Contract {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Class == "" {
		c.Class = Unsafe
	}
	if c.Scope == "" {
		c.Scope = ScopeStep
	}
	if c.Repeat == "" {
		c.Repeat = RepeatStep
	}
	if c.AfterRejection == "" {
		c.AfterRejection = AfterRejectionReplay
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = DefaultMaxAttempts
	}
	if c.MaxGenerations == 0 {
		c.MaxGenerations = DefaultMaxGenerations
	}
	def(&c.Timeout, DefaultTimeout)
	def(&c.Linger, DefaultLinger)
	def(&c.MinTime, DefaultMinTime)
	if !holds(flightIsDeclared) {
		def(&c.Flight, c.Timeout+c.Linger)
	}
	def(&c.Flight, max(DefaultFlight, c.Timeout+c.Linger))
	def(&c.Pause, DefaultPause)
	return c
}

// TermError is a contradiction in one term of a contract.
type TermError struct {
	// Tool is the contract's tool, Term the term as the contract file writes it, such as
	// "retention" or "probe.lag", and Field the identity field at fault, if it is one.
	Tool  string
	Term  string
	Field string
	// What is wrong.
	What string
}

// Error gives tool, term and reason on one line.
func (e *TermError) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("tool %q: %s: field %q: %s", e.Tool, e.Term, e.Field, e.What)
	}
	return fmt.Sprintf("tool %q: %s: %s", e.Tool, e.Term, e.What)
}

// Validate reports every contradiction in the contract, joined, each a *TermError.
func (c Contract) Validate() error {
	var errs []error
	bad := func(term, format string, args ...any) {
		errs = append(errs, &TermError{Tool: c.Tool, Term: term, What: fmt.Sprintf(format, args...)})
	}
	d := c.WithDefaults()
	if c.Tool == "" {
		bad("tool", "the name is empty")
	}
	switch d.Class {
	case Read, Keyed, Convergent, Unsafe:
	default:
		bad("class", "%q is none of read, keyed, convergent, unsafe", c.Class)
	}
	switch d.Scope {
	case ScopeStep, ScopeRun, ScopeParentRun, ScopeBusiness:
	default:
		bad("scope", "%q is none of step, run, parent_run, business", c.Scope)
	}
	switch d.Repeat {
	case RepeatStep, RepeatExplicit:
	default:
		bad("repeat", "%q is none of step, explicit", c.Repeat)
	}
	switch d.AfterRejection {
	case AfterRejectionReplay, AfterRejectionNewGeneration:
	default:
		bad("after_rejection", "%q is none of replay, new_generation", c.AfterRejection)
	}
	for _, t := range []struct {
		name string
		d    time.Duration
	}{
		{"timeout", c.Timeout}, {"linger", c.Linger}, {"min_time", c.MinTime}, {"flight", c.Flight}, {"pause", c.Pause},
		{"landing", c.Landing}, {"not_after", c.NotAfter}, {"retention", c.Retention}, {"convergent_for", c.ConvergentFor},
	} {
		checkTerm(bad, t.name, t.d)
	}
	for _, t := range []struct {
		name string
		n    int
	}{{"max_attempts", c.MaxAttempts}, {"max_generations", c.MaxGenerations}} {
		if t.n < 0 || t.n > maxCount {
			bad(t.name, "want 1 to %d, got %d", maxCount, t.n)
		}
	}
	if d.Class != Read {
		given := 0
		for _, b := range []bool{len(c.Identity) > 0, c.IdentityNone, c.IdentityAll} {
			if b {
				given++
			}
		}
		if given != 1 {
			bad("identity", "want exactly one of a list of fields, none or all, got %d of them", given)
		}
		if d.Flight < d.Timeout+d.Linger {
			bad("flight", "%v is less than timeout + linger = %v, for which the connection stays open", d.Flight, d.Timeout+d.Linger)
		}
	}
	if c.Retention > 0 && d.Class != Keyed {
		bad("retention", "only a keyed tool has one, class is %s", d.Class)
	}
	if c.ConvergentFor > 0 && d.Class != Convergent {
		bad("convergent_for", "only a convergent tool resends by state, class is %s", d.Class)
	}
	if c.ConvergentFor > 0 && len(c.Serialize) == 0 {
		bad("convergent_for", "needs serialize, or a resend could undo a later change of the same subject")
	}
	if p := c.Probe; p != nil {
		checkTerm(bad, "probe.lag", p.Lag)
	}
	if p := c.Probe; p != nil && p.SoleWriter && len(c.Serialize) == 0 {
		bad("probe.sole_writer", "needs serialize, or two operations of our own could be taken for each other")
	}
	if f := c.Fence; f != nil {
		checkTerm(bad, "fence.tombstone", f.Tombstone)
	}
	d.validateConfirm(bad)
	d.validateCompensation(bad)
	names, folded := map[string]bool{}, map[string]bool{}
	for _, f := range c.Identity {
		fold, _ := foldKey(f.Name)
		if f.Name == "" {
			bad("identity", "a field has no name")
		} else if folded[fold] {
			bad("identity", "field %q is named twice, in this or another case", f.Name)
		}
		names[f.Name], folded[fold] = true, true
		if err := f.validate(); err != nil {
			errs = append(errs, &TermError{Tool: c.Tool, Term: "identity", Field: f.Name, What: err.Error()})
		}
	}
	for _, s := range c.Serialize {
		if !names[s] {
			bad("serialize", "%q is no identity field", s)
		}
	}
	return errors.Join(errs...)
}

const (
	// maxTerm bounds every duration of a contract, so that sums of them never overflow.
	maxTerm = 10 * 365 * 24 * time.Hour
	// maxCount bounds the attempts and generations of a contract.
	maxCount = 100
)

func checkTerm(bad func(term, format string, args ...any), name string, d time.Duration) {
	if d < 0 || d > maxTerm {
		bad(name, "want 0 to 10 years, got %v", d)
	}
}

// unbounded is the quiescence of what may arrive at any time.
const unbounded = 100 * 365 * 24 * time.Hour

// mayArriveAnyTime reports whether nothing bounds when a caller's request arrives.
func (c *Contract) mayArriveAnyTime() bool {
	return c.PauseUnbounded && c.NotAfter == 0 && holds(callersPauseCounts)
}

// Quiescence is the time after the last permit before which "absent" proves nothing;
// absence counts strictly after it. It is a hundred years where nothing bounds it.
func (c Contract) Quiescence() time.Duration {
	if c.mayArriveAnyTime() {
		return unbounded
	}
	return c.expected()
}

// expected is the time after which a request should have landed and be visible.
func (c *Contract) expected() time.Duration {
	var lag, landing time.Duration = 0, c.Landing
	if c.Probe != nil {
		lag = c.Probe.Lag
		if c.Probe.ShowsProgress {
			landing = 0
		}
	}
	if !holds(lagCounts) {
		lag = 0
	}
	if !holds(landingCounts) {
		landing = 0
	}
	if c.NotAfter > 0 {
		return c.NotAfter + landing + lag
	}
	if !holds(pauseCounts) {
		return c.Flight + landing + lag
	}
	return c.Flight + c.Pause + landing + lag
}

// Hash identifies the contract: the hex SHA-256 of its JSON.
func (c Contract) Hash() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic("pawl: contract does not marshal: " + err.Error()) // every field is plain data
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
