package evidence

import (
	"strings"

	"github.com/pawl-dev/pawl"
)

// verdict is what a status means where the contract says nothing.
type verdict struct {
	class    pawl.AttemptClass
	strength pawl.Strength
}

var (
	succeeded      = verdict{class: pawl.ClassSucceeded}
	accepted       = verdict{class: pawl.ClassAccepted}
	ambiguous      = verdict{class: pawl.ClassAmbiguous}
	effectPossible = verdict{class: pawl.ClassEffectPossible}
	rejectedP2     = verdict{pawl.ClassRejected, pawl.P2}
	rejectedP4     = verdict{pawl.ClassRejected, pawl.P4}
	notSentP4      = verdict{pawl.ClassNotSent, pawl.P4}
)

// statusRow is the meaning of some statuses of a generic upstream.
type statusRow struct {
	codes []int
	// first and later are the meanings on the first and on a later attempt.
	first, later verdict
	// conflict: on a later attempt the answer may be the echo of our own success.
	conflict bool
	// hop: the status speaks of the connection and means the same whoever on the way says
	// it. Every other 4xx and 5xx must have the upstream's own shape to mean anything.
	hop bool
	// when must hold, or the answer is ambiguous.
	when func(*Observation, *Rules) bool
}

// statusTable covers the final statuses; one that is missing is ambiguous.
var statusTable = []statusRow{
	{codes: []int{200, 201, 204, 205}, first: succeeded, later: succeeded},
	{codes: []int{202}, first: accepted, later: accepted},
	{codes: []int{207}, first: effectPossible, later: effectPossible},      // a result per item
	{codes: []int{203, 206, 208, 226}, first: ambiguous, later: ambiguous}, // altered or partial
	{codes: []int{300, 301, 302, 303}, first: ambiguous, later: ambiguous}, // 303 often means success
	{codes: []int{304, 305}, first: ambiguous, later: ambiguous},           // no meaning here
	{codes: []int{307, 308}, first: rejectedP4, later: ambiguous},          // "do it there instead"
	{codes: []int{400, 405, 411, 413, 414}, first: rejectedP4, later: rejectedP4},
	{codes: []int{415, 417, 426, 428, 431, 451}, first: rejectedP4, later: rejectedP4},
	{codes: []int{401, 403}, first: rejectedP4, later: ambiguous},     // credentials may have changed in between
	{codes: []int{402}, first: effectPossible, later: effectPossible}, // a declined payment may be an object
	{codes: []int{404, 410, 412, 422}, first: rejectedP4, later: ambiguous, conflict: true},
	{codes: []int{406}, first: ambiguous, later: ambiguous}, // may be said after the handler ran
	{codes: []int{407}, first: rejectedP2, later: ambiguous, hop: true, when: proxied},
	{codes: []int{408}, first: rejectedP4, later: ambiguous, when: bodyNeverBegun},
	{codes: []int{409, 423}, first: ambiguous, later: ambiguous, conflict: true},
	{codes: []int{424}, first: ambiguous, later: ambiguous},
	{codes: []int{421, 425}, first: rejectedP4, later: rejectedP4, hop: true}, // they say "not processed"
	{codes: []int{429}, first: rejectedP4, later: rejectedP4},
	{codes: []int{460, 463, 499}, first: ambiguous, later: ambiguous}, // another hop gave up
	{codes: []int{500}, first: effectPossible, later: effectPossible},
	{codes: []int{501, 505, 510}, first: rejectedP4, later: rejectedP4},
	{codes: []int{502, 503, 504}, first: ambiguous, later: ambiguous},
	{codes: []int{507, 508, 509}, first: effectPossible, later: effectPossible},
	{codes: []int{511}, first: notSentP4, later: notSentP4, hop: true},     // a captive portal
	{codes: []int{520, 522, 524, 527}, first: ambiguous, later: ambiguous}, // the origin may have the request
	{codes: []int{521, 523, 525, 526, 530}, first: notSentP4, later: notSentP4, hop: true, when: saidByCloudflare},
}

var statusRows = func() map[int]*statusRow {
	m := map[int]*statusRow{}
	for i := range statusTable {
		for _, code := range statusTable[i].codes {
			m[code] = &statusTable[i]
		}
	}
	return m
}()

// proxied: a forward proxy asks for its credentials before the origin is reached. Behind a
// tunnel the origin itself says so, whatever it did before.
func proxied(o *Observation, _ *Rules) bool { return o.Proxied }

// bodyNeverBegun: a request without the body it needs. One whose body was begun may
// have been acted on, however little of it arrived.
func bodyNeverBegun(o *Observation, r *Rules) bool {
	return r.NeedsBody && o.BodySize > 0 && o.BodyPulled == 0
}

// saidByCloudflare: any origin can use these numbers; only its edge adds these headers.
func saidByCloudflare(o *Observation, _ *Rules) bool {
	h := o.Response.Header
	return h.Get("Cf-Ray") != "" && strings.EqualFold(h.Get("Server"), "cloudflare")
}
