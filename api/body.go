package api

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// body reads what a route's request carries: nothing, or one JSON object, strictly, that
// is what the route's schema says. Only then is it decoded.
func (g *gate) body(rt *route, s *session, r *http.Request) ([]byte, *Problem) {
	if rt.body == nil {
		if r.ContentLength != 0 {
			return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "this request takes no body")
		}
		return nil, nil
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, problem(http.StatusUnsupportedMediaType, CodeMediaType, "send the body with Content-Type: application/json")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, problem(http.StatusUnsupportedMediaType, CodeMediaType, "send the body without Content-Encoding")
	}
	raw, p := g.read(s, r.Body)
	if p != nil {
		return nil, p
	}
	v, err := pawl.ParseJSONLimit(raw, MaxBody)
	var bad *pawl.JSONError
	switch {
	case errors.As(err, &bad):
		return nil, problem(http.StatusBadRequest, CodeInvalidJSON, "the body is no strict JSON").at("body"+bad.Pointer, "at byte %d: %s", bad.Offset, bad.What)
	case err != nil:
		return nil, problem(http.StatusBadRequest, CodeInvalidJSON, "the body is no strict JSON")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, invalid("body", "want a JSON object")
	}
	if p := g.fits(rt.body, object); p != nil {
		return nil, p
	}
	if tenant, named := object["tenant"].(string); named && tenant != s.Tenant {
		return nil, otherTenant()
	}
	return raw, nil
}

// read takes a body in; for one that is not small it needs a place first.
func (g *gate) read(s *session, body io.Reader) ([]byte, *Problem) {
	raw, err := io.ReadAll(io.LimitReader(body, smallBody+1))
	if err == nil && len(raw) > smallBody {
		if s.large = g.large.enter(s.Tenant); !s.large {
			return nil, problem(http.StatusTooManyRequests, CodeTooMany, "as many requests over %d bytes are worked on as may be; nothing was done for this one", smallBody)
		}
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(body, MaxBody+1-int64(len(raw))))
		raw = append(raw, rest...)
	}
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return nil, problem(http.StatusRequestTimeout, CodeTimeout, "the body did not arrive in time")
	case err != nil:
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the body did not arrive whole")
	case len(raw) > MaxBody:
		return nil, problem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the body is larger than %d bytes", MaxBody)
	}
	return raw, nil
}

// measurable is a value with its numbers as the schemas' checks take them; one beyond all
// floats is infinite, which is checked as well.
func measurable(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = measurable(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = measurable(v[key])
		}
	}
	return v
}

// fits checks an object against a schema: every name to the letter, and no null.
func (g *gate) fits(schema *huma.Schema, object map[string]any) *Problem {
	if schema.Ref != "" {
		schema = g.schemas.SchemaFromRef(schema.Ref)
	}
	for key, value := range object {
		if value == nil {
			return invalid("body."+key, "null says nothing: leave it out")
		}
		object[key] = measurable(value)
		if schema.Properties[key] == nil {
			return invalid("body."+key, "there is no such member")
		}
	}
	path := huma.NewPathBuffer(nil, 0)
	path.Push("body")
	var found huma.ValidateResult
	huma.Validate(g.schemas, schema, path, huma.ModeWriteToServer, object, &found)
	if len(found.Errors) == 0 {
		return nil
	}
	p := problem(http.StatusUnprocessableEntity, CodeInvalidRequest, "the request is not valid")
	for _, err := range found.Errors {
		var fault *huma.ErrorDetail
		if errors.As(err, &fault) {
			p.because([]*huma.ErrorDetail{fault})
		}
	}
	return p
}
