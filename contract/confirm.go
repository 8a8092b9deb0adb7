package contract

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/pawl-dev/pawl"
)

// confirmTerms are the words always and never, or a condition and what goes with it.
type confirmTerms struct {
	never bool
	longConfirm
}

type longConfirm struct {
	When       expression `json:"when" jsonschema:"CEL over args, identity, key, operation: the call needs a yes. true means every call; what cannot be evaluated needs one too."`
	TwoPersons bool       `json:"two_persons,omitempty" jsonschema:"Two different people must say yes, and none of them is the actor that asked."`
	Expires    duration   `json:"expires,omitempty" jsonschema:"How long a yes is waited for; default 24h."`
	Valid      duration   `json:"valid,omitempty" jsonschema:"How long after the yes the request may begin to be sent; default 15m."`
}

func (t *confirmTerms) decode(d *decoder, n ast.Node, path string) {
	if _, ok := n.(*ast.MappingNode); ok {
		d.structure(n, &t.longConfirm, path)
		return
	}
	s, ok := d.text(n, path, "always, never, or a mapping with when")
	switch {
	case !ok:
	case s == "always":
		t.When = "true"
	case s == "never":
		t.never = true
	default:
		d.fail(path, "%q is neither always nor never: a condition is written as when: %s", shorten(s), shorten(s))
	}
}

type watchTerms struct {
	By     stringList `json:"by" jsonschema:"The identity fields and arguments in which look-alikes agree."`
	Within duration   `json:"within" jsonschema:"How long before a look-alike counts, such as 10m."`
}

// confirmation compiles what is declared about a yes.
func (c *compiler) confirmation(t *tool, path string) {
	if f := t.terms.Confirm; f != nil && !f.never {
		t.contract.Confirm = &pawl.ConfirmTerms{
			Always: f.When == "true", TwoPersons: f.TwoPersons, Expires: time.Duration(f.Expires), Valid: time.Duration(f.Valid),
		}
		t.confirm = c.predicate(path+"/confirm/when", f.When, inRequest)
	}
	if w := t.terms.Watch; w != nil {
		t.contract.Watch = &pawl.WatchTerms{By: w.By, Within: time.Duration(w.Within)}
	}
	if d := t.terms.DeadlineTo; d != nil && d.JSONPointer != "" && (t.contract.Confirm != nil || t.contract.Watch != nil) {
		c.fail(path+"/deadline_to/json_pointer", "the body is computed before anybody says yes, so the deadline in it would be over: use a header")
	}
}

// Confirm says whether a call needs a yes.
func (t *tool) Confirm(inv *pawl.Invocation) (bool, error) {
	if t.confirm == nil {
		return false, nil
	}
	s, err := t.ofInvocation(inv)
	if err != nil {
		return true, err
	}
	return t.confirm.holds(s.vars)
}
