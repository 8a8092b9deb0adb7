package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/pawl-dev/pawl"
)

var _ pawl.Selector = (*tool)(nil)

// Select finds the contract that holds for arguments: the one case whose condition they
// meet, or the inner tool that they name. Where none does, or several do, or a condition
// cannot be evaluated, it is the tool's own. A case answers as its tool does, so that a
// call that names a case meets its condition too.
func (t *tool) Select(raw json.RawMessage) (string, json.RawMessage) {
	base := t
	if t.around != nil && t.inner == "" {
		base = t.around
	}
	own := base.contract.Tool
	if len(base.cases) == 0 {
		return own, raw
	}
	args, err := argumentsOf(raw)
	if err != nil {
		return own, raw // which says what is wrong with them
	}
	if base.unwrap != nil {
		return base.unwrapped(raw, args)
	}
	for _, k := range base.cases {
		switch holds, err := k.condition.holds(map[string]any{"args": args}); {
		case err != nil:
			return base.contract.Tool, raw
		case !holds:
		case own != base.contract.Tool:
			return base.contract.Tool, raw
		default:
			own = k.tool.contract.Tool
		}
	}
	return own, raw
}

func argumentsOf(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	v, err := pawl.ParseJSON(raw)
	if err != nil {
		return nil, err
	}
	args, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("want a JSON object")
	}
	return args, nil
}

// unwrapped is the inner tool that arguments name, and its arguments. Arguments that say
// anything besides are not taken apart: what they mean is not known.
func (t *tool) unwrapped(raw json.RawMessage, args map[string]any) (string, json.RawMessage) {
	name, _ := atPointer(args, t.unwrap.name).(string)
	for _, k := range t.cases {
		if k.tool.inner != name {
			continue
		}
		inner := atPointer(args, t.unwrap.arguments)
		if text, ok := inner.(string); ok && t.unwrap.text {
			var err error
			if inner, err = pawl.ParseJSON([]byte(text)); err != nil {
				break
			}
		} else if ok || t.unwrap.text {
			break
		}
		object, ok := inner.(map[string]any)
		if !ok {
			break
		}
		whole, err := t.unwrap.wrap(name, object)
		if err != nil {
			break
		}
		given, err := withValue(args, t.unwrap.arguments, atPointer(whole, t.unwrap.arguments))
		if err != nil || !sameText(given, whole) {
			break
		}
		own, err := pawl.AppendJSON(nil, object)
		if err != nil {
			break
		}
		return k.tool.contract.Tool, own
	}
	return t.contract.Tool, raw
}

// sameText reports whether two values are the same canonical JSON.
func sameText(a, b any) bool {
	x, err := pawl.AppendJSON(nil, a)
	y, errToo := pawl.AppendJSON(nil, b)
	return err == nil && errToo == nil && bytes.Equal(x, y)
}

// wrap makes the arguments of the tool around from those of an inner one.
func (u *unwrapping) wrap(name string, inner map[string]any) (map[string]any, error) {
	var arguments any = inner
	if u.text {
		text, err := pawl.AppendJSON(nil, inner)
		if err != nil {
			return nil, err
		}
		arguments = string(text)
	}
	whole, err := withValue(map[string]any{}, u.name, name)
	if err == nil {
		whole, err = withValue(whole, u.arguments, arguments)
	}
	if err != nil {
		return nil, err
	}
	return whole.(map[string]any), nil
}

// wrapped is what the request of an inner tool is computed from: the arguments of the tool
// around, with key and marker in their places among the inner ones. Other tools keep what
// they have.
func (t *tool) wrapped(s *subject, attach []attachment) (*subject, []attachment, error) {
	if t.inner == "" {
		return s, attach, nil
	}
	var inner any = s.canonical
	var rest []attachment
	for _, a := range attach {
		at := a.name
		switch a.carrier {
		case "argument":
			at = argumentPlace(a.name)
		case "json_pointer":
		default:
			rest = append(rest, a)
			continue
		}
		var err error
		if inner, err = withValue(inner, pointer(at), a.value); err != nil {
			return nil, nil, fmt.Errorf("arguments: %s: %w", a.name, err)
		}
	}
	whole, err := t.around.unwrap.wrap(t.inner, inner.(map[string]any))
	if err != nil {
		return nil, nil, fmt.Errorf("arguments: %w", err)
	}
	out := *s
	out.canonical, out.vars = whole, maps.Clone(s.vars)
	out.vars["args"] = whole
	return &out, rest, nil
}
