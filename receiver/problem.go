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
	// Answer is what is kept of an answer whose body was too large.
	Answer *summary `json:"answer,omitempty"`
	retry  int      // seconds
}

type summary struct {
	Status int    `json:"status"`
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

// problems are what clients get for each reason.
var problems = []struct {
	err error
	p   problem
}{
	{ErrNoKey, problem{Status: 400, Code: "idempotency_key_required", Detail: "send the header Idempotency-Key: a text of your own in double quotes, one for each intention"}},
	{ErrBadKey, problem{Status: 400, Code: "idempotency_key_invalid"}},
	{ErrNotAfter, problem{Status: 400, Code: "not_after_invalid", Detail: "send one instant such as 2026-11-30T12:00:00Z, not later than the service remembers keys"}},
	{ErrMismatch, problem{Status: 422, Code: "idempotency_conflict"}},
	{ErrInFlight, problem{Status: 409, Code: "idempotency_in_flight", retry: 1}},
	{ErrUnknown, problem{Status: 409, Code: "outcome_unknown"}},
	{ErrExpired, problem{Status: 409, Code: "key_expired"}},
	{ErrFenced, problem{Status: 409, Code: "key_fenced"}},
	{ErrUndone, problem{Status: 409, Code: "key_undone"}},
	{ErrNotKept, problem{Status: 409, Code: "result_not_kept", Detail: "read the result where Location says, or where the service shows it"}},
	{ErrTooLate, problem{Status: 412, Code: "not_after_passed"}},
	{ErrReplica, problem{Status: 503, Code: "replica", retry: 1}},
	{errTooLarge, problem{Status: 413, Code: "body_too_large"}},
	{errAnswerTooLarge, problem{Status: 500, Code: "answer_too_large"}},
	{errPrincipal, problem{Status: 401, Code: "principal_unknown"}},
}

var (
	errTooLarge       = errors.New("the body is larger than the service takes")
	errAnswerTooLarge = errors.New("the answer is larger than the service gives; everything was rolled back")
	errPrincipal      = errors.New("the caller is not known")
)

// Problem is the answer for an error of this package, or of the database, as Wrap gives it:
// a body of application/problem+json that says what the request changed. Unknown says that
// nobody knows, because the database failed at the end or there are effects outside.
func Problem(err error, unknown bool) (status int, header http.Header, body []byte) {
	title, p := problemOf(err)
	if title == "" {
		title, p = "the record of keys cannot be reached; nothing was done", problem{Status: 503, Code: "store_unavailable", retry: 1}
	}
	p.Effect = "none"
	if unknown {
		title = "the request did not end well; the same request again tells what happened"
		p = problem{Status: 503, Code: "outcome_unknown", Effect: "unknown", retry: 1}
	}
	p.Type, p.Title = "about:blank", title
	header = http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}}
	if p.retry > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retry))
	}
	var large *notKeptError
	if errors.As(err, &large) {
		p.Answer = &summary{large.answer.Status, large.answer.Size, large.answer.Digest}
		for _, name := range []string{"Location", "Content-Location", "Link"} {
			if values := large.answer.Header[name]; values != nil {
				header[name] = values
			}
		}
	}
	body, err = json.Marshal(p)
	if err != nil {
		panic("receiver: " + err.Error()) // texts and numbers
	}
	return p.Status, header, body
}

// problemOf is the problem of a known reason; the title is empty for any other error.
func problemOf(err error) (title string, p problem) {
	for _, known := range problems {
		if errors.Is(err, known.err) {
			return known.err.Error(), known.p
		}
	}
	return "", problem{}
}

// notKeptError is ErrNotKept with what is kept of the answer.
type notKeptError struct{ answer *Response }

func (e *notKeptError) Error() string { return ErrNotKept.Error() }
func (e *notKeptError) Unwrap() error { return ErrNotKept }

// refuse answers with the reason and logs what an operator has to see to.
func (r *Receiver) refuse(w http.ResponseWriter, err error, unknown bool) {
	if title, _ := problemOf(err); title == "" || unknown {
		r.o.Log.Error("receiver failed", "error", err, "effect_unknown", unknown)
	}
	status, header, body := Problem(err, unknown)
	if r.o.DescribedBy != "" {
		header.Add("Link", "<"+r.o.DescribedBy+`>; rel="describedby"`)
	}
	send(w, status, header, body)
}

func send(w http.ResponseWriter, status int, header http.Header, body []byte) {
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone; what is recorded stays
}
