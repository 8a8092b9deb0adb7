package receiver

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// problem is an answer that says why nothing was done, as application/problem+json. It
// never repeats the key or the body.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Code is for programs.
	Code string `json:"code"`
	// Effect says what this request changed: none, or unknown.
	Effect string `json:"effect"`
	Detail string `json:"detail,omitempty"`
	retry  int    // seconds
}

// problems are what clients get for each reason.
var problems = []struct {
	err error
	p   problem
}{
	{ErrNoKey, problem{Status: 400, Code: "idempotency_key_required", Detail: "send the header Idempotency-Key: a text of your own in double quotes, one for each intention"}},
	{ErrBadKey, problem{Status: 400, Code: "idempotency_key_invalid"}},
	{ErrMismatch, problem{Status: 422, Code: "idempotency_conflict"}},
	{ErrInFlight, problem{Status: 409, Code: "idempotency_in_flight", retry: 1}},
	{ErrUnknown, problem{Status: 409, Code: "outcome_unknown"}},
	{ErrExpired, problem{Status: 409, Code: "key_expired"}},
	{ErrFenced, problem{Status: 409, Code: "key_fenced"}},
	{ErrUndone, problem{Status: 409, Code: "key_undone"}},
	{ErrNotKept, problem{Status: 409, Code: "result_not_kept", Detail: "read the result where the service shows it"}},
	{ErrTooLate, problem{Status: 412, Code: "not_after_passed"}},
	{errTooLarge, problem{Status: 413, Code: "body_too_large"}},
	{errNotAfter, problem{Status: 400, Code: "not_after_invalid"}},
	{errPrincipal, problem{Status: 401, Code: "principal_unknown"}},
}

var (
	errTooLarge  = errors.New("the body is larger than the service takes")
	errNotAfter  = errors.New("the not-after is no instant such as 2026-11-30T12:00:00Z")
	errPrincipal = errors.New("the caller is not known")
)

// Problem is the answer for an error of this package, or of the database, as Wrap gives it:
// a body of application/problem+json that says what the request changed. AtCommit says that
// the database failed at the end, so that nobody knows, whatever the error is.
func Problem(err error, atCommit bool) (status int, header http.Header, body []byte) {
	p := problem{Status: 503, Code: "store_unavailable", retry: 1}
	title := "the record of keys cannot be reached; nothing was done"
	if atCommit {
		p.Code, p.Effect, title = "outcome_unknown", "unknown", "the record of keys failed at the end; the same request again tells what happened"
	}
	for _, known := range problems {
		if !atCommit && errors.Is(err, known.err) {
			p, title = known.p, known.err.Error()
			break
		}
	}
	p.Type, p.Title = "about:blank", title
	if p.Effect == "" {
		p.Effect = "none"
	}
	body, err = json.Marshal(p)
	if err != nil {
		panic("receiver: " + err.Error()) // texts and numbers
	}
	header = http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}}
	if p.retry > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retry))
	}
	return p.Status, header, body
}

func refuse(w http.ResponseWriter, err error, atCommit bool) {
	status, header, body := Problem(err, atCommit)
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
}
