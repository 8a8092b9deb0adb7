package draft

import (
	"encoding/json"
	"slices"
	"strings"
)

// Tool is what a server or a document says of one tool.
type Tool struct {
	Name        string
	Description string
	Hints       Hints
	// Parameters are the members of its argument object: the required ones in the order in
	// which the schema lists them, then the others by name.
	Parameters []Parameter
	// Operation is how the tool is reached over HTTP; nil for a tool of an MCP server.
	Operation *Operation
}

// Hints are the annotations of an MCP tool; nil is an annotation that is not given.
type Hints struct {
	ReadOnly    *bool `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	Idempotent  *bool `json:"idempotentHint"`
}

// Parameter is one member of a tool's argument object.
type Parameter struct {
	Name        string
	Description string
	// Type is the JSON type, Items that of an array's elements; empty where the schema
	// does not say or allows several.
	Type     string
	Items    string
	Enum     []string
	Required bool
	// In is where a parameter of an HTTP operation goes: path, query, header or body.
	In string
}

// parameter returns the parameter of a name, or nil.
func (t *Tool) parameter(name string) *Parameter {
	i := slices.IndexFunc(t.Parameters, func(p Parameter) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Parameters[i]
}

// schema is the part of a JSON Schema that a draft looks at.
type schema struct {
	Type        json.RawMessage            `json:"type"`
	Description json.RawMessage            `json:"description"`
	Enum        []json.RawMessage          `json:"enum"`
	Items       json.RawMessage            `json:"items"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Required    json.RawMessage            `json:"required"`
	AnyOf       []json.RawMessage          `json:"anyOf"`
	OneOf       []json.RawMessage          `json:"oneOf"`
}

// readSchema reads a schema leniently: what has another form than expected is not known.
func readSchema(raw json.RawMessage) schema {
	var s schema
	if json.Unmarshal(raw, &s) != nil {
		var plain struct {
			Type json.RawMessage `json:"type"`
		}
		_ = json.Unmarshal(raw, &plain)
		return schema{Type: plain.Type}
	}
	return s
}

// typeName is the one type other than null that a schema allows.
func (s *schema) typeName() string {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		return one
	}
	var several []string
	_ = json.Unmarshal(s.Type, &several)
	for _, alternatives := range [][]json.RawMessage{s.AnyOf, s.OneOf} {
		for _, raw := range alternatives {
			if len(several) < maxAlternatives {
				a := readSchema(raw)
				one = ""
				_ = json.Unmarshal(a.Type, &one)
				several = append(several, one)
			}
		}
	}
	several = slices.DeleteFunc(several, func(t string) bool { return t == "null" })
	several = slices.Compact(several)
	if len(several) == 1 {
		return several[0]
	}
	return ""
}

// maxAlternatives bounds the alternatives of a type that are looked at.
const maxAlternatives = 16

// parameters lists the properties of an object's schema.
func parameters(raw json.RawMessage) []Parameter {
	s := readSchema(raw)
	var required []string
	_ = json.Unmarshal(s.Required, &required)
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		i, j := slices.Index(required, a), slices.Index(required, b)
		switch {
		case i >= 0 && j >= 0:
			return i - j
		case i >= 0:
			return -1
		case j >= 0:
			return 1
		}
		return strings.Compare(a, b)
	})
	all := make([]Parameter, 0, len(names))
	for _, name := range names {
		p := newParameter(name, s.Properties[name])
		p.Required = slices.Contains(required, name)
		all = append(all, p)
	}
	return all
}

func newParameter(name string, raw json.RawMessage) Parameter {
	s := readSchema(raw)
	p := Parameter{Name: name, Type: s.typeName()}
	_ = json.Unmarshal(s.Description, &p.Description)
	if p.Type == "array" {
		items := readSchema(s.Items)
		p.Items = items.typeName()
	}
	for _, v := range s.Enum {
		var text string
		if json.Unmarshal(v, &text) == nil {
			p.Enum = append(p.Enum, text)
		}
	}
	return p
}
