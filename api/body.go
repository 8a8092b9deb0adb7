package api

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"
	"strings"

	"github.com/pawl-dev/pawl"
)

// body reads what a route's request carries: nothing, or one JSON object, strictly, whose
// members are exactly those that the route knows. Only then does a framework see it.
func (g *gate) body(rt *route, s *session, r *http.Request) ([]byte, *Problem) {
	if rt.members == nil {
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
	raw, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return nil, problem(http.StatusRequestTimeout, CodeTimeout, "the body did not arrive in time")
	case err != nil:
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the body did not arrive whole")
	case len(raw) > MaxBody:
		return nil, problem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the body is larger than %d bytes", MaxBody)
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
	for key, value := range object {
		switch {
		case !rt.members[key]:
			return nil, invalid("body."+key, "there is no such member")
		case value == nil:
			return nil, invalid("body."+key, "null says nothing: leave it out")
		}
	}
	if tenant, named := object["tenant"].(string); named && tenant != s.Tenant {
		return nil, otherTenant()
	}
	return raw, nil
}

// membersOf lists the JSON names of an input's Body, or nil where it has none.
func membersOf(input reflect.Type) map[string]bool {
	f, ok := input.FieldByName("Body")
	if !ok {
		return nil
	}
	members := make(map[string]bool)
	for _, m := range reflect.VisibleFields(f.Type) {
		if member, _, _ := strings.Cut(m.Tag.Get("json"), ","); member != "" && (len(m.Index) == 1 || !m.Anonymous) {
			members[member] = true
		}
	}
	return members
}
