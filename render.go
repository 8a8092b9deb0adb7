package pawl

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
)

// Report is the envelope of an operation as its record stands, for status questions.
func Report(op *Operation) *Envelope { return envelopeOf(op, Reported) }

// envelopeOf renders an operation for its own actor.
func envelopeOf(op *Operation, action ActionTaken) *Envelope {
	reason := op.Reason
	if op.Status == Unknown && !op.Review.IsZero() {
		reason = ReasonReviewOpen
	}
	a := adviceFor(op.Status, reason)
	return &Envelope{
		Status: op.Status, Reason: reason, RetrySafe: a.safe, OperationID: op.ID.String(),
		Effect: effectSentence(op.Effect, op.Status), ActionTaken: action, Message: a.message, NextAction: a.next,
		Result: op.Result, ResultRef: op.Ref,
	}
}

// withReason replaces the operation's own reason by the one this call ran into.
func (e *Envelope) withReason(r Reason) *Envelope {
	a := adviceFor(e.Status, r)
	e.Reason, e.RetrySafe, e.NextAction, e.Message = r, a.safe, a.next, a.message
	return e
}

// refusal is the envelope of a call for which nothing was recorded and nothing sent.
func refusal(reason Reason, effect, detail string) *Envelope {
	a := adviceFor(FailedNoEffect, reason)
	e := &Envelope{
		Status: FailedNoEffect, Reason: reason, RetrySafe: a.safe, ActionTaken: Refused,
		Effect: effectSentence(effect, FailedNoEffect), Message: a.message, NextAction: a.next,
	}
	if detail != "" {
		e.Message += " (" + detail + ")"
	}
	return e
}

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

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// effectText fills the contract's template with canonical identity fields and scalar
// arguments. Without a template it names the tool and its identity.
func effectText(c *Contract, id *Identified) string {
	if c.Effect != "" {
		return placeholder.ReplaceAllStringFunc(c.Effect, func(p string) string {
			name := p[1 : len(p)-1]
			if v, ok := id.Identity[name]; ok {
				return plainText(v)
			}
			return plainText(at(id.Args, name))
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
	const most = 80
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
