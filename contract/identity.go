package contract

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/spelling"
)

// identityTerms is the identity of a tool: none, all, or fields.
type identityTerms struct {
	none, all bool
	fields    []pawl.Field
}

// fieldTerms is the long form of an identity field in a list.
type fieldTerms struct {
	Field string `json:"field" jsonschema:"The name of the field, and of the argument unless from says otherwise."`
	namedField
}

// namedField is a field in a mapping, whose key is its name.
type namedField struct {
	From stringList `json:"from,omitempty" jsonschema:"Argument names or JSON pointers, the first that is present wins."`
	Rule *ruleTerms `json:"rule,omitempty" jsonschema:"How the value is made canonical; default text."`
	ruleDetails
	Optional bool   `json:"optional,omitempty" jsonschema:"Missing, null and empty are one value instead of a refusal."`
	Prefix   string `json:"prefix,omitempty" jsonschema:"Put in front of a text that lacks it."`
	Pattern  string `json:"pattern,omitempty" jsonschema:"RE2 that the whole text must match."`
}

// ruleDetails is what a rule may need besides its name.
type ruleDetails struct {
	Currency string      `json:"currency,omitempty" jsonschema:"For money: the argument that holds the ISO 4217 code, or =EUR for a fixed one."`
	Digits   int         `json:"digits,omitempty" jsonschema:"For decimal: the number of places."`
	Values   []string    `json:"values,omitempty" jsonschema:"For enum: the values."`
	Of       *ruleTerms  `json:"of,omitempty" jsonschema:"For list, set, multiset, zip: the rule of the elements."`
	With     string      `json:"with,omitempty" jsonschema:"For zip: the second array."`
	WithOf   *ruleTerms  `json:"with_of,omitempty" jsonschema:"For zip: the rule of the second array's elements."`
	Fields   *fieldsTerm `json:"fields,omitempty" jsonschema:"For object: its fields."`
}

func (t *identityTerms) decode(d *decoder, n ast.Node, path string) {
	if s, ok := n.(*ast.StringNode); ok {
		switch s.Value {
		case "none":
			t.none = true
		case "all":
			t.all = true
		default:
			d.fail(path, "want none, all, or the fields: [%s]", shorten(s.Value))
		}
		return
	}
	t.fields = d.fields(n, path)
	if len(t.fields) == 0 {
		if _, empty := n.(*ast.MappingNode); empty || isSequence(n) {
			d.fail(path, "no field is listed: name one, or write none for a tool whose scope alone is its identity")
		}
	}
}

func isSequence(n ast.Node) bool {
	_, ok := n.(*ast.SequenceNode)
	return ok
}

// fieldsTerm is a list or mapping of fields.
type fieldsTerm []pawl.Field

func (f *fieldsTerm) decode(d *decoder, n ast.Node, path string) { *f = d.fields(n, path) }

func (d *decoder) fields(n ast.Node, path string) []pawl.Field {
	var fields []pawl.Field
	switch n := n.(type) {
	case *ast.SequenceNode:
		for i, v := range n.Values {
			at := item(path, i)
			d.place(at, v)
			if !d.sound(v, at) {
				continue
			}
			if _, long := v.(*ast.MappingNode); long {
				var t fieldTerms
				d.structure(v, &t, at)
				fields = append(fields, t.compile())
			} else if s, ok := d.text(v, at, "the name of an argument"); ok {
				fields = append(fields, fieldTerms{Field: s}.compile())
			}
		}
	case *ast.MappingNode:
		d.eachKey(n, path, func(key string, v ast.Node, at string) {
			var t namedField
			if _, long := v.(*ast.MappingNode); long {
				d.structure(v, &t, at)
			} else {
				t.Rule = new(ruleTerms)
				t.Rule.decode(d, v, at)
			}
			fields = append(fields, fieldTerms{key, t}.compile())
		})
	default:
		d.fail(path, "want a list or a mapping of fields, got %s", describe(n))
	}
	return fields
}

func (t fieldTerms) compile() pawl.Field {
	f := pawl.Field{Name: t.Field, From: t.From, Optional: t.Optional, Prefix: t.Prefix, Pattern: t.Pattern}
	if t.Rule != nil {
		f.Rule = pawl.Rule(*t.Rule)
	}
	t.addTo(&f.Rule)
	return f
}

// addTo adds the details to what the rule's own text said.
func (t *ruleDetails) addTo(r *pawl.Rule) {
	if t.Currency != "" {
		r.Currency = t.Currency
	}
	if t.Digits != 0 {
		r.Digits = t.Digits
	}
	if t.Values != nil {
		r.Values = t.Values
	}
	if t.Of != nil {
		r.Of = (*pawl.Rule)(t.Of)
	}
	if t.With != "" {
		r.With = t.With
	}
	if t.WithOf != nil {
		r.WithOf = (*pawl.Rule)(t.WithOf)
	}
	if t.Fields != nil {
		r.Fields = *t.Fields
	}
}

// ruleTerms is a canonicaliser: a name such as decimal(2) or multiset(zip(new_ids)), or
// a mapping for the rules that need more.
type ruleTerms pawl.Rule

// longRule is the mapping.
type longRule struct {
	Rule *ruleTerms `json:"rule" jsonschema:"The canonicaliser."`
	ruleDetails
}

func (r *ruleTerms) decode(d *decoder, n ast.Node, path string) {
	if _, ok := n.(*ast.MappingNode); ok {
		var t longRule
		d.structure(n, &t, path)
		rule := pawl.Rule{}
		if t.Rule != nil {
			rule = pawl.Rule(*t.Rule)
		}
		t.addTo(&rule)
		*r = ruleTerms(rule)
		return
	}
	s, ok := d.text(n, path, "a rule such as text, decimal(2) or money(currency)")
	if !ok {
		return
	}
	rule, problem := parseRule(s, 0)
	if problem != "" {
		d.fail(path, "%s", problem)
	}
	*r = ruleTerms(rule)
}

var ruleKinds = []string{
	string(pawl.RuleText), string(pawl.RuleRaw), string(pawl.RuleUpper), string(pawl.RuleLower), string(pawl.RuleInteger),
	string(pawl.RuleDecimal), string(pawl.RuleMoney), string(pawl.RuleBool), string(pawl.RuleDate), string(pawl.RuleInstant),
	string(pawl.RuleEnum), string(pawl.RuleList), string(pawl.RuleSet), string(pawl.RuleMultiset), string(pawl.RuleZip), string(pawl.RuleObject),
}

// parseRule reads the short form of a rule: a name with its argument in parentheses.
func parseRule(s string, depth int) (pawl.Rule, string) {
	name, argument, called := strings.Cut(s, "(")
	name = strings.TrimSpace(name)
	if called {
		inner, closed := strings.CutSuffix(strings.TrimSpace(argument), ")")
		if !closed {
			return pawl.Rule{}, "the rule " + strconv.Quote(shorten(s)) + " lacks its closing parenthesis"
		}
		argument = strings.TrimSpace(inner)
	}
	rule := pawl.Rule{Kind: pawl.RuleKind(name)}
	known := false
	for _, k := range ruleKinds {
		known = known || k == name
	}
	if !known {
		rule.Kind = pawl.RuleKind(spelling.Nearest(name, ruleKinds))
		return rule, strconv.Quote(shorten(name)) + " is no rule" + didYouMean(name, ruleKinds)
	}
	if !called {
		return rule, ""
	}
	switch rule.Kind {
	case pawl.RuleDecimal:
		n, err := strconv.Atoi(argument)
		if err != nil || n < 0 {
			return rule, "decimal takes a number of places: decimal(2)"
		}
		rule.Digits = n
	case pawl.RuleMoney:
		rule.Currency = argument
	case pawl.RuleEnum:
		for v := range strings.SplitSeq(argument, ",") {
			rule.Values = append(rule.Values, strings.TrimSpace(v))
		}
	case pawl.RuleZip:
		rule.With = argument
	case pawl.RuleList, pawl.RuleSet, pawl.RuleMultiset:
		if depth >= 4 {
			return rule, "the rule is nested too deeply"
		}
		of, problem := parseRule(argument, depth+1)
		if problem != "" {
			return rule, problem
		}
		rule.Of = &of
	default:
		return rule, name + " takes nothing in parentheses"
	}
	return rule, ""
}
