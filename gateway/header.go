package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/pawl-dev/pawl/gateway/wire"
)

func mismatch(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.CodeHeaderMismatch, Message: fmt.Sprintf(format, args...)}
}

// checkHeaders holds the headers of a modern request to its body: whoever routes or
// filters by headers must see what is done.
func (x *exchange) checkHeaders(version, said string) *wire.Error {
	switch {
	case version == "":
		return mismatch("the %s header is missing", wire.HeaderVersion)
	case said == "":
		return invalid("missing or invalid _meta field %q", wire.MetaVersion)
	case version != said:
		return mismatch("the %s header is not the body's %s", wire.HeaderVersion, wire.MetaVersion)
	}
	if method := x.header.Get(wire.HeaderMethod); method != x.method {
		return mismatch("the %s header is missing or not the body's method", wire.HeaderMethod)
	}
	member := ""
	switch x.method {
	case wire.MethodCallTool, wire.MethodGetPrompt:
		member = "name"
	case wire.MethodReadResource:
		member = "uri"
	default:
		return nil
	}
	name, ok := wire.DecodeHeader(x.header.Get(wire.HeaderName))
	if want, _ := x.params.Text(member); !ok || name == "" || name != want {
		return mismatch("the %s header is missing or not the body's %s", wire.HeaderName, member)
	}
	return nil
}

// checkArguments holds the headers of a modern tools/call to the arguments that its schema
// says they mirror.
func (x *exchange) checkArguments() *wire.Error {
	if x.method != wire.MethodCallTool {
		return nil
	}
	name, _ := x.params.Text("name")
	if name == statusTool {
		return nil
	}
	t := x.door.tool(x.ctx, x.client, name)
	if t == nil {
		return nil // the call itself says so
	}
	args, err := wire.ParseObject(x.params.Get("arguments"))
	if err != nil {
		args = nil
	}
	return x.checkMirrors(t.schema, args)
}

// checkMirrors goes through the properties of one object.
func (x *exchange) checkMirrors(schema json.RawMessage, args wire.Object) *wire.Error {
	o, err := wire.ParseObject(schema)
	if err != nil {
		return nil
	}
	properties, err := wire.ParseObject(o.Get("properties"))
	if err != nil {
		return nil
	}
	for _, p := range properties {
		inner, err := wire.ParseObject(p.Value)
		if err != nil {
			continue
		}
		value := args.Get(p.Name)
		if mirror, ok := inner.Text("x-mcp-header"); ok && mirror != "" {
			if wrong := x.checkMirror(wire.HeaderParamPrefix+mirror, p.Name, value); wrong != nil {
				return wrong
			}
		}
		if inner.Get("properties") != nil {
			below, err := wire.ParseObject(value)
			if err != nil {
				below = nil
			}
			if wrong := x.checkMirrors(p.Value, below); wrong != nil {
				return wrong
			}
		}
	}
	return nil
}

func (x *exchange) checkMirror(header, name string, value json.RawMessage) *wire.Error {
	given := x.header.Values(header)
	switch {
	case value == nil && len(given) > 0:
		return mismatch("the %s header is there and the argument %q is not", header, clip(name))
	case value == nil:
		return nil
	case len(given) != 1:
		return mismatch("the %s header is missing for the argument %q, or there twice", header, clip(name))
	}
	text, ok := wire.DecodeHeader(given[0])
	if !ok || !mirrors(text, value) {
		return mismatch("the %s header is not the argument %q", header, clip(name))
	}
	return nil
}

// mirrors reports whether a text is a JSON text, truth value or whole number.
func mirrors(text string, value json.RawMessage) bool {
	switch value[0] {
	case '"':
		var s string
		return json.Unmarshal(value, &s) == nil && s == text
	case 't', 'f':
		return text == string(value)
	case '{', '[':
		return false
	}
	a, errA := strconv.ParseFloat(text, 64)
	b, errB := strconv.ParseFloat(string(value), 64)
	const most = 1<<53 - 1
	return errA == nil && errB == nil && a == b && b == float64(int64(b)) && -most <= b && b <= most
}

// jsonValid reports whether a text is JSON at all.
func jsonValid(raw []byte) bool { return json.Valid(bytes.TrimSpace(raw)) }
