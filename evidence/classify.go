package evidence

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rule"
)

// Rules say what a tool's contract knows about its answers. Any function may be nil. A
// function is asked about final answers of every status, also those that are not
// intact, and an answer that is not intact has no JSON.
type Rules struct {
	// NeedsBody: the tool does nothing without its request body.
	NeedsBody bool
	// ExpectBody: a success has a JSON body.
	ExpectBody bool
	// BodyMayFail: a 2xx may carry its own failure in the body (JSON-RPC, GraphQL, "ok":
	// false), so that a 2xx alone is no success. Without Success nothing is then.
	BodyMayFail bool
	// Success decides whether an answer proves the effect. With an error it does not. Nil
	// means that the status decides.
	Success func(*Response) (bool, error)
	// Accepted decides whether an answer means "later". Nil means that 202 does.
	Accepted func(*Response) (bool, error)
	// NoEffect matches the answers that the contract lists as "no effect"; transient ones
	// pass by themselves.
	NoEffect func(*Response) (match, transient bool)
	// InFlight matches "the same key is being worked on"; Mismatch "the same key came with
	// other parameters". Both go before NoEffect.
	InFlight func(*Response) bool
	Mismatch func(*Response) bool
	// OwnShape recognises the upstream's own errors, against those of hops on the way. Nil
	// means a JSON object sent as JSON.
	OwnShape func(*Response) bool
	// Replayed recognises an answer that is the replay of an earlier one. Nil means the
	// header "Idempotent-Replayed: true".
	Replayed func(*Response) bool
	// Result takes the result, which is JSON, and the provider's id out of a success. Nil
	// means the whole JSON body.
	Result func(*Response) (result json.RawMessage, ref string, err error)
}

// Classify says what an observation proves about its own attempt. The first attempt has
// number 1. Numbers above it stand for attempts of which an earlier one may have reached
// the provider: then an answer of the conflict family proves nothing, since it may be the
// echo of our own success, and is AMBIGUOUS with Conflict set.
//
// A contract's word goes before the status table, in the order in-flight, mismatch, no
// effect, accepted, success. Strength P4 marks what rests on a convention alone; the
// operation's contract decides whether that counts.
//
// A 2xx is SUCCEEDED only in its declared shape. An answer that is something else where
// JSON is expected, such as a login page, comes from nobody known and is AMBIGUOUS. One
// that begins as the JSON it should be and is cut or malformed, or is empty where a body
// is expected, is RESULT_LOST if a 2xx alone means success: BodyMayFail is not set, and
// Success, if given, holds without the body.
func Classify(o *Observation, r *Rules, attempt int) pawl.Evidence {
	if r == nil {
		r = &Rules{}
	}
	c := &classifier{o: o, r: r, res: o.Response, later: attempt > 1, e: Facts(o)}
	c.decide()
	return c.e
}

type classifier struct {
	o     *Observation
	r     *Rules
	res   *Response
	later bool
	e     pawl.Evidence
}

func (c *classifier) set(v verdict, proof string) {
	c.e.Class, c.e.Strength, c.e.Proof = v.class, v.strength, proof
}

func (c *classifier) decide() {
	notSent := verdict{pawl.ClassNotSent, pawl.P1}
	switch {
	case c.res != nil:
		c.answered()
	case !c.o.HadConnection:
		c.set(notSent, "no_connection")
	case c.o.BytesBegun == 0:
		c.set(notSent, "no_bytes")
	case bodyNeverBegun(c.o, c.r):
		c.set(notSent, "no_body")
	case c.o.Refused != "":
		c.set(rejectedP2, string(c.o.Refused))
	default:
		c.set(ambiguous, "no_answer")
	}
}

func (c *classifier) answered() {
	row := statusRows[c.res.Status]
	if row == nil {
		row = &statusRow{first: ambiguous, later: ambiguous}
		if !rule.Holds(rule.UnlistedIsUnknown) {
			row.first, row.later = rejectedP4, rejectedP4
		}
	}
	c.e.Replayed = c.replayed()
	switch {
	case c.o.Early || !c.o.HadConnection || c.o.BytesBegun == 0:
		c.set(ambiguous, "answer_before_request")
	case c.res.Status < 200:
		c.set(ambiguous, "no_final_answer")
	case holds(c.r.InFlight, c.res):
		c.e.InFlight = true
		c.set(ambiguous, "contract_in_flight")
	case holds(c.r.Mismatch, c.res):
		c.e.KeyMismatch = true
		c.set(ambiguous, "contract_mismatch")
	case c.noEffect(row):
	case c.res.Status < 300:
		c.positive(row)
	default:
		c.negative(row)
	}
}

// noEffect takes the contract's list of answers that mean "no effect".
func (c *classifier) noEffect(row *statusRow) bool {
	if c.r.NoEffect == nil {
		return false
	}
	match, transient := c.r.NoEffect(c.res)
	switch {
	case !match:
		return false
	case c.later && row.conflict:
		c.e.Conflict = true
		c.set(ambiguous, "conflict")
	default:
		c.e.Transient = transient
		c.set(verdict{pawl.ClassRejected, pawl.P3}, "contract_no_effect")
	}
	return true
}

// positive judges a 2xx.
func (c *classifier) positive(row *statusRow) {
	shape := c.shape()
	later, laterErr := ask(c.r.Accepted, c.res)
	if c.r.Accepted == nil {
		later = c.res.Status == http.StatusAccepted
	}
	success, successErr := ask(c.r.Success, c.res)
	switch {
	case shape == shapeForeign:
		c.set(ambiguous, "foreign_answer")
	case later && shape == shapeLost && c.r.BodyMayFail:
		c.set(ambiguous, "unreadable")
	case later && c.r.Accepted != nil:
		c.set(accepted, "contract_accepted")
	case later:
		c.set(accepted, "status_table")
	case shape == shapeLost:
		alone := c.r.Success == nil && row.first == succeeded || success && successErr == nil
		if alone && laterErr == nil && !c.r.BodyMayFail {
			c.set(verdict{class: pawl.ClassResultLost}, "unreadable")
		} else {
			c.set(ambiguous, "unreadable")
		}
	case c.r.Success != nil && successErr != nil:
		c.fail(successErr)
		c.set(ambiguous, "contract_undecided")
	case c.r.Success != nil && success:
		c.success("contract_success")
	case c.r.Success != nil:
		c.set(effectPossible, "contract_no_success")
	case laterErr != nil:
		c.fail(laterErr)
		c.set(ambiguous, "contract_undecided")
	case c.r.BodyMayFail || row.first == accepted:
		c.set(ambiguous, "no_success_test")
	case row.first == succeeded:
		c.success("status_table")
	default:
		c.set(row.first, "status_table")
	}
}

// negative judges every other final status.
func (c *classifier) negative(row *statusRow) {
	if c.res.Intact() == nil {
		if later, err := ask(c.r.Accepted, c.res); later && err == nil {
			c.set(accepted, "contract_accepted")
			return
		}
		if success, err := ask(c.r.Success, c.res); success && err == nil {
			c.success("contract_success")
			return
		}
	}
	c.e.Conflict = c.later && row.conflict
	switch {
	case c.e.Conflict:
		c.set(ambiguous, "conflict")
	case c.res.Status >= 400 && !row.hop && !c.ownShape():
		c.set(ambiguous, "foreign_answer")
	case row.when != nil && !row.when(c.o, c.r):
		c.set(ambiguous, "status_table")
	case c.later:
		c.set(row.later, "status_table")
	default:
		c.set(row.first, "status_table")
	}
}

// success takes the result; one that cannot be taken is lost, the effect is not.
func (c *classifier) success(proof string) {
	c.set(succeeded, proof)
	if c.r.Result == nil {
		if _, err := c.res.JSON(); err == nil {
			c.e.Result = c.res.Body
		}
		return
	}
	result, ref, err := c.r.Result(c.res)
	if err != nil {
		c.fail(err)
		c.set(verdict{class: pawl.ClassResultLost}, "contract_result")
		return
	}
	c.e.Result, c.e.Ref = result, ref
}

func (c *classifier) fail(err error) {
	if c.e.Error == "" {
		c.e.Error = shorten(err.Error(), maxText)
	}
}

func (c *classifier) replayed() bool {
	if c.r.Replayed != nil {
		return c.r.Replayed(c.res)
	}
	return strings.EqualFold(c.res.Header.Get("Idempotent-Replayed"), "true")
}

func (c *classifier) ownShape() bool {
	if c.r.OwnShape != nil {
		return c.r.OwnShape(c.res)
	}
	v, err := c.res.JSON()
	_, object := v.(map[string]any)
	return err == nil && object && isJSON(mediaType(c.res))
}

func holds(f func(*Response) bool, res *Response) bool { return f != nil && f(res) }

func ask(f func(*Response) (bool, error), res *Response) (bool, error) {
	if f == nil {
		return false, nil
	}
	return f(res)
}

// Limits of what is kept of the error and of each header, in bytes.
const maxText = 1 << 10

// keptHeaders are the response headers that help to understand an answer later. None of
// them carries a credential.
var keptHeaders = []string{
	"Allow", "Cf-Ray", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Etag", "Idempotent-Replayed",
	"Location", "Original-Request", "Request-Id", "Retry-After", "Server", "Stripe-Should-Retry", "Via",
	"X-Amzn-Requestid", "X-Correlation-Id", "X-Envoy-Attempt-Count", "X-Request-Id",
}

// Facts are what was seen as evidence that has no class yet.
func Facts(o *Observation) pawl.Evidence {
	e := pawl.Evidence{
		BytesBegun: o.BytesBegun, BodyPulled: o.BodyPulled, Trace: o.Trace, Peer: o.Peer, Took: o.Took,
	}
	if o.Err != nil {
		e.Error = shorten(o.Err.Error(), maxText)
	}
	res := o.Response
	if res == nil {
		return e
	}
	e.Code, e.Body, e.BodySize = res.Status, res.Body, res.Size
	if len(res.Body) > pawl.MaxBody {
		e.Body = bytes.Clone(res.Body[:pawl.MaxBody])
	}
	if res.Size > pawl.MaxBody || res.Cut {
		e.BodySHA256 = res.SHA256()
	}
	header := map[string]string{}
	for _, name := range keptHeaders {
		if v := res.Header.Get(name); v != "" {
			header[strings.ToLower(name)] = shorten(v, maxText)
		}
	}
	if len(header) > 0 {
		e.Header = header
	}
	if err := res.Intact(); err != nil && e.Error == "" {
		e.Error = shorten(err.Error(), maxText)
	}
	return e
}

// shorten cuts text to at most n bytes, between characters.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
