package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/evidence"
)

// subject is the operation that a request or an answer is about.
type subject struct {
	// vars are the variables of inFollowUp.
	vars map[string]any
	// canonical are the arguments as they are sent by body: args.
	canonical map[string]any
	key       string
}

// ofInvocation is the subject of a call before there is an operation.
func (t *tool) ofInvocation(inv *pawl.Invocation) (*subject, error) {
	op := map[string]any{
		"id": inv.Operation.String(), "tool": inv.Tool, "tenant": inv.Tenant, "actor": inv.Actor,
		"run": inv.Run, "step": inv.Step, "ref": "", "created": inv.Permit, "permit": inv.Permit,
	}
	return t.subject(inv.Args, inv.Identity, inv.Key, op, nil)
}

// ofOperation is the subject of an operation on record.
func (t *tool) ofOperation(o *pawl.Operation) (*subject, error) {
	args, err := object(o.Args)
	if err != nil {
		return nil, fmt.Errorf("stored arguments: %w", err)
	}
	identity, err := object(o.Identity)
	if err != nil {
		return nil, fmt.Errorf("stored identity: %w", err)
	}
	var before any
	if len(o.Before) > 0 {
		if before, err = pawl.ParseJSONLimit(o.Before, len(o.Before)); err != nil {
			return nil, fmt.Errorf("stored snapshot: %w", err)
		}
	}
	permit := o.Created
	if len(o.Attempts) > 0 {
		permit = o.Attempts[0].Permit
	}
	op := map[string]any{
		"id": o.ID.String(), "tool": o.Tool, "tenant": o.Tenant, "actor": o.Actor,
		"run": o.Run, "step": o.Step, "ref": o.Ref, "created": o.Created, "permit": permit,
	}
	return t.subject(args, identity, o.Key, op, before)
}

func object(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	v, err := pawl.ParseJSONLimit(raw, len(raw))
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want a JSON object")
	}
	return m, nil
}

func (t *tool) subject(args, identity map[string]any, key pawl.Key, op map[string]any, before any) (*subject, error) {
	outward, err := t.keyForm.encode(key)
	if err != nil {
		return nil, err
	}
	for k, v := range op {
		if at, ok := v.(time.Time); ok {
			op[k] = types.Timestamp{Time: at.UTC()}
		}
	}
	if args == nil {
		args = map[string]any{}
	}
	typedArgs, typedIdentity := args, maps.Clone(identity)
	if typedIdentity == nil {
		typedIdentity = map[string]any{}
	}
	for _, f := range t.contract.Identity {
		text, ok := identity[f.Name].(string)
		if !ok || text == "" {
			continue
		}
		v := typed(f.Rule.Kind, text)
		if v == nil {
			continue
		}
		typedIdentity[f.Name] = v
		for _, from := range sources(f) {
			if path := pointer(from); atPointer(args, path) != nil {
				if changed, err := withValue(typedArgs, path, v); err == nil {
					typedArgs = changed.(map[string]any)
				}
				break
			}
		}
	}
	a, err := celValues()
	if err != nil {
		return nil, err
	}
	return &subject{canonical: args, key: outward, vars: map[string]any{
		"args": typedArgs, "identity": typedIdentity, "key": outward, "before": before,
		"operation": &record{operationType, a, op},
	}}, nil
}

func sources(f pawl.Field) []string {
	if len(f.From) > 0 {
		return f.From
	}
	return []string{f.Name}
}

// typed is the value of a canonical text whose rule says that it is no text, else nil.
func typed(kind pawl.RuleKind, text string) any {
	switch kind {
	case pawl.RuleDecimal, pawl.RuleMoney:
		if d, err := parseDecimal(text); err == nil {
			return d
		}
	case pawl.RuleInteger:
		return number(text)
	case pawl.RuleBool:
		return types.Bool(text == "true")
	}
	return nil
}

// answered are the variables of inAnswer.
func (s *subject) answered(res *evidence.Response) map[string]any {
	header := headers{}
	for name, v := range res.Header {
		header[strings.ToLower(name)] = strings.Join(v, ", ")
	}
	values := map[string]any{"status": int64(res.Status), "header": header}
	if body, err := res.JSON(); err != nil {
		values["body"] = fmt.Errorf("the body is no JSON that can be relied on")
	} else {
		values["body"] = body
	}
	if utf8.Valid(res.Body) && res.Intact() == nil {
		values["text"] = string(res.Body)
	} else {
		values["text"] = fmt.Errorf("the body is no whole text")
	}
	vars := maps.Clone(s.vars)
	a, _ := celValues() // a subject exists, so they do
	vars["response"] = &record{responseType, a, values}
	return vars
}
