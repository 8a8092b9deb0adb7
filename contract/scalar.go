package contract

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

type (
	// expression is CEL; template is text with {CEL} and ${references} in it.
	expression string
	template   string
	// pointerOrCEL is a JSON pointer if it begins with '/', otherwise CEL.
	pointerOrCEL string
	duration     time.Duration
	// stringList is one text or a list of them.
	stringList []string
)

func (e *expression) decode(d *decoder, n ast.Node, path string) {
	switch n := n.(type) {
	case *ast.BoolNode, *ast.IntegerNode:
		*e = expression(n.GetToken().Value)
		return
	}
	if s, ok := d.text(n, path, "an expression"); ok {
		if strings.TrimSpace(s) == "" {
			d.fail(path, "the expression is empty: remove the key or write CEL")
		}
		*e = expression(s)
	}
}

func (t *template) decode(d *decoder, n ast.Node, path string) {
	if s, ok := d.text(n, path, "a text"); ok {
		*t = template(s)
	}
}

func (p *pointerOrCEL) decode(d *decoder, n ast.Node, path string) {
	if s, ok := d.text(n, path, "a JSON pointer or an expression"); ok {
		*p = pointerOrCEL(s)
	}
}

func (v *duration) decode(d *decoder, n ast.Node, path string) {
	if i, ok := n.(*ast.IntegerNode); ok {
		if digits := i.GetToken().Value; digits != "0" {
			d.fail(path, "%s of what? write %[1]ss, %[1]sm or %[1]sh", shorten(digits))
		}
		return
	}
	s, ok := d.text(n, path, "a duration such as 30s, 15m, 24h or 30d")
	if !ok {
		return
	}
	t, err := parseDuration(s)
	if err != nil {
		d.fail(path, "%q is no duration: write a number with a unit, such as 500ms, 30s, 15m, 24h or 30d", shorten(s))
		return
	}
	*v = duration(t)
}

// parseDuration reads Go's form of a duration and, in front of it, whole days.
func parseDuration(s string) (time.Duration, error) {
	const longest = 100 * 365 * 24 * time.Hour
	var days time.Duration
	if i := strings.IndexByte(s, 'd'); i > 0 {
		n, err := strconv.ParseUint(s[:i], 10, 16)
		if err != nil {
			return 0, err
		}
		days = time.Duration(n) * 24 * time.Hour
		if s = s[i+1:]; s == "" {
			return min(days, longest), nil
		}
	}
	t, err := time.ParseDuration(s)
	if err != nil {
		return 0, err
	}
	if t < 0 || t > longest || days > longest {
		return 0, strconv.ErrRange
	}
	return days + t, nil
}

func (l *stringList) decode(d *decoder, n ast.Node, path string) {
	if seq, ok := n.(*ast.SequenceNode); ok {
		for i, v := range seq.Values {
			at := item(path, i)
			d.place(at, v)
			if s, ok := d.text(v, at, "a text"); ok {
				*l = append(*l, s)
			}
		}
		return
	}
	if s, ok := d.text(n, path, "a text or a list of texts"); ok {
		*l = stringList{s}
	}
}

// plainNoEffect is the long form of a noEffectTerm.
type plainNoEffect noEffectTerm

func (t *noEffectTerm) decode(d *decoder, n ast.Node, path string) {
	if _, ok := n.(*ast.MappingNode); ok {
		d.structure(n, (*plainNoEffect)(t), path)
		return
	}
	t.When.decode(d, n, path)
}

// keySecretTerms is one reference, a list for rotation, or lists per tenant.
type keySecretTerms struct {
	Default []secretTerms
	Tenants map[string][]secretTerms
}

type secretTerms struct {
	ID    string   `json:"id" jsonschema:"The name that operations remember this secret by. Never reuse it for another secret."`
	Value template `json:"value" jsonschema:"A reference: ${env:NAME} or ${file:/path}."`
}

type keySecretTenants struct {
	Default []secretTerms            `json:"default,omitempty" jsonschema:"The secrets of every tenant that has none of its own; the first makes new keys, the others still find earlier ones."`
	Tenants map[string][]secretTerms `json:"tenants,omitempty" jsonschema:"The secrets of single tenants."`
}

func (k *keySecretTerms) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.MappingNode:
		var t keySecretTenants
		d.structure(n, &t, path)
		k.Default, k.Tenants = t.Default, t.Tenants
	case *ast.SequenceNode:
		d.into(n, &k.Default, path)
	default:
		s := secretTerms{ID: "default"}
		s.Value.decode(d, n, path)
		k.Default = []secretTerms{s}
	}
}

// bodyTerms is a request body: the arguments as they are, or a tree.
type bodyTerms struct {
	args bool
	tree *bodyNode
}

// bodyNode is one value of a body's tree.
type bodyNode struct {
	path    string
	expr    expression
	literal any // json.Number, bool, or nil
	fields  map[string]*bodyNode
	items   []*bodyNode
	kind    bodyKind
}

type bodyKind int

const (
	bodyExpr bodyKind = iota
	bodyLiteral
	bodyObject
	bodyList
)

func (b *bodyTerms) decode(d *decoder, n ast.Node, path string) {
	if s, ok := n.(*ast.StringNode); ok && s.Value == "args" {
		b.args = true
		return
	}
	b.tree = d.bodyNode(n, path)
}

func (d *decoder) bodyNode(n ast.Node, path string) *bodyNode {
	b := &bodyNode{path: path}
	switch n := n.(type) {
	case *ast.MappingNode:
		b.kind, b.fields = bodyObject, map[string]*bodyNode{}
		d.eachKey(n, path, func(key string, v ast.Node, at string) {
			b.fields[key] = d.bodyNode(v, at)
		})
	case *ast.SequenceNode:
		b.kind = bodyList
		for i, v := range n.Values {
			at := item(path, i)
			d.place(at, v)
			b.items = append(b.items, d.bodyNode(v, at))
		}
	case *ast.NullNode:
		b.kind = bodyLiteral
	case *ast.BoolNode:
		b.kind, b.literal = bodyLiteral, n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		text := n.GetToken().Value
		if _, err := parseDecimal(text); err != nil {
			d.fail(path, "%q is no JSON number: write its decimal digits", shorten(text))
		}
		b.kind, b.literal = bodyLiteral, json.Number(text)
	default:
		b.expr.decode(d, n, path)
	}
	return b
}

func shorten(s string) string {
	if len(s) > 40 {
		return firstRunes(s, 40) + "..."
	}
	return s
}

func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode, nil:
		return "nothing"
	}
	return fmt.Sprintf("a %s", strings.ToLower(n.Type().String()))
}
