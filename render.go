package pawl

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode"
)

// Report is the envelope of an operation as its record stands at a time of the store's
// clock. It is for operators and the operation's own actor: it shows the result.
func Report(op *Operation, now time.Time) *Envelope { return envelopeOf(op, Reported, now) }

// envelopeOf renders an operation for its own actor. A PENDING whose lease has lapsed is
// UNKNOWN, although nobody has written so yet.
func envelopeOf(op *Operation, action ActionTaken, now time.Time) *Envelope {
	status, reason := op.Status, op.Reason
	switch {
	case status == Pending && !leased(op, now):
		status, reason = Unknown, ReasonOwnerLost
	case status == Unknown && !op.Review.IsZero():
		reason = ReasonReviewOpen
	case !op.Aborted.IsZero() && (status == Succeeded || status == FailedNoEffect):
		reason = ReasonRunAborted
	case op.Reopens() && len(op.Attempts) >= op.Contract.MaxAttempts:
		reason = ReasonAttempts
	}
	a := adviceFor(status, reason)
	return &Envelope{
		Status: status, Reason: reason, RetrySafe: a.safe, OperationID: op.ID.String(),
		Effect: effectSentence(op.Effect, status), ActionTaken: action, Message: a.message, NextAction: a.next,
		Result: op.Result, ResultRef: op.Ref, Expires: op.expires(),
	}
}

// expires is the time until which a yes is taken, or a yes that was given is good.
func (op *Operation) expires() time.Time {
	switch a := op.Approval; {
	case op.Status != Prepared || a == nil:
		return time.Time{}
	case a.Until.IsZero():
		return a.Expires.UTC()
	default:
		return a.Until.UTC()
	}
}

// envelopeFor renders an operation for an actor: only its own actor sees the result.
func (e *Executor) envelopeFor(ctx context.Context, op *Operation, actor string, action ActionTaken) *Envelope {
	env := envelopeOf(op, action, e.now(ctx))
	if op.Status.Open() && !op.Review.IsZero() && e.opts.Notified != nil && e.opts.Notified(ctx, op) {
		env.Message += notifiedText
	}
	if foreign(op, actor) {
		env.Result, env.ResultRef, env.Effect = nil, "", effectSentence(op.Tool, env.Status)
		if op.Status.Settled() && op.Status != Compensated {
			env.withReason(ReasonNotYours)
		}
	}
	return env
}

// notifiedText is added where an operator has been told of what waits for one.
const notifiedText = " An operator has been notified."

// foreign reports whether an operation's result is not for this actor.
func foreign(op *Operation, actor string) bool {
	return op.Actor != actor && (op.Contract == nil || !op.Contract.Shared)
}

// leased reports whether somebody works on the operation.
func leased(op *Operation, now time.Time) bool { return op.Lease.After(now) }

// withReason replaces the operation's own reason by the one this call ran into.
func (e *Envelope) withReason(r Reason) *Envelope {
	a := adviceFor(e.Status, r)
	e.Reason, e.RetrySafe, e.NextAction, e.Message = r, a.safe, a.next, a.message
	return e
}

// undecided is the envelope of a call about which the store could not tell what is on
// record. Nothing was sent for it.
func undecided(effect, operation string) *Envelope {
	e := &Envelope{Status: Unknown, OperationID: operation, Effect: effectSentence(effect, Unknown), ActionTaken: Refused}
	return e.withReason(ReasonStore)
}

// refusal is the envelope of a call for which nothing was recorded and nothing sent.
func refusal(reason Reason, effect, detail string) *Envelope {
	e := &Envelope{Status: FailedNoEffect, ActionTaken: Refused, Effect: effectSentence(effect, FailedNoEffect)}
	e.withReason(reason)
	if detail != "" {
		e.Message += " (" + shown(detail, 400) + ")"
	}
	return e
}

// Refuse is the envelope of a call that a door turns away before it reaches an executor:
// nothing was recorded for it and nothing sent.
func Refuse(reason Reason, effect string) Envelope { return *refusal(reason, effect, "") }

// effectSentence says of an effect what its status means.
func effectSentence(effect string, s Status) string {
	switch s {
	case Succeeded:
		return effect + ": done"
	case FailedNoEffect:
		return effect + ": not done"
	case Compensated:
		return effect + ": done, then undone"
	case Prepared:
		return effect + ": not done yet"
	case Pending:
		return effect + ": under way"
	default:
		return effect + ": may or may not have been done"
	}
}

// effectText fills the contract's template with canonical identity fields and scalar
// arguments. Without a template it names the tool and its identity.
func effectText(c *Contract, id *Identified) string {
	if c.Effect != "" {
		return filled(c.Effect, func(name string) any {
			if v, ok := id.Identity[name]; ok {
				return v
			}
			return at(id.Args, name)
		})
	}
	if c.Class == Read || len(id.Identity) == 0 || c.IdentityAll {
		return c.Tool
	}
	var b strings.Builder
	b.WriteString(c.Tool)
	for i, f := range c.Identity {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" " + f.Name + " " + plainText(id.Identity[f.Name]))
	}
	return b.String()
}

// filled is a template with each {name} replaced by the text of its value.
func filled(template string, value func(name string) any) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(template, '{')
		end := strings.IndexAny(template[open+1:], "{}") + open + 1
		if open < 0 || end == open { // no placeholder is left
			b.WriteString(template)
			return b.String()
		}
		if template[end] == '{' {
			b.WriteString(template[:end])
			template = template[end:]
			continue
		}
		b.WriteString(template[:open])
		b.WriteString(plainText(value(template[open+1 : end])))
		template = template[end+1:]
	}
}

// plainText shows one value in a sentence: short, on one line, no control characters.
func plainText(v any) string {
	var s string
	switch v := v.(type) {
	case nil:
		return "?"
	case string:
		s = v
	case json.Number:
		s = v.String()
	case bool:
		s = map[bool]string{true: "true", false: "false"}[v]
	default:
		b, err := AppendJSON(nil, v)
		if err != nil {
			return "?"
		}
		s = string(b)
	}
	return shown(s, 80)
}

// shown is text on one line, without control characters and at most so many characters.
func shown(s string, most int) string {
	n := 0
	s = strings.Map(func(r rune) rune {
		if n++; n > most || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if n > most {
		s += "…"
	}
	return s
}
