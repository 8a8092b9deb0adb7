package contract

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

//go:generate go run ./internal/schemafile pawl.schema.json

// schemaID names the published schema.
const schemaID = "https://github.com/pawl-dev/pawl/contract/pawl.schema.json"

// Schema returns the JSON Schema of contract files, for editors. It is made from the same
// types that the file is read into.
func Schema() ([]byte, error) {
	text := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }
	types := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[expression]():     {Types: []string{"string", "boolean", "integer"}},
		reflect.TypeFor[template]():       text(),
		reflect.TypeFor[pointerOrCEL]():   text(),
		reflect.TypeFor[duration]():       {AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: `^[0-9]`}, {Const: jsonschema.Ptr[any](0)}}},
		reflect.TypeFor[stringList]():     {AnyOf: []*jsonschema.Schema{text(), {Type: "array", Items: text()}}},
		reflect.TypeFor[bodyTerms]():      {},
		reflect.TypeFor[ruleTerms]():      {Ref: "#/$defs/rule"},
		reflect.TypeFor[fieldsTerm]():     {Ref: "#/$defs/fields"},
		reflect.TypeFor[identityTerms]():  {AnyOf: []*jsonschema.Schema{{Enum: []any{"none", "all"}}, {Ref: "#/$defs/fields"}}},
		reflect.TypeFor[keySecretTerms](): {Ref: "#/$defs/key_secret"},
		reflect.TypeFor[whenTerms]():      {Type: "object", AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/case"}},
		reflect.TypeFor[innerTerms]():     {Type: "object", AdditionalProperties: &jsonschema.Schema{Ref: "#/$defs/inner_tool"}},
	}
	for _, w := range []word{
		class(""), conventions(""), scope(""), repeat(""), afterRejection(""), shared(""), method(""), bodyEncoding(""),
		carrier(""), encoding(""), matchKind(""), negativeProof(""), timeFormat(""), network(""), wrapping(""),
		era(""), readOnlyHints(""), undeclared(""), emptySuccess(""),
	} {
		s := text()
		for _, v := range w.words() {
			s.Enum = append(s.Enum, v)
		}
		types[reflect.TypeOf(w)] = s
	}
	options := &jsonschema.ForOptions{TypeSchemas: types}
	var err error
	of := func(s *jsonschema.Schema, e error) *jsonschema.Schema {
		if err == nil {
			err = e
		}
		return s
	}
	longNoEffect := of(jsonschema.For[plainNoEffect](options))
	types[reflect.TypeFor[noEffectTerm]()] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{text(), {Type: "boolean"}, longNoEffect}}
	types[reflect.TypeFor[confirmTerms]()] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Enum: []any{"always", "never"}}, of(jsonschema.For[longConfirm](options))}}
	root := of(jsonschema.For[document](options))
	defs := map[string]*jsonschema.Schema{
		"rule": {AnyOf: []*jsonschema.Schema{text(), of(jsonschema.For[longRule](options))}},
		"fields": {AnyOf: []*jsonschema.Schema{
			{Type: "array", Items: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{text(), of(jsonschema.For[fieldTerms](options))}}},
			{Type: "object", AdditionalProperties: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{text(), of(jsonschema.For[namedField](options))}}},
		}},
		"case":       of(jsonschema.For[caseTerms](options)),
		"inner_tool": of(jsonschema.For[innerTool](options)),
		"key_secret": {AnyOf: []*jsonschema.Schema{
			text(), of(jsonschema.For[[]secretTerms](options)), of(jsonschema.For[keySecretTenants](options)),
		}},
	}
	if err != nil {
		return nil, fmt.Errorf("schema of contract files: %w", err)
	}
	withoutNull(root)
	for _, d := range defs {
		withoutNull(d)
	}
	root.Schema, root.ID, root.Title, root.Defs = "https://json-schema.org/draft/2020-12/schema", schemaID, "pawl contract file", defs
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schema of contract files: %w", err)
	}
	return append(b, '\n'), nil
}

// withoutNull takes back that a Go pointer or slice may be null: a key of a contract file
// has a value or is absent.
func withoutNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.Types = slices.DeleteFunc(s.Types, func(t string) bool { return t == "null" })
	switch len(s.Types) {
	case 0:
		s.Types = nil
	case 1:
		s.Type, s.Types = s.Types[0], nil
	}
	for _, p := range s.Properties {
		withoutNull(p)
	}
	for _, a := range s.AnyOf {
		withoutNull(a)
	}
	withoutNull(s.Items)
	withoutNull(s.AdditionalProperties)
}
