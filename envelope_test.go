package pawl

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func envelopeSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(EnvelopeSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("envelope.json", doc); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("envelope.json")
}

// TestEveryAdviceFitsTheSchema renders each row of the table and validates it.
func TestEveryAdviceFitsTheSchema(t *testing.T) {
	t.Parallel()
	schema := envelopeSchema(t)
	for _, a := range adviceTable {
		op := &Operation{Intent: Intent{ID: NewID(t0), Effect: "refund", Contract: keyedContract()}, State: State{Status: a.status, Reason: a.reason, Lease: t0.Add(1), Result: []byte(`{"id":1}`), Ref: "r1"}}
		env := envelopeOf(op, Executed, t0)
		env.Differs, env.Expires = []string{"reason"}, t0
		b, err := json.Marshal(env)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s/%s: %v", a.status, a.reason, err)
		}
	}
}

func TestSchemaNamesEveryFieldOfTheEnvelope(t *testing.T) {
	t.Parallel()
	var doc struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal(EnvelopeSchema, &doc); err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[Envelope]().Fields() {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, ok := doc.Properties[name]; !ok {
			t.Errorf("got no property %q, want one for field %s", name, f.Name)
		}
		if optional := strings.HasPrefix(opts, "omit"); optional == slices.Contains(doc.Required, name) {
			t.Errorf("property %q: got required = %v, want %v", name, slices.Contains(doc.Required, name), !optional)
		}
		delete(doc.Properties, name)
	}
	for name := range doc.Properties {
		t.Errorf("the schema has %q, which the envelope lacks", name)
	}
}

// TestAdviceIsConsistent holds the table to the rules that a caller relies on.
func TestAdviceIsConsistent(t *testing.T) {
	t.Parallel()
	seen := map[[2]string]bool{}
	for _, a := range adviceTable {
		id := [2]string{string(a.status), string(a.reason)}
		if seen[id] {
			t.Errorf("%v has two rows", id)
		}
		seen[id] = true
		if a.safe && a.status != FailedNoEffect && a.reason != ReasonRead {
			t.Errorf("%v: retry_safe without FAILED_NO_EFFECT", id)
		}
		if a.next == CallAgain && !a.safe {
			t.Errorf("%v: call_again without retry_safe", id)
		}
		if a.status == Unknown && (a.next == UseResult || a.next == CallAgain || a.next == NewStep) {
			t.Errorf("%v: got next_action %s, want one that neither repeats nor relies on it", id, a.next)
		}
		if a.message == "" || strings.ContainsAny(a.message, "{}%") {
			t.Errorf("%v: message %q is empty or has a placeholder", id, a.message)
		}
	}
	for _, s := range []Status{Prepared, Pending, Succeeded, FailedNoEffect, Unknown, Compensated} {
		if !seen[[2]string{string(s), ""}] {
			t.Errorf("%s has no general row", s)
		}
	}
}

// TestEveryRefusalReasonHasItsOwnAdvice reads the reasons from the source, so that a new
// one cannot be forgotten.
func TestEveryRefusalReasonHasItsOwnAdvice(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "status.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST || g.Doc == nil || !strings.Contains(g.Doc.Text(), "refused") {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			reason, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			n++
			found := false
			for _, a := range adviceTable {
				found = found || a.reason == Reason(reason) && a.status == FailedNoEffect
			}
			if !found && reason != string(ReasonOpenElsewhere) && reason != string(ReasonDoneElsewhere) { // they show another operation's status
				t.Errorf("refusal %q has no row in the table", reason)
			}
		}
	}
	if n < 10 {
		t.Errorf("got %d refusal reasons, want the whole block", n)
	}
}

func TestEffectShowsNoControlCharacters(t *testing.T) {
	t.Parallel()
	c := &Contract{Tool: "mail", Effect: "mail to {to} with {n}{missing}"}
	id := &Identified{Identity: map[string]any{"to": "a\x1b[31m\u202eb\u200b\n" + strings.Repeat("x", 200)}, Args: map[string]any{"n": json.Number("3")}}
	got := effectText(c, id)
	if strings.ContainsAny(got, "\x1b\n\u202e\u200b") || len([]rune(got)) > 120 || !strings.HasSuffix(got, " with 3?") {
		t.Errorf("got %q, want one short line without control characters", got)
	}
}
