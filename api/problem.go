package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
)

// Problem is every answer that is no success: application/problem+json as RFC 9457 has it.
// Programs branch on Code. No text in it repeats a value that was sent.
type Problem struct {
	Title  string `json:"title" doc:"The status in words."`
	Status int    `json:"status" doc:"The HTTP status."`
	Code   Code   `json:"code" doc:"What went wrong, for programs."`
	Detail string `json:"detail" doc:"What went wrong, for people."`
	// Faults say where.
	Faults []Fault `json:"faults,omitempty" nullable:"false" doc:"Each place that is at fault."`
	// Version is the operation's present version where Code is version.
	Version int64 `json:"version,omitempty" doc:"The operation's present version, with code version."`
}

// Fault is one place of a request and what is wrong there.
type Fault struct {
	Where string `json:"where" doc:"Such as body.tool, query.limit, or body and a JSON pointer."`
	What  string `json:"what"`
}

// Code names a kind of problem. The codes of a decision that is refused are those of
// pawl.RefusalCode; those of a call that cannot be identified are those of pawl.Reason.
type Code string

const (
	CodeInvalidJSON      Code = "invalid_json"           // 400: the body is no strict JSON
	CodeInvalidRequest   Code = "invalid_request"        // 400, 422: a member or parameter is wrong
	CodeUnauthorized     Code = "unauthorized"           // 401: no token, or none that holds
	CodeHostRefused      Code = "host_refused"           // 403: called under a name that is not allowed
	CodeOriginRefused    Code = "origin_refused"         // 403: called by another site's page
	CodeScopeMissing     Code = "scope_missing"          // 403: the token may not do this
	CodeOtherTenant      Code = "other_tenant"           // 403: the request names another tenant
	CodeOtherActor       Code = "other_actor"            // 403: it belongs to another actor
	CodeNotFound         Code = "not_found"              // 404: no such operation, or no such path
	CodeNoPermits        Code = "no_permits"             // 409: the tool's requests are sent by pawl alone
	CodeNoPermit         Code = "no_permit"              // 409: nobody was given such a permit
	CodeMethodNotAllowed Code = "method_not_allowed"     // 405
	CodeTimeout          Code = "timeout"                // 408: the body came too slowly
	CodeTooLarge         Code = "too_large"              // 413: the body is over its limit
	CodeMediaType        Code = "unsupported_media_type" // 415: the body is not application/json
	CodeTooMany          Code = "too_many"               // 429: as many requests as the tenant may have
	CodeInternal         Code = "internal"               // 500
	CodeUnavailable      Code = "unavailable"            // 503: the store does not answer, or stopping
)

// Interface guards.
var (
	_ huma.StatusError       = (*Problem)(nil)
	_ huma.ContentTypeFilter = (*Problem)(nil)
)

func problem(status int, code Code, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// at adds a place that is at fault.
func (p *Problem) at(where, format string, args ...any) *Problem {
	p.Faults = append(p.Faults, Fault{Where: name(where), What: fmt.Sprintf(format, args...)})
	return p
}

// invalid is a request that can be read and makes no sense at one place.
func invalid(where, format string, args ...any) *Problem {
	return problem(http.StatusUnprocessableEntity, CodeInvalidRequest, "the request is not valid").at(where, format, args...)
}

// Error gives the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus gives the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType gives the media type of problems.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// write answers with a problem outside of huma.
func write(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", problemType)
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_ = writeJSON(w, p) // a client that has gone reads no problem
}

// writeJSON writes one value. It encodes first, so that a value that cannot be encoded
// leaves nothing half written.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

// ours replaces the framework's own errors: its texts are kept only where they come from
// our schemas, and never the values that it would repeat.
func ours(_ huma.Context, _ string, v any) (any, error) {
	e, framework := v.(*huma.ErrorModel)
	if !framework {
		return v, nil
	}
	if e.Status >= http.StatusInternalServerError {
		return problem(e.Status, CodeInternal, "the server could not do its work; the log says more"), nil
	}
	return problem(e.Status, CodeInvalidRequest, "the request is not valid").because(e.Errors), nil
}

// because adds the framework's faults, without the values in them.
func (p *Problem) because(faults []*huma.ErrorDetail) *Problem {
	for _, d := range faults {
		if d != nil && len(p.Faults) < maxFaults {
			p.at(d.Location, "%s", d.Message)
		}
	}
	return p
}

// maxFaults caps how many places one problem names.
const maxFaults = 16

// maxName caps the text of a place.
const maxName = 256

// name makes a place fit for one line: names of members come from outside.
func name(s string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; n > maxName || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}
