package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/evidence"
)

// evidenceRules binds the compiled rules to one operation. Whatever cannot be evaluated
// never helps.
func (t *tool) evidenceRules(s *subject) *evidence.Rules {
	r := &t.rules
	ask := func(p *program) func(*evidence.Response) (bool, error) {
		if p == nil {
			return nil
		}
		return func(res *evidence.Response) (bool, error) { return p.holds(s.answered(res)) }
	}
	sure := func(p *program) func(*evidence.Response) bool {
		if p == nil {
			return nil
		}
		return func(res *evidence.Response) bool {
			yes, err := p.holds(s.answered(res))
			return yes && err == nil
		}
	}
	rules := &evidence.Rules{
		NeedsBody: t.terms.NeedsBody, ExpectBody: r.expectBody, BodyMayFail: t.terms.BodyMayFail,
		Success: ask(r.success), InFlight: sure(r.onConcurrent), Mismatch: sure(r.onMismatch),
		OwnShape: sure(r.errorShape), Replayed: sure(r.replaySignal),
		Result: func(res *evidence.Response) (json.RawMessage, string, error) { return t.result(s, res) },
	}
	if accepted := sure(r.accepted); accepted != nil {
		rules.Accepted = func(res *evidence.Response) (bool, error) {
			return res.Status == http.StatusAccepted || accepted(res), nil
		}
	}
	if len(r.noEffect) > 0 {
		rules.NoEffect = func(res *evidence.Response) (match, transient bool) {
			vars := s.answered(res)
			for _, n := range r.noEffect {
				if yes, err := n.when.holds(vars); yes && err == nil {
					return true, n.transient
				}
			}
			return false, false
		}
	}
	return rules
}

// result takes the result and the provider's id out of an answer.
func (t *tool) result(s *subject, res *evidence.Response) (result json.RawMessage, ref string, err error) {
	vars := s.answered(res)
	if t.rules.result != nil {
		if result, err = t.rules.result.raw(vars); err != nil {
			return nil, "", fmt.Errorf("result: %w", err)
		}
	} else if _, err := res.JSON(); err == nil {
		result = res.Body
	}
	if t.rules.ref != nil {
		if ref, err = t.rules.ref.find(vars); err != nil {
			return nil, "", fmt.Errorf("result_ref: %w", err)
		}
	}
	return result, ref, nil
}

// raw evaluates an expression to canonical JSON; nil for an optional without a value.
func (p *program) raw(vars map[string]any) (json.RawMessage, error) {
	v, err := p.json(vars)
	if err != nil {
		return nil, err
	}
	if _, none := v.(absent); none {
		return nil, nil
	}
	return pawl.AppendJSON(nil, v)
}

// errNoRef: the answer does not have the id where the contract says.
var errNoRef = errors.New("the answer has no id there")

func (l *locator) find(vars map[string]any) (string, error) {
	if l.expr != nil {
		v, err := l.expr.json(vars)
		if err != nil {
			return "", err
		}
		return refText(v)
	}
	body := vars["response"].(*record).values["body"]
	if err, none := body.(error); none {
		return "", err
	}
	return refText(atPointer(body, l.pointer))
}

// refText is an id as text.
func refText(v any) (string, error) {
	switch v.(type) {
	case string, json.Number:
		if s, err := scalar(v); err == nil && s != "" {
			return s, nil
		}
	}
	return "", errNoRef
}

// adoptDuplicate takes the effect that the provider says our key already had.
func (t *tool) adoptDuplicate(ctx context.Context, ev *pawl.Evidence, o *evidence.Observation, op *pawl.Operation, s *subject) {
	d, res := t.rules.duplicate, o.Response
	if d == nil || res == nil || o.Early || o.BytesBegun == 0 || res.Intact() != nil {
		return
	}
	vars := s.answered(res)
	if yes, err := d.when.holds(vars); !yes || err != nil {
		return
	}
	id, err := d.id.find(vars)
	if err != nil {
		return
	}
	ev.Class, ev.Strength, ev.Proof = pawl.ClassSucceeded, "", "contract_duplicate"
	ev.Conflict, ev.InFlight, ev.KeyMismatch, ev.Transient = false, false, false, false
	ev.Replayed, ev.Ref, ev.Result = true, id, nil
	if d.read == nil {
		return
	}
	known := *op
	known.Ref = id
	found, err := t.readBy(ctx, d.read, &known)
	if err == nil {
		var at *subject
		if at, err = t.ofOperation(&known); err == nil {
			ev.Result, _, err = t.result(at, found)
		}
	}
	if err != nil {
		ev.Class, ev.Error = pawl.ClassResultLost, err.Error()
	}
	ev.Ref = id
}
