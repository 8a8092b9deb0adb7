package pawl

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// ConfirmTerms declare which calls of a tool need a yes, from a person or the host
// application, before anything is sent. A contract without them never asks.
type ConfirmTerms struct {
	// Always: every call needs one. Otherwise the port says of each call whether it does: it
	// must be a Confirmer, and an error of its means ask.
	Always bool `json:"always,omitempty"`
	// TwoPersons: two different people must say yes, and none of them is the actor that asked.
	TwoPersons bool `json:"two_persons,omitempty"`
	// Expires is how long a yes is waited for; 0 means 24 hours.
	Expires time.Duration `json:"expires,omitempty"`
	// Valid is how long after the yes the request may begin to be sent; 0 means 15 minutes.
	Valid time.Duration `json:"valid,omitempty"`
}

// WatchTerms hold a call for a yes while another one that looks like it, of the same tool
// and tenant and under whatever identity, was asked for shortly before and may have had its
// effect.
type WatchTerms struct {
	// By names the identity fields and arguments in which look-alikes agree.
	By []string `json:"by"`
	// Within is how long before a look-alike counts.
	Within time.Duration `json:"within"`
}

// Defaults of ConfirmTerms.
const (
	DefaultConfirmExpires = 24 * time.Hour
	DefaultConfirmValid   = 15 * time.Minute
)

// Confirmer says whether a call needs a yes.
type Confirmer interface {
	Confirm(inv *Invocation) (bool, error)
}

// Approval is what the sending of an operation waits for, and what came of it. A yes is
// bound to the operation, its tool, tenant and actor, the exact bytes, the version of the
// contract and the time until which it is good; the first permit uses it up.
type Approval struct {
	// Why a yes is needed: ReasonApprovalNeeded or ReasonLookAlike.
	Why Reason `json:"why"`
	// LookAlikes are the operations that this one looks like.
	LookAlikes []ID `json:"look_alikes,omitempty"`
	// Persons is how many people must say yes.
	Persons int `json:"persons"`
	// Expires is the time until which a yes is taken.
	Expires time.Time `json:"expires"`
	// Valid is how long the request may begin to be sent once the last yes is given.
	Valid time.Duration `json:"valid"`
	// Yes has what was said so far.
	Yes []Yes `json:"yes,omitempty"`
	// Until is the time until which the request may begin to be sent; zero while a yes is
	// missing.
	Until time.Time `json:"until,omitzero"`
	// Used is the time of the permit that used it up.
	Used time.Time `json:"used,omitzero"`
}

// Yes is one person's or the host's word that an operation may be sent.
type Yes struct {
	Who string    `json:"who"`
	At  time.Time `json:"at"`
	// Decision is the id of the decision, Reference the host's own name for it.
	Decision  string `json:"decision"`
	Reference string `json:"reference,omitempty"`
	// Bound is the digest of all that was said yes to.
	Bound string `json:"bound"`
}

// newApproval is what a call has to wait for.
func newApproval(c *Contract, why Reason, now time.Time) *Approval {
	terms := ConfirmTerms{}
	if c.Confirm != nil {
		terms = *c.Confirm
	}
	a := &Approval{Why: why, Persons: 1, Expires: now.Add(DefaultConfirmExpires), Valid: DefaultConfirmValid}
	if terms.TwoPersons {
		a.Persons = 2
	}
	if terms.Expires > 0 {
		a.Expires = now.Add(terms.Expires)
	}
	if terms.Valid > 0 {
		a.Valid = terms.Valid
	}
	return a
}

// bound is the digest of everything that a yes to the operation is about.
func (op *Operation) bound() string {
	b, err := json.Marshal([]any{
		op.ID, op.Tool, op.Tenant, op.Actor, op.Key, op.Args, hexSHA256(op.Request), op.ContractHash, op.Approval.Expires.UTC(),
	})
	if err != nil {
		return "" // arguments that are no JSON were never recorded
	}
	return hexSHA256(b)
}

// unapproved says why an operation may not have its first permit at a time, or "" where it
// may. contract is the hash of the contract that its tool has now.
func (op *Operation) unapproved(now time.Time, contract string) string {
	a := op.Approval
	switch {
	case a == nil:
		return "nobody was asked"
	case !a.Used.IsZero():
		return "the yes has been used"
	case len(a.Yes) < a.Persons || a.Until.IsZero():
		return "nobody has said yes"
	case now.After(a.Until):
		return "the yes is too old"
	case contract != op.ContractHash:
		return "the tool's contract has changed since"
	}
	bound := op.bound()
	for _, y := range a.Yes {
		if y.Bound == "" || y.Bound != bound {
			return "the yes is for something else"
		}
	}
	return ""
}

// approved reports whether every yes is there, whatever has become of it since.
func (op *Operation) approved() bool {
	return op.Status == Prepared && op.Approval != nil && !op.Approval.Until.IsZero()
}

// lapsed says why a PREPARED operation cannot be sent any more, or ReasonNone where it can
// or may yet be approved.
func (op *Operation) lapsed(now time.Time, contract string) Reason {
	a := op.Approval
	switch {
	case op.Status != Prepared || a == nil:
		return ReasonNone
	case contract != "" && contract != op.ContractHash:
		return ReasonApprovalChanged
	case a.Until.IsZero() && now.After(a.Expires), !a.Until.IsZero() && now.After(a.Until):
		return ReasonApprovalExpired
	}
	return ReasonNone
}

// needsAnotherYes reports whether a repeat of a call that provably was not sent is too late
// for the yes that it had.
func (op *Operation) needsAnotherYes(now time.Time) bool {
	return op.Reopens() && op.Approval != nil && now.After(op.Approval.Until)
}

// firstPermit gives the permit that a PREPARED operation was approved for, and uses the yes.
func (s *stepper) firstPermit() error {
	if s.op.Status != Prepared {
		return s.refuse(RefusedStatus, "")
	}
	if why := s.op.unapproved(s.ev.At, s.ev.Contract); why != "" && holds(sentWithAYes) {
		return s.refuse(RefusedSend, why)
	}
	if s.ev.Lease.IsZero() || s.ev.NewToken == 0 && s.ev.Token != s.op.Token {
		return s.refuse(RefusedInput, "a permit starts a lease")
	}
	if s.ev.NewToken != 0 {
		s.next.Token = s.ev.NewToken
	}
	if s.op.Approval != nil {
		used := *s.op.Approval
		used.Used = s.ev.At
		s.next.Approval = &used
	}
	s.next.Status, s.next.Reason = Pending, ReasonNone
	s.next.Review, s.next.ReviewReason = time.Time{}, ReasonNone
	s.permit(AttemptFirst)
	return nil
}

// lapse ends an operation whose yes did not come in time, is too old, or was for a contract
// that has changed since. Nothing was sent. It needs no lease.
func (s *stepper) lapse() error {
	if s.op.Status != Prepared {
		return s.refuse(RefusedStatus, "")
	}
	why := s.op.lapsed(s.ev.At, s.ev.Contract)
	if why == ReasonNone {
		return s.refuse(RefusedEarly, "")
	}
	s.noEffect(why, "")
	return nil
}

// approve takes one yes.
func (s *stepper) approve(d *Decision) error {
	op := s.op
	if op.Status != Prepared || op.Approval == nil || op.approved() {
		return s.refuse(RefusedStatus, "")
	}
	if s.ev.At.After(op.Approval.Expires) {
		return s.refuse(RefusedLate, "a yes was waited for until "+op.Approval.Expires.UTC().Format(time.RFC3339))
	}
	if op.Approval.Persons > 1 && holds(twoPersonsDiffer) {
		if samePerson(d.Who, op.Actor) {
			return s.refuse(RefusedPersons, "who asks for it cannot approve it")
		}
		if slices.ContainsFunc(op.Approval.Yes, func(y Yes) bool { return samePerson(y.Who, d.Who) }) {
			return s.refuse(RefusedPersons, "two different people must say yes")
		}
	}
	a := *op.Approval
	a.Yes = append(slices.Clone(a.Yes), Yes{Who: d.Who, At: s.ev.At, Decision: d.ID, Reference: d.Reference, Bound: op.bound()})
	if len(a.Yes) >= a.Persons {
		a.Until = s.ev.At.Add(a.Valid)
		s.next.Reason = ReasonApproved
		s.next.Review, s.next.ReviewReason = time.Time{}, ReasonNone
	}
	s.next.Approval = &a
	return nil
}

func samePerson(a, b string) bool {
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}

// validate reports contradictions in what a contract declares about a yes.
func (c *Contract) validateConfirm(bad func(term, format string, args ...any)) {
	if f := c.Confirm; f != nil {
		checkTerm(bad, "confirm.expires", f.Expires)
		checkTerm(bad, "confirm.valid", f.Valid)
		if c.Class == Read {
			bad("confirm", "a read has no effect that needs a yes")
		}
	}
	w := c.Watch
	if w == nil {
		return
	}
	checkTerm(bad, "watch.within", w.Within)
	switch {
	case c.Class == Read:
		bad("watch", "a read has no effect to watch for")
	case len(w.By) == 0:
		bad("watch.by", "name what look-alikes agree in")
	case w.Within <= 0:
		bad("watch.within", "want a time, such as 10m")
	}
}

// safeConfirm asks the port; what goes wrong there means ask.
func safeConfirm(p Port, inv *Invocation) (ask bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			ask, err = true, errors.New("the tool cannot judge these arguments")
		}
	}()
	c, ok := p.(Confirmer)
	if !ok {
		return true, nil
	}
	return c.Confirm(inv)
}
