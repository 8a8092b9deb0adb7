package evidence

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

func always(yes bool) func(*Response) bool { return func(*Response) bool { return yes } }

func decides(yes bool, err error) func(*Response) (bool, error) {
	return func(*Response) (bool, error) { return yes, err }
}

// okTrue holds for a JSON body {"ok": true}, as an expression over the body would.
func okTrue(r *Response) (bool, error) {
	v, err := r.JSON()
	if err != nil {
		return false, err
	}
	m, _ := v.(map[string]any)
	ok, found := m["ok"].(bool)
	if !found {
		return false, errors.New("no such field: ok")
	}
	return ok, nil
}

func noEffect(transient bool) func(*Response) (bool, bool) {
	return func(*Response) (bool, bool) { return true, transient }
}

func broken(o *Observation, err error) *Observation {
	o.Response.BodyErr = err
	return o
}

func cut(o *Observation) *Observation {
	o.Response.Cut = true
	return o
}

const (
	js     = "application/json"
	asPage = "text/html; charset=utf-8"
	page   = "<!DOCTYPE html><html><form action=/login></form></html>"
)

func TestClassifyAnswers(t *testing.T) {
	t.Parallel()
	errNo := errors.New("no")
	expect := &Rules{ExpectBody: true}
	for _, row := range []struct {
		name  string
		o     *Observation
		r     *Rules
		want  string
		proof string
	}{
		// The declared shape of a success.
		{"text where nothing is declared", answer(200, "", "ok"), nil, "SUCCEEDED", "status_table"},
		{"JSON as expected", answer(200, js, `{"id":1}`), expect, "SUCCEEDED", "status_table"},
		{"JSON sent as a page", answer(200, asPage, `{"id":1}`), expect, "SUCCEEDED", "status_table"},
		{"NE11 login page where JSON is expected", answer(200, asPage, page), expect, "AMBIGUOUS", "foreign_answer"},
		{"NE11 login page where nothing is declared", answer(200, asPage, page), nil, "AMBIGUOUS", "foreign_answer"},
		{"NE11 undeclared login page", answer(200, "", page), nil, "AMBIGUOUS", "foreign_answer"},
		{"NE11 login page, sloppy success test", answer(200, asPage, page), &Rules{ExpectBody: true, Success: decides(true, nil)}, "AMBIGUOUS", "foreign_answer"},
		{"NE11 login page that is cut", broken(answer(200, asPage, page[:9]), io.ErrUnexpectedEOF), nil, "AMBIGUOUS", "foreign_answer"},
		{"NE11 login page of which nothing came", broken(answer(200, asPage, ""), io.ErrUnexpectedEOF), nil, "AMBIGUOUS", "foreign_answer"},
		{"NE11 login page, encoded", broken(answer(200, asPage, "\x1f\x8b"), ErrEncoded), nil, "AMBIGUOUS", "foreign_answer"},
		{"NE11 login page with 202", answer(202, asPage, page), nil, "AMBIGUOUS", "foreign_answer"},
		{"NE11 garbage where JSON is expected", answer(200, "", "\x00\x01garbage"), expect, "AMBIGUOUS", "foreign_answer"},
		{"NE11 garbage declared as JSON", answer(200, js, "garbage"), nil, "AMBIGUOUS", "foreign_answer"},
		{"page that the contract tests for", answer(200, asPage, "<p>Thank you</p>"), &Rules{Success: decides(true, nil)}, "SUCCEEDED", "contract_success"},
		{"H18 cut JSON", broken(answer(200, js, `{"id":`), io.ErrUnexpectedEOF), expect, "RESULT_LOST", "unreadable"},
		{"H19 JSON that ends early", answer(200, "", `{"id":`), expect, "RESULT_LOST", "unreadable"},
		{"H19 declared JSON that ends early", answer(200, js, `{"id":`), nil, "RESULT_LOST", "unreadable"},
		{"C5 JSON cut where it would parse", broken(answer(200, js, `{"id":1}`), io.ErrUnexpectedEOF), nil, "RESULT_LOST", "unreadable"},
		{"JSON with a key twice", answer(200, js, `{"id":1,"id":2}`), nil, "RESULT_LOST", "unreadable"},
		{"larger than the limit", cut(answer(200, js, `[1,2`)), nil, "RESULT_LOST", "unreadable"},
		{"encoded JSON", broken(answer(200, js, "\x1f\x8b"), ErrEncoded), expect, "RESULT_LOST", "unreadable"},
		{"C4 empty 201", answer(201, "", ""), nil, "SUCCEEDED", "status_table"},
		{"C4 empty 201 where a body is expected", answer(201, "", ""), expect, "RESULT_LOST", "unreadable"},

		// A body that may carry its own failure.
		{"M09 cut", broken(answer(200, js, `{"ok":`), io.ErrUnexpectedEOF), &Rules{BodyMayFail: true, Success: okTrue}, "AMBIGUOUS", "unreadable"},
		{"cut, the success test needs the body", broken(answer(200, js, `{"ok":`), io.ErrUnexpectedEOF), &Rules{Success: okTrue}, "AMBIGUOUS", "unreadable"},
		{"cut, the success test needs the status", broken(answer(200, js, `{"ok":`), io.ErrUnexpectedEOF), &Rules{Success: decides(true, nil)}, "RESULT_LOST", "unreadable"},
		{"cut, could be accepted only", broken(answer(200, js, `{"ok":`), io.ErrUnexpectedEOF), &Rules{Accepted: okTrue}, "AMBIGUOUS", "unreadable"},
		{"empty", answer(200, js, ""), &Rules{BodyMayFail: true, ExpectBody: true}, "AMBIGUOUS", "unreadable"},
		{"whole, without a success test", own(200), &Rules{BodyMayFail: true}, "AMBIGUOUS", "no_success_test"},
		{"C7 true", answer(200, js, `{"ok":true}`), &Rules{BodyMayFail: true, Success: okTrue}, "SUCCEEDED", "contract_success"},
		{"C7 false", answer(200, js, `{"ok":false}`), &Rules{BodyMayFail: true, Success: okTrue}, "EFFECT_POSSIBLE", "contract_no_success"},
		{"C7 not said", own(200), &Rules{BodyMayFail: true, Success: okTrue}, "AMBIGUOUS", "contract_undecided"},
		{"C7 false, listed", answer(200, js, `{"ok":false}`), &Rules{BodyMayFail: true, Success: okTrue, NoEffect: noEffect(false)}, "REJECTED/P3", "contract_no_effect"},

		// Accepted is not success.
		{"202", own(202), nil, "ACCEPTED", "status_table"},
		{"202 with a sloppy success test", own(202), &Rules{Success: decides(true, nil)}, "ACCEPTED", "status_table"},
		{"202 cut", broken(own(202), io.ErrUnexpectedEOF), nil, "ACCEPTED", "status_table"},
		{"202 cut, may carry a failure", broken(own(202), io.ErrUnexpectedEOF), &Rules{BodyMayFail: true}, "AMBIGUOUS", "unreadable"},
		{"202 that is success by contract", own(202), &Rules{Accepted: decides(false, nil), Success: decides(true, nil)}, "SUCCEEDED", "contract_success"},
		{"202 that is nothing by contract", own(202), &Rules{Accepted: decides(false, nil)}, "AMBIGUOUS", "no_success_test"},
		{"200 accepted by contract", own(200), &Rules{Accepted: decides(true, nil), Success: decides(true, nil)}, "ACCEPTED", "contract_accepted"},
		{"200, accepted cannot be decided", own(200), &Rules{Accepted: decides(false, errNo)}, "AMBIGUOUS", "contract_undecided"},
		{"303 accepted by contract", own(303), &Rules{Accepted: decides(true, nil)}, "ACCEPTED", "contract_accepted"},

		// The contract's word before the table's.
		{"303 success by contract", own(303), &Rules{Success: decides(true, nil)}, "SUCCEEDED", "contract_success"},
		{"409 with the id", own(409), &Rules{Success: decides(true, nil)}, "SUCCEEDED", "contract_success"},
		{"409 cut", broken(own(409), io.ErrUnexpectedEOF), &Rules{Success: decides(true, nil)}, "AMBIGUOUS", "foreign_answer"},
		{"A4 429 listed", own(429), &Rules{NoEffect: noEffect(true)}, "REJECTED/P3", "contract_no_effect"},
		{"C8 409 listed", own(409), &Rules{NoEffect: noEffect(false)}, "REJECTED/P3", "contract_no_effect"},
		{"in flight goes before no effect", own(409), &Rules{InFlight: always(true), NoEffect: noEffect(false)}, "AMBIGUOUS", "contract_in_flight"},
		{"mismatch goes before no effect", own(422), &Rules{Mismatch: always(true), NoEffect: noEffect(false)}, "AMBIGUOUS", "contract_mismatch"},
		{"C1 503 of an edge", answer(503, asPage, page), nil, "AMBIGUOUS", "foreign_answer"},
	} {
		e := Classify(row.o, row.r, 1)
		if got := inShort(e); got != row.want || e.Proof != row.proof {
			t.Errorf("%s: got %s by %s, want %s by %s", row.name, got, e.Proof, row.want, row.proof)
		}
	}
}

func TestClassifyFlags(t *testing.T) {
	t.Parallel()
	if e := Classify(own(409), &Rules{InFlight: always(true)}, 2); !e.InFlight || e.Conflict {
		t.Errorf("in flight: got %+v", e)
	}
	if e := Classify(own(422), &Rules{Mismatch: always(true)}, 1); !e.KeyMismatch {
		t.Errorf("mismatch: got %+v", e)
	}
	if e := Classify(own(429), &Rules{NoEffect: noEffect(true)}, 1); !e.Transient {
		t.Errorf("transient: got %+v", e)
	}
	for _, status := range []int{404, 409, 410, 412, 422, 423} {
		if e := Classify(own(status), &Rules{NoEffect: noEffect(true)}, 2); inShort(e) != "AMBIGUOUS/C" || e.Transient {
			t.Errorf("%d listed, later attempt: got %s, want AMBIGUOUS/C", status, inShort(e))
		}
	}
	if e := Classify(own(429), &Rules{NoEffect: noEffect(true)}, 2); inShort(e) != "REJECTED/P3" {
		t.Errorf("429 listed, later attempt: got %s, want REJECTED/P3", inShort(e))
	}
	o := own(200)
	o.Response.Header.Set("Idempotent-Replayed", "true")
	if e := Classify(o, nil, 1); !e.Replayed {
		t.Errorf("replayed: got %+v", e)
	}
	if e := Classify(o, &Rules{Replayed: always(false)}, 1); e.Replayed {
		t.Errorf("replayed by contract: got %+v", e)
	}
}

func TestClassifyWithoutTrustworthyAnswer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(o *Observation){
		"answer began before the request": func(o *Observation) { o.Early = true },
		"answer without a request":        func(o *Observation) { o.BytesBegun = 0 },
		"answer without a connection":     func(o *Observation) { o.HadConnection = false },
	} {
		o := own(200)
		change(o)
		if e := Classify(o, nil, 1); inShort(e) != "AMBIGUOUS" || e.Proof != "answer_before_request" {
			t.Errorf("%s: got %s by %s", name, inShort(e), e.Proof)
		}
	}
	// A refusal of the protocol says nothing once the answer has begun.
	o := own(500)
	o.Refused = RefusedStream
	if e := Classify(o, nil, 1); inShort(e) != "EFFECT_POSSIBLE" {
		t.Errorf("refused after an answer: got %s", inShort(e))
	}
	// A request without a body cannot prove anything by the body.
	none := &Observation{HadConnection: true, BytesBegun: 100}
	if e := Classify(none, &Rules{NeedsBody: true}, 1); inShort(e) != "AMBIGUOUS" {
		t.Errorf("no body at all: got %s", inShort(e))
	}
}

func TestClassifyResult(t *testing.T) {
	t.Parallel()
	take := func(r *Response) (json.RawMessage, string, error) {
		v, err := r.JSON()
		if err != nil {
			return nil, "", err
		}
		id, ok := v.(map[string]any)["id"].(json.Number)
		if !ok {
			return nil, "", errors.New("no id")
		}
		return r.Body, id.String(), nil
	}
	e := Classify(own(200), &Rules{Result: take}, 1)
	if string(e.Result) != `{"id":1}` || e.Ref != "1" {
		t.Errorf("got %s and %q, want the body and 1", e.Result, e.Ref)
	}
	e = Classify(answer(200, js, `{}`), &Rules{Result: take}, 1)
	if e.Class != resultLost || e.Error == "" {
		t.Errorf("result that cannot be taken: got %s %q, want RESULT_LOST with the error", e.Class, e.Error)
	}
	if e = Classify(own(200), nil, 1); string(e.Result) != `{"id":1}` {
		t.Errorf("result by default: got %s", e.Result)
	}
	if e = Classify(answer(200, "", "ok"), nil, 1); e.Result != nil {
		t.Errorf("result of a text: got %s, want none", e.Result)
	}
}

func TestClassifyFacts(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", pawl.MaxBody) + `"`
	o := answer(200, js, long)
	o.Response.Header.Set("Set-Cookie", "secret")
	o.Response.Header.Set("Retry-After", "5")
	o.Trace, o.Peer, o.Err, o.Took = []string{"dial"}, "127.0.0.1:1", errors.New(strings.Repeat("é", 1000)), 7
	e := Classify(o, nil, 1)
	want := pawl.Evidence{
		Class: success, Proof: "status_table", Code: 200,
		Header: map[string]string{"content-type": js, "retry-after": "5"},
		Body:   []byte(long[:pawl.MaxBody]), BodySHA256: o.Response.SHA256(), BodySize: int64(len(long)),
		Result: json.RawMessage(long), BytesBegun: 180, BodyPulled: 28, Trace: o.Trace, Peer: o.Peer,
		Error: strings.Repeat("é", 512), Took: 7,
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
}

// FuzzClassify holds whatever is observed and whatever the contract says.
func FuzzClassify(f *testing.F) {
	f.Add(uint64(0), 200, js, `{"id":1}`, int64(180), int64(28), 1)
	f.Add(^uint64(0), 200, asPage, page, int64(0), int64(0), 2)
	f.Add(uint64(0x5a5a), 409, js, `{"error":"x"}`, int64(180), int64(0), 2)
	f.Fuzz(func(t *testing.T, bits uint64, status int, contentType, body string, begun, pulled int64, attempt int) {
		next := func() bool {
			b := bits&1 == 1
			bits >>= 1
			return b
		}
		begun, pulled = max(begun, 0), min(max(pulled, 0), 28)
		o := answer(status, contentType, body)
		o.BytesBegun, o.BodyPulled = begun, pulled
		o.HadConnection, o.Early, o.Proxied = !next(), next(), next()
		if next() {
			o.Refused = RefusedStream
		}
		if next() {
			o.Err = errors.New("x")
		}
		if next() {
			o.Response.BodyErr = io.ErrUnexpectedEOF
		}
		o.Response.Cut = next()
		if next() {
			o.Response = nil
		}
		r := &Rules{NeedsBody: next(), ExpectBody: next(), BodyMayFail: next()}
		success, accepted, listed := false, false, false
		if next() {
			success = next()
			var err error
			if next() {
				err = errors.New("x")
			}
			r.Success = decides(success, err)
			success = success && err == nil
		}
		if next() {
			accepted = next()
			r.Accepted = decides(accepted, nil)
		}
		if next() {
			listed = next()
			yes := listed
			r.NoEffect = func(*Response) (bool, bool) { return yes, false }
		}
		if next() {
			r.InFlight = always(next())
		}
		if next() {
			r.OwnShape = always(next())
		}
		e := Classify(o, r, attempt)

		seen := o.Response != nil
		ok := seen && status >= 200 && status < 300
		switch e.Class {
		case pawl.ClassNotSent:
			if e.Strength != pawl.P1 && e.Strength != pawl.P4 || e.Strength == pawl.P1 && seen || ok {
				t.Errorf("NOT_SENT %s with response %v, status %d", e.Strength, seen, status)
			}
			if e.Strength == pawl.P1 && o.HadConnection && begun > 0 && !(r.NeedsBody && pulled == 0) {
				t.Errorf("NOT_SENT although bytes were begun")
			}
		case pawl.ClassRejected:
			switch e.Strength {
			case pawl.P2:
				if seen && !(status == 407 && o.Proxied) || !seen && o.Refused == "" {
					t.Errorf("REJECTED P2 without a refusal of the protocol")
				}
			case pawl.P3:
				if !listed {
					t.Errorf("REJECTED P3 without the contract's word")
				}
			case pawl.P4:
				if !seen || ok {
					t.Errorf("REJECTED P4 with response %v, status %d", seen, status)
				}
			default:
				t.Errorf("REJECTED without strength")
			}
			if e.Conflict {
				t.Errorf("REJECTED and conflict")
			}
		case pawl.ClassSucceeded:
			if !seen || o.Early || !o.HadConnection || begun == 0 || o.Response.Intact() != nil {
				t.Errorf("SUCCEEDED without a whole answer to our request")
			}
			if !success && (r.Success != nil || r.BodyMayFail || !ok || status == 202) {
				t.Errorf("SUCCEEDED with status %d, without the contract's word", status)
			}
		case pawl.ClassResultLost:
			if !ok || r.BodyMayFail && e.Proof == "unreadable" || status == 202 && !accepted && r.Accepted == nil {
				t.Errorf("RESULT_LOST with status %d", status)
			}
		case pawl.ClassAccepted:
			if !seen || !accepted && status != 202 {
				t.Errorf("ACCEPTED with status %d, without the contract's word", status)
			}
		case pawl.ClassAmbiguous, pawl.ClassEffectPossible:
			if e.Strength != "" {
				t.Errorf("%s with strength %s", e.Class, e.Strength)
			}
		default:
			t.Errorf("class: got %q", e.Class)
		}
		if e.Proof == "" {
			t.Errorf("no rule named for %s", e.Class)
		}
		if len(e.Body) > pawl.MaxBody || len(e.Error) > maxText {
			t.Errorf("evidence exceeds its limits")
		}
	})
}
