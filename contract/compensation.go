package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

var _ pawl.Compensator = (*tool)(nil)

type compensationTerms struct {
	Tool   string     `json:"tool" jsonschema:"The tool of this file whose effect undoes this one's."`
	Args   *bodyTerms `json:"args" jsonschema:"Its arguments: a mapping whose texts are CEL over args, identity, result, before, key and operation. args passes the arguments of the call that is undone."`
	Within duration   `json:"within,omitempty" jsonschema:"How long after the effect it can be undone; default for ever."`
	Leaves string     `json:"leaves,omitempty" jsonschema:"What remains after it, in words, such as: the fee of 5.00 EUR."`
}

// compensation compiles what is declared about undoing.
func (c *compiler) compensation(t *tool, path string) {
	t.contract.Corrective = t.terms.Corrective
	k := t.terms.Compensation
	if k == nil {
		return
	}
	at := path + "/compensation"
	t.contract.Compensation = &pawl.CompensationTerms{Tool: k.Tool, Within: time.Duration(k.Within), Leaves: k.Leaves}
	t.undo = &request{body: k.Args, exprs: map[string]*program{}}
	switch {
	case k.Args == nil:
	case k.Args.tree == nil:
	case k.Args.tree.kind != bodyObject:
		c.fail(at+"/args", "arguments are a mapping")
	default:
		c.body(k.Args.tree, inCompensation, t.undo.exprs)
	}
}

// compensations checks that what undoes a tool is there, and has an effect.
func (c *compiler) compensations(tools []*tool) {
	byName := map[string]*tool{}
	for _, t := range tools {
		byName[t.contract.Tool] = t
	}
	for _, t := range tools {
		k := t.contract.Compensation
		if k == nil || k.Tool == "" {
			continue
		}
		at := member("/tools", t.contract.Tool) + "/compensation/tool"
		switch undo := byName[k.Tool]; {
		case undo == nil:
			c.fail(at, "there is no tool %q%s", shorten(k.Tool), didYouMean(k.Tool, slices.Sorted(maps.Keys(byName))))
		case undo.contract.Class == pawl.Read:
			c.fail(at, "%s only reads", k.Tool)
		}
	}
}

// Compensation computes the arguments of the call that undoes an operation, by the contract
// that the operation began under.
func (t *tool) Compensation(op *pawl.Operation) (json.RawMessage, error) {
	own, err := t.asPinned(op)
	if err != nil {
		return nil, err
	}
	if own.undo == nil || own.undo.body == nil {
		return nil, errors.New("the contract declares no compensation")
	}
	s, err := own.ofOperation(op)
	if err != nil {
		return nil, err
	}
	if own.undo.body.tree == nil {
		return op.Args, nil
	}
	vars := maps.Clone(s.vars)
	vars["result"] = nil
	if len(op.Result) > 0 {
		if vars["result"], err = pawl.ParseJSONLimit(op.Result, len(op.Result)); err != nil {
			return nil, fmt.Errorf("stored result: %w", err)
		}
	}
	args, err := own.undo.fill(own.undo.body.tree, vars)
	if err != nil {
		return nil, err
	}
	return pawl.AppendJSON(nil, args)
}
