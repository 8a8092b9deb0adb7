package retail

import (
	"fmt"
	"strings"
	"time"
)

// Arrival is a request as it reaches the provider.
type Arrival struct {
	Tenant string
	// Kind is method and path below the tenant, N the number of the request among those of
	// its kind, from 1. Together they name a request in a way that can be repeated.
	Kind string
	N    int
	// Write: it wants an effect. Converges: it may arrive twice.
	Write, Converges bool
}

// Fault is what goes wrong with one request. The zero Fault is none.
type Fault struct {
	// Lost: the request never reaches the shop.
	Lost bool
	// Lands is the age at which the request reaches the shop, whoever still waits for it.
	Lands time.Duration
	// Twice: it reaches the shop twice, and the second outcome is answered.
	Twice bool
	// Delay is the time between the work and the answer.
	Delay time.Duration
	// Answer is what becomes of the answer.
	Answer Answer
}

// Answer is what becomes of an answer.
type Answer string

const (
	// AnswerWhole arrives. A lost request has no such answer.
	AnswerWhole Answer = ""
	// AnswerReset is a connection that is reset, AnswerClosed one that is closed in order.
	AnswerReset  Answer = "reset"
	AnswerClosed Answer = "closed"
	// AnswerNone never comes.
	AnswerNone Answer = "none"
	// AnswerCut ends in the middle of the body.
	AnswerCut Answer = "cut"
	// AnswerFailed is 500 in the shop's own shape; AnswerPage is a proxy's 502.
	AnswerFailed Answer = "500"
	AnswerPage   Answer = "502 page"
	// AnswerBusy is 429, by which the shop says that it did nothing: only for lost requests.
	AnswerBusy Answer = "429"
)

// String describes a fault on one line.
func (f Fault) String() string {
	var out []string
	add := func(given bool, format string, args ...any) {
		if given {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(f.Lost, "lost")
	add(f.Lands > 0, "lands after %v", f.Lands)
	add(f.Twice, "twice")
	add(f.Delay > 0, "answered after %v", f.Delay)
	add(f.Answer != AnswerWhole, "answer %s", f.Answer)
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
