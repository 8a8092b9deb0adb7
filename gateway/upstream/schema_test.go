package upstream

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestHostileSchemas: a schema that goes round or is too deep checks nothing, and ends
// nothing; one that refers to itself on the way into the value is an ordinary tree.
func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"not":`, 2000) + `{}` + strings.Repeat(`}`, 2000)
	for raw, checks := range map[string]bool{
		`{"$ref":"#"}`:                                               false,
		`{"allOf":[{"$ref":"#"}]}`:                                   false,
		`{"not":{"anyOf":[{"$ref":"#"}]}}`:                           false,
		`{"$dynamicRef":"#x","type":"object"}`:                       false,
		`{"properties":{"a":{"allOf":[{"$ref":"#/properties/a"}]}}}`: false,
		`{"properties":{"a":{"if":{"$ref":"#/$defs/b"}}},"$defs":{"b":{"then":{"$ref":"#/$defs/b"}}}}`: false,
		`{"$ref":"http://a.example/schema"}`: false,
		deep:                                 false,
		`{`:                                  false,
		`7`:                                  false,
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`:                                      true,
		`{"$defs":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/n"}}}`:             true,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["a"]}`: true,
		`{"$id":"https://a.example/x","type":"object"}`:                                          true,
	} {
		s := &schema{raw: json.RawMessage(raw)}
		s.read()
		if got := s.resolved != nil; got != checks {
			t.Errorf("%.80s: checks: got %v, want %v", raw, got, checks)
			continue
		}
		if checks {
			v, err := pawl.ParseJSON([]byte(`{"a":{"a":{"a":{}}}}`))
			if err != nil {
				t.Fatal(err)
			}
			s.check(plain(v)) // what it says does not matter: it ends
		}
	}
}
