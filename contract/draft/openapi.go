package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Operation is how a tool is reached over HTTP.
type Operation struct {
	Method string
	// Path has its parameters in braces.
	Path string
	// Whole: the body is one argument, body, and not made of several.
	Whole bool
	// HasBody: there is a body.
	HasBody bool
}

// apiDocument is the part of an OpenAPI document that a draft looks at.
type apiDocument struct {
	OpenAPI string `json:"openapi"`
	Servers []struct {
		URL string `json:"url"`
	} `json:"servers"`
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		SecuritySchemes map[string]struct {
			Type   string `json:"type"`
			Scheme string `json:"scheme"`
			In     string `json:"in"`
			Name   string `json:"name"`
		} `json:"securitySchemes"`
	} `json:"components"`

	whole any // for references
}

type apiOperation struct {
	OperationID string            `json:"operationId"`
	Summary     string            `json:"summary"`
	Description string            `json:"description"`
	Parameters  []json.RawMessage `json:"parameters"`
	RequestBody json.RawMessage   `json:"requestBody"`
}

type apiParameter struct {
	Ref         string          `json:"$ref"`
	Name        string          `json:"name"`
	In          string          `json:"in"`
	Description string          `json:"description"`
	Required    bool            `json:"required"`
	Schema      json.RawMessage `json:"schema"`
}

type apiBody struct {
	Ref      string `json:"$ref"`
	Required bool   `json:"required"`
	Content  map[string]struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"content"`
}

// apiSchema is an object's schema as far as its members are looked for.
type apiSchema struct {
	Ref        string                     `json:"$ref"`
	Type       json.RawMessage            `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	AllOf      []json.RawMessage          `json:"allOf"`
	ReadOnly   bool                       `json:"readOnly"`
}

// maxReferences bounds the steps from a reference to what it names, and the parts of a
// schema that are put together.
const maxReferences = 32

// ReadOpenAPI reads an OpenAPI 3 document in JSON: its operations as tools, and the server
// that they are operations of, without its name. Name is what errors call the document.
func ReadOpenAPI(name string, src []byte) ([]Tool, Server, error) {
	fail := func(offset int64, format string, args ...any) ([]Tool, Server, error) {
		line, column := placeOf(src, int(offset))
		return nil, Server{}, &InputError{name, line, column, fmt.Sprintf(format, args...)}
	}
	if len(src) > MaxInput {
		return fail(0, "the file is larger than %d bytes", MaxInput)
	}
	if !utf8.Valid(src) {
		return fail(0, "the file is not UTF-8")
	}
	raw := bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	var d apiDocument
	err := json.Unmarshal(raw, &d.whole)
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fail(int64(len(src)-len(raw))+syntax.Offset-1, "no JSON: %s", strings.TrimPrefix(syntax.Error(), "json: "))
	case errors.As(err, &shape):
		return fail(0, "the member %q has another form than OpenAPI gives it", shape.Field)
	case err != nil:
		return fail(0, "%v", err)
	case !strings.HasPrefix(d.OpenAPI, "3."):
		return fail(0, "want an OpenAPI document of version 3")
	}
	var tools []Tool
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		item := d.Paths[path]
		var shared []json.RawMessage
		_ = json.Unmarshal(item["parameters"], &shared)
		for _, method := range []string{"get", "head", "post", "put", "patch", "delete"} {
			if item[method] == nil {
				continue
			}
			var o apiOperation
			if err := json.Unmarshal(item[method], &o); err != nil {
				return fail(0, "%s %s has another form than OpenAPI gives it", strings.ToUpper(method), printable(shorten(path)))
			}
			o.Parameters = append(shared, o.Parameters...)
			tools = append(tools, d.tool(strings.ToUpper(method), path, &o))
		}
	}
	if len(tools) == 0 {
		return fail(0, "no operation is listed")
	}
	tools, err = checked(name, tools)
	return tools, d.server(), err
}

func (d *apiDocument) server() Server {
	s := Server{HTTP: true, Headers: map[string]string{}}
	if len(d.Servers) > 0 {
		if u, err := url.Parse(d.Servers[0].URL); err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && !strings.ContainsAny(d.Servers[0].URL, "{}") {
			s.URL = strings.TrimRight(d.Servers[0].URL, "/")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Components.SecuritySchemes)) {
		switch k := d.Components.SecuritySchemes[name]; {
		case k.Type == "oauth2" || k.Type == "http" && strings.EqualFold(k.Scheme, "bearer"):
			s.Headers["Authorization"] = "Bearer ${env:API_TOKEN}"
		case k.Type == "http" && strings.EqualFold(k.Scheme, "basic"):
			s.Headers["Authorization"] = "Basic ${env:API_CREDENTIALS}"
		case k.Type == "apiKey" && k.In == "header" && headerName(k.Name):
			s.Headers[k.Name] = "${env:API_KEY}"
		default:
			continue
		}
		break
	}
	return s
}

// inPath finds the parameters of a path.
var inPath = regexp.MustCompile(`\{([^{}/]+)\}`)

func headerName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) || r == '/' })
}

func (d *apiDocument) tool(method, path string, o *apiOperation) Tool {
	t := Tool{Name: operationName(method, path, o.OperationID), Description: strings.TrimSpace(o.Summary + ". " + o.Description), Operation: &Operation{Method: method, Path: path}}
	var key *Parameter
	for _, raw := range o.Parameters {
		var p apiParameter
		d.resolve(raw, &p)
		own := newParameter(p.Name, d.schema(p.Schema))
		own.Description, own.Required, own.In = p.Description, p.Required, p.In
		switch {
		case p.In == "path", p.In == "query":
			t.Parameters = append(slices.DeleteFunc(t.Parameters, func(other Parameter) bool { return other.Name == p.Name }), own)
		case p.In == "header" && isKey(&own) && method != "GET" && method != "HEAD":
			key = &own
		}
	}
	for _, m := range inPath.FindAllStringSubmatch(path, -1) {
		if p := t.parameter(m[1]); p == nil || p.In != "path" {
			t.Parameters = slices.DeleteFunc(t.Parameters, func(other Parameter) bool { return other.Name == m[1] })
			t.Parameters = append(t.Parameters, Parameter{Name: m[1], Type: "string", Required: true, In: "path"})
		}
	}
	d.body(&t, o.RequestBody)
	if key != nil {
		t.Parameters = append(t.Parameters, *key)
	}
	return t
}

// operationName is the operation's id as a name of a tool, or else its method and path.
func operationName(method, path, id string) string {
	if id == "" {
		id = strings.ToLower(method) + "_" + strings.Map(func(r rune) rune {
			if r == '{' || r == '}' {
				return -1
			}
			return r
		}, strings.Trim(path, "/"))
	}
	name := strings.Map(func(r rune) rune {
		if plain(r) && r != '/' {
			return r
		}
		return '_'
	}, id)
	return strings.Trim(name[:min(len(name), 64)], "_.-")
}

// body adds the members of a request's body to the arguments, or the whole as one of them.
func (d *apiDocument) body(t *Tool, raw json.RawMessage) {
	if len(raw) == 0 || t.Operation.Method == "GET" || t.Operation.Method == "HEAD" {
		return
	}
	var b apiBody
	d.resolve(raw, &b)
	content, ok := b.Content["application/json"]
	if !ok {
		return
	}
	t.Operation.HasBody = true
	parts := 0
	properties, required := map[string]json.RawMessage{}, map[string]bool{}
	d.members(content.Schema, properties, required, &parts)
	names := slices.Sorted(maps.Keys(properties))
	clash := slices.ContainsFunc(t.Parameters, func(p Parameter) bool { _, ok := properties[p.Name]; return ok })
	if len(names) == 0 || len(names) > maxMembers || clash || slices.ContainsFunc(names, func(n string) bool { return !placeholder(n) }) {
		whole := newParameter("body", d.schema(content.Schema))
		whole.Required, whole.In, t.Operation.Whole = b.Required, "body", true
		t.Parameters = append(t.Parameters, whole)
		return
	}
	for _, needed := range []bool{true, false} {
		for _, name := range names {
			if required[name] == needed {
				p := newParameter(name, d.schema(properties[name]))
				p.Required, p.In = needed, "body"
				t.Parameters = append(t.Parameters, p)
			}
		}
	}
}

// maxMembers bounds the members of a body that become arguments of their own.
const maxMembers = 60

// members collects the members of an object and of the parts that it is made of.
func (d *apiDocument) members(raw json.RawMessage, properties map[string]json.RawMessage, required map[string]bool, parts *int) {
	if *parts++; *parts > maxReferences {
		return
	}
	var s apiSchema
	d.resolve(raw, &s)
	for name, p := range s.Properties {
		var own apiSchema
		d.resolve(p, &own)
		if !own.ReadOnly {
			properties[name] = p
		}
	}
	for _, name := range s.Required {
		required[name] = true
	}
	for _, part := range s.AllOf {
		d.members(part, properties, required, parts)
	}
}

// schema is a schema with its outermost reference followed.
func (d *apiDocument) schema(raw json.RawMessage) json.RawMessage {
	var s json.RawMessage
	d.resolve(raw, &s)
	return s
}

// resolve decodes a part of the document into v, or what it refers to. What cannot be found
// leaves v as it is.
func (d *apiDocument) resolve(raw json.RawMessage, v any) {
	for range maxReferences {
		var r struct {
			Ref string `json:"$ref"`
		}
		if json.Unmarshal(raw, &r) != nil || r.Ref == "" {
			break
		}
		at, ok := strings.CutPrefix(r.Ref, "#/")
		if !ok {
			return
		}
		target := d.whole
		for step := range strings.SplitSeq(at, "/") {
			object, _ := target.(map[string]any)
			target = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		}
		var err error
		if raw, err = json.Marshal(target); err != nil || target == nil {
			return
		}
	}
	_ = json.Unmarshal(raw, v)
}

// IsOpenAPI reports whether a text is an OpenAPI document in JSON rather than a tool list.
func IsOpenAPI(src []byte) bool {
	var d struct {
		OpenAPI string `json:"openapi"`
	}
	return json.Unmarshal(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")), &d) == nil && d.OpenAPI != ""
}
