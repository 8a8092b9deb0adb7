package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/pawl-dev/pawl"
)

// schema is the input schema of a tool.
type schema struct {
	raw json.RawMessage

	once     sync.Once
	resolved *jsonschema.Resolved // nil for one that this program cannot read
	bound    []binding
}

// ErrArguments: arguments do not fit the tool's schema.
var ErrArguments = errors.New("the arguments do not fit the tool's schema")

// maxSchema caps a schema that is read, in bytes.
const maxSchema = 256 << 10

func (s *schema) read() {
	s.once.Do(func() {
		if len(s.raw) == 0 || len(s.raw) > maxSchema {
			return
		}
		s.bound = bindings(s.raw, nil, 0)
		s.resolved = resolve(s.raw)
	})
}

// resolve reads a schema; nil where it cannot be read, as one that refers to another file.
func resolve(raw json.RawMessage) (r *jsonschema.Resolved) {
	defer func() {
		if recover() != nil { // the schema is a stranger's, and the library may not expect it
			r = nil
		}
	}()
	v, err := pawl.ParseJSONLimit(raw, maxSchema) // it bounds the depth as well
	if err != nil || endless(v) {
		return nil
	}
	var js jsonschema.Schema
	if json.Unmarshal(raw, &js) != nil {
		return nil
	}
	resolved, err := js.Resolve(nil)
	if err != nil {
		return nil
	}
	return resolved
}

func (s *schema) headers() []binding {
	s.read()
	return s.bound
}

// checkArguments checks arguments against what the server last said about the tool.
func (u *Upstream) checkArguments(tool string, arguments json.RawMessage) error {
	s := u.schemaOf(tool)
	if s == nil {
		return nil
	}
	s.read()
	if s.resolved == nil {
		return nil
	}
	v, err := pawl.ParseJSONLimit(arguments, len(arguments))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrArguments, err)
	}
	return s.check(plain(v))
}

func (s *schema) check(v any) (err error) {
	defer func() {
		if recover() != nil {
			err = nil // what cannot be checked here is the server's to check
		}
	}()
	if err := s.resolved.Validate(v); err != nil {
		return fmt.Errorf("%w: %s", ErrArguments, whereAndWhat(err.Error()))
	}
	return nil
}

// plain gives numbers the type that the library knows.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = plain(x)
		}
	case []any:
		for i, x := range v {
			v[i] = plain(x)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	}
	return v
}

// whereAndWhat takes the place and the rule out of the library's text, which goes on with
// the value. What a rule says about names goes along: they are the schema's.
func whereAndWhat(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	place := ""
	for {
		rest, ok := strings.CutPrefix(line, "validating ")
		if !ok {
			break
		}
		p, after, ok := strings.Cut(rest, ": ")
		if !ok {
			break
		}
		if p != "root" {
			place = p
		}
		line = after
	}
	rule, detail, _ := strings.Cut(line, ": ")
	what := rule
	switch rule {
	case "required":
		what = "required: " + detail
	case "type":
		if _, want, ok := strings.Cut(detail, ", want "); ok {
			what = "type: want " + want
		}
	}
	if strings.HasPrefix(rule, "unexpected additional properties") || len(what) > maxWhat {
		what = cut(what)
	}
	if place == "" {
		return what
	}
	return "at " + cut(place) + ": " + what
}

// maxWhat caps what is said about arguments.
const maxWhat = 200
