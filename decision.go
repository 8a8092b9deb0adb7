package pawl

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Choice is one of the moves that a person can make about an operation.
type Choice string

const (
	// ChoiceHappened: the effect exists.
	ChoiceHappened Choice = "happened"
	// ChoiceDidNotHappen: the effect does not exist and cannot still land.
	ChoiceDidNotHappen Choice = "did_not_happen"
	// ChoiceResend orders a resend: the same bytes under the same key.
	ChoiceResend Choice = "resend"
	// ChoiceFence orders a fence: see to it at the provider that it never happens.
	ChoiceFence Choice = "fence"
	// ChoiceApprove lets what is PREPARED be sent.
	ChoiceApprove Choice = "approve"
	// ChoiceReject ends what is PREPARED: a person said no.
	ChoiceReject Choice = "reject"
	// ChoiceWithdraw ends what is PREPARED: who asked for it does not want it any more.
	ChoiceWithdraw Choice = "withdraw"
	// ChoiceCompensate orders that a confirmed effect is undone.
	ChoiceCompensate Choice = "compensate"
	// ChoiceNote adds a remark to the record and changes nothing else.
	ChoiceNote Choice = "note"
)

// Choices lists every choice, in the order in which people are offered them.
var Choices = []Choice{
	ChoiceApprove, ChoiceReject, ChoiceWithdraw, ChoiceHappened, ChoiceDidNotHappen, ChoiceResend, ChoiceFence, ChoiceCompensate, ChoiceNote,
}

// MaxDecision is the number of bytes that each text of a Decision may have.
const MaxDecision = 4 << 10

// Decision is what a named person, or the host application by its own rules, decides about
// an operation. It never comes from a model.
type Decision struct {
	// ID names the decision within its operation: given again with the same content it
	// changes nothing and has the same answer, with other content it is refused. Decide makes
	// one where there is none.
	ID     string `json:"id,omitempty"`
	Choice Choice `json:"choice"`
	// Who and Why are mandatory.
	Who string `json:"who"`
	Why string `json:"why"`
	// Ref and Result are the provider's, where the effect exists.
	Ref    string          `json:"ref,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Waiver, a reason of its own, lets "it did not happen" through before the first safe time.
	Waiver string `json:"waiver,omitempty"`
	// Reference is the decider's own name for the decision, such as the id of a ticket.
	Reference string `json:"reference,omitempty"`
	// Version is the version of the operation that the person saw.
	Version int64 `json:"version"`
}

// Decide records a decision and its consequence in one transaction. What was ordered is
// done by whoever works on the operation next; what was approved is sent by the next repeat
// of the call or by a sweeper. The error is a *Refusal where the rules do not allow it, or
// ErrNotFound.
func (e *Executor) Decide(ctx context.Context, tenant string, id ID, d Decision) (Envelope, error) {
	if err := e.synchronise(ctx); err != nil {
		return Envelope{}, err
	}
	if d.ID == "" {
		d.ID = newDecisionID()
	}
	op, err := e.store.Get(ctx, tenant, id)
	if err != nil {
		return Envelope{}, err
	}
	done, err := e.decided(ctx, op, &d)
	if err != nil {
		return Envelope{}, err
	}
	if !done {
		ev := &Event{Kind: EventDecide, At: e.now(ctx), By: "person " + d.Who, NewToken: newToken(), Decision: &d}
		op, err = e.apply(ctx, op, ev)
		var refused *Refusal
		if errors.As(err, &refused) && refused.Why == RefusedVersion { // another one was faster: perhaps this very decision
			var again error
			if done, again = e.decided(ctx, op, &d); done || again != nil {
				err = again
			}
		}
		if err != nil {
			return Envelope{}, &RecordError{Intent: &op.Intent, Err: err}
		}
		// What was only read may be older than the lease of whoever works on it.
		if f := e.flight(id); f != nil && !done {
			f.publish(op)
		}
	}
	return *Report(op, e.now(ctx)), nil
}

func newDecisionID() string {
	var b [16]byte
	rand.Read(b[:])
	return "dec_" + hex.EncodeToString(b[:])
}

// decided reports whether the record has the decision already. One with its id and other
// content is a *Refusal.
func (e *Executor) decided(ctx context.Context, op *Operation, d *Decision) (bool, error) {
	entries, err := e.store.History(ctx, op.Tenant, op.ID)
	if err != nil {
		return false, fmt.Errorf("read decisions: %w", err)
	}
	for i := range entries {
		earlier := entries[i].Decision
		if earlier == nil || earlier.ID != d.ID || !holds(decisionsCountOnce) {
			continue
		}
		if earlier.content() != d.content() {
			return false, &Refusal{Event: EventDecide, Status: op.Status, Why: RefusedDecision, Detail: "this id names another decision"}
		}
		return true, nil
	}
	return false, nil
}

// content is what a decision says; the version that its maker saw is no part of it.
func (d *Decision) content() string {
	said := *d
	said.Version = 0
	b, err := json.Marshal(&said)
	if err != nil {
		return err.Error() // a result that is no JSON is equal to nothing that was recorded
	}
	return string(b)
}

// Fault names a field of a decision that does not go with its choice, and says why; "" where
// every one does.
func (d *Decision) Fault() (field, what string) {
	switch {
	case d.Choice != ChoiceHappened && d.Ref != "":
		return "ref", "belongs to an effect that happened"
	case d.Choice != ChoiceHappened && d.Result != nil:
		return "result", "belongs to an effect that happened"
	case d.Result != nil && !validJSON(d.Result):
		return "result", "want JSON"
	case d.Choice != ChoiceDidNotHappen && d.Waiver != "":
		return "waiver", "belongs to an effect that did not happen"
	}
	return "", ""
}

// decide takes a named person's word.
func (s *stepper) decide() error {
	d := s.ev.Decision
	if d == nil || strings.TrimSpace(d.Who) == "" || strings.TrimSpace(d.Why) == "" {
		return s.refuse(RefusedInput, "a decision names who and why")
	}
	for _, text := range []struct{ name, value string }{
		{"id", d.ID}, {"who", d.Who}, {"why", d.Why}, {"ref", d.Ref}, {"waiver", d.Waiver}, {"reference", d.Reference},
	} {
		if len(text.value) > MaxDecision {
			return s.refuse(RefusedInput, fmt.Sprintf("%s: %d bytes, at most %d are allowed", text.name, len(text.value), MaxDecision))
		}
	}
	if field, what := d.Fault(); field != "" {
		return s.refuse(RefusedInput, field+": "+what)
	}
	if d.Version != s.op.Version {
		return s.refuse(RefusedVersion, "")
	}
	switch d.Choice {
	case ChoiceHappened, ChoiceDidNotHappen:
		return s.learn(d)
	case ChoiceResend, ChoiceFence:
		return s.order(d)
	case ChoiceCompensate:
		return s.orderUndo()
	case ChoiceApprove:
		s.keepLease = true
		return s.approve(d)
	case ChoiceReject:
		return s.turnDown(ReasonNotApproved)
	case ChoiceWithdraw:
		return s.turnDown(ReasonWithdrawn)
	case ChoiceNote:
		s.keepLease, s.keepReview = true, true
		return nil
	default:
		return s.refuse(RefusedInput, "no such choice")
	}
}

// learn takes what a person found out at the provider. "It did not happen" waits for
// quiescence too, unless a waiver says why not.
func (s *stepper) learn(d *Decision) error {
	happened := d.Choice == ChoiceHappened
	switch {
	case s.op.Status == Unknown:
	case s.op.Status == Pending && !s.op.Lease.After(s.ev.At):
		s.lose()
	case s.op.Status == FailedNoEffect && happened && len(s.op.Attempts) > 0:
	case s.op.Status == Succeeded && happened && !s.op.Review.IsZero():
	case s.op.Status == Pending:
		return s.refuse(RefusedLease, "an attempt is running")
	default:
		return s.refuse(RefusedStatus, "")
	}
	if happened {
		s.succeed(d.Result, d.Ref, ByPerson, ReasonPerson)
	} else {
		if s.op.tooEarly(s.ev.At) && holds(peopleWait) && strings.TrimSpace(d.Waiver) == "" {
			return s.refuse(RefusedEarly, "a request may still land until "+s.op.SafeAt().UTC().Format(time.RFC3339))
		}
		s.noEffect(ReasonPerson, ByPerson)
	}
	s.next.Order = ""
	if s.ev.NewToken != 0 {
		s.next.Token = s.ev.NewToken // whoever still works on it has lost its lease
	}
	return nil
}

// order keeps what a person wants to be done, for whoever works on the operation next.
func (s *stepper) order(d *Decision) error {
	if s.op.Status != Unknown {
		return s.refuse(RefusedStatus, "")
	}
	why := s.op.orderBarred(d.Choice, s.ev.At)
	if why != "" {
		return s.refuse(RefusedSend, why)
	}
	s.next.Order = d.Choice
	s.keepLease = true
	return nil
}

// orderBarred says why a person may not order a resend or a fence, or "" where one may.
// People are held to the same rules; only waiting for the provider to say "absent" often
// enough, or judging a look-alike, is theirs to leave out.
func (op *Operation) orderBarred(c Choice, now time.Time) string {
	if why := op.asksAPerson(); why != ReasonNone && why != ReasonCandidate {
		return "the provider shows more than this operation can explain"
	}
	if c == ChoiceResend {
		if why := op.sendBarred(now); why != "" {
			return why
		}
		if op.Contract.Class != Keyed && !op.resendReady() {
			return "the probe has not said absent often enough"
		}
		return ""
	}
	switch {
	case op.Contract.Fence == nil:
		return "the tool has no fence"
	case op.out():
		return "an attempt is still listened to"
	case !op.fenceUseful():
		return "a fence was set or tried as often as is of use"
	}
	return ""
}

// turnDown ends what was never sent.
func (s *stepper) turnDown(why Reason) error {
	if s.op.Status != Prepared {
		return s.refuse(RefusedStatus, "")
	}
	s.noEffect(why, ByPerson)
	return nil
}

// Offer is a choice about an operation, and why it cannot be made now.
type Offer struct {
	Choice Choice
	// Legal: the rules allow it now.
	Legal bool
	// Code and Why say why it is not, and Waiver that one would let it through.
	Code   RefusalCode
	Why    string
	Waiver bool
}

// Offers says of every choice whether the rules allow it at a time. It asks the rules
// themselves, so what is offered is what Decide takes.
func Offers(op *Operation, now time.Time) []Offer {
	offers := make([]Offer, 0, len(Choices))
	for _, c := range Choices {
		d := &Decision{Choice: c, Who: "?", Why: "?", Version: op.Version}
		try := func() *Refusal {
			_, err := Step(op, &Event{Kind: EventDecide, At: now, Decision: d})
			var r *Refusal
			errors.As(err, &r)
			return r
		}
		o := Offer{Choice: c, Legal: true}
		if r := try(); r != nil {
			o.Legal, o.Code, o.Why = false, r.Why, r.Detail
			if o.Why == "" {
				o.Why = "it is " + string(op.Status)
			}
			if r.Why == RefusedEarly {
				d.Waiver = "?"
				o.Waiver = try() == nil
			}
		}
		offers = append(offers, o)
	}
	return offers
}
