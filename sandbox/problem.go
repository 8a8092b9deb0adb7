package sandbox

import (
	"encoding/json"
	"fmt"
)

// answer is what goes back to the client if no fault changes it.
type answer struct {
	status   int
	body     []byte
	replayed bool
	retry    int // seconds; 0 means no Retry-After
	header   map[string]string
}

// problem is an answer that says why nothing was done.
type problem struct {
	Status  int
	Code    string
	Message string
	// Field is the body field or parameter at fault, if it is one.
	Field string
	// ResourceID names the object that a conflict is about.
	ResourceID string
	// RetryAfter in seconds becomes a header where it is not 0.
	RetryAfter int
	// malformed requests are refused before the work begins; no key remembers them.
	malformed bool
}

// Error is for wrapping only; clients get the fields.
func (p *problem) Error() string { return p.Code + ": " + p.Message }

func invalid(field, format string, args ...any) *problem {
	return &problem{Status: 400, Code: "invalid_request", Message: field + ": " + fmt.Sprintf(format, args...), Field: field, malformed: true}
}

func rejected(status int, code, format string, args ...any) *problem {
	return &problem{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (p *problem) answer() answer {
	type inner struct {
		Code       string `json:"code"`
		Message    string `json:"message"`
		Field      string `json:"field,omitempty"`
		ResourceID string `json:"resource_id,omitempty"`
	}
	body, err := json.Marshal(struct {
		Error inner `json:"error"`
	}{inner{p.Code, p.Message, p.Field, p.ResourceID}})
	if err != nil {
		panic("sandbox: problem does not marshal: " + err.Error()) // every field is text
	}
	return answer{status: p.Status, body: body, retry: p.RetryAfter}
}

func notFound(service, id string) *problem {
	return rejected(404, "not_found", "%s has no %q", service, clip(id))
}

// clip shortens a client's text for a message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
