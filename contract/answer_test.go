package contract

import (
	"io"
	"net/http"
	"testing"

	"github.com/pawl-dev/pawl"
)

// The status alone proves nothing where the contract says what a success is.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const terms = `
class: keyed
identity: [id]
request: {method: POST, path: /pay, body: args}
key: {carrier: header, name: Idempotency-Key}
success: response.body.ok && response.body.status == "succeeded" && response.body.amount == args.amount
accepted: response.body.status == "pending"
no_effect:
  - response.body.status == "declined"
  - when: response.status == 429 && response.header["X-Reason"] == "slow_down"
    transient: true
on_mismatch: response.body.error == "mismatch"
on_concurrent: response.body.error == "in_flight"
replay_signal: response.header["Idempotency-Replayed"] == "yes"
result: "{'id': response.body.id, 'amount': response.body.amount}"
result_ref: response.body.id
`
	for _, c := range []struct {
		name   string
		status int
		body   string
		class  pawl.AttemptClass
		check  func(ev pawl.Evidence) bool
	}{
		{"success", 200, `{"ok":true,"status":"succeeded","amount":49.9,"id":"re_1"}`, pawl.ClassSucceeded,
			func(ev pawl.Evidence) bool {
				return string(ev.Result) == `{"amount":49.9,"id":"re_1"}` && ev.Ref == "re_1"
			}},
		{"number as ref", 200, `{"ok":true,"status":"succeeded","amount":49.90,"id":9007199254740993}`, pawl.ClassSucceeded,
			func(ev pawl.Evidence) bool { return ev.Ref == "9007199254740993" }},
		{"no id", 200, `{"ok":true,"status":"succeeded","amount":49.90}`, pawl.ClassResultLost, nil},
		{"other amount", 200, `{"ok":true,"status":"succeeded","amount":49.91,"id":"re_1"}`, pawl.ClassEffectPossible, nil},
		{"ok false", 200, `{"ok":false}`, pawl.ClassEffectPossible, nil},
		{"declined", 200, `{"ok":false,"status":"declined"}`, pawl.ClassRejected,
			func(ev pawl.Evidence) bool { return ev.Strength == pawl.P3 && !ev.Transient }},
		{"pending", 200, `{"ok":true,"status":"pending"}`, pawl.ClassAccepted, nil},
		{"202", 202, `{}`, pawl.ClassAccepted, nil},
		{"predicate cannot be evaluated", 200, `{"status":"succeeded"}`, pawl.ClassAmbiguous, nil},
		{"body of another type", 200, `[1,2,3]`, pawl.ClassAmbiguous, nil},
		{"slow down", 429, `{"error":"rate"}`, pawl.ClassRejected,
			func(ev pawl.Evidence) bool { return ev.Strength == pawl.P3 && ev.Transient }},
		{"mismatch", 422, `{"error":"mismatch"}`, pawl.ClassAmbiguous, func(ev pawl.Evidence) bool { return ev.KeyMismatch }},
		{"in flight", 409, `{"error":"in_flight"}`, pawl.ClassAmbiguous, func(ev pawl.Evidence) bool { return ev.InFlight }},
		{"failure", 500, `{"error":"boom"}`, pawl.ClassEffectPossible, func(ev pawl.Evidence) bool { return ev.Replayed }},
		{"convention", 400, `{"error":"bad"}`, pawl.ClassRejected, func(ev pawl.Evidence) bool { return ev.Strength == pawl.P4 }},
		{"page", 400, `<html>`, pawl.ClassAmbiguous, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, func(w http.ResponseWriter, _ *received) {
				w.Header().Set("x-reason", "slow_down")
				w.Header().Set("Idempotency-Replayed", "yes")
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			tool := setup(t, p.URL, terms, nil)
			ev := send(t, tool, begin(t, tool, `{"id":"A","amount":49.90}`))
			if ev.Class != c.class || c.check != nil && !c.check(ev) {
				t.Errorf("got %+v, want %s", ev, c.class)
			}
		})
	}
}

func TestConventionsAreInherited(t *testing.T) {
	t.Parallel()
	const src = `
version: 1
upstreams:
  up: {url: "https://a.example.com", conventions: http, error_shape: has(response.body.error)}
tools:
  a: {upstream: up, request: {method: POST, path: /a}, identity: [id]}
  b: {upstream: up, request: {method: POST, path: /b}, identity: [id], conventions: none, error_shape: "false"}
`
	f := mustParse(t, src, nil)
	for i, want := range []bool{true, false} {
		if got := f.tools[i].contract.Conventions; got != want {
			t.Errorf("%s: got %v, want %v", f.tools[i].contract.Tool, got, want)
		}
	}
}

// A provider that answers with the id of what our key already did has proven the effect.
func TestDuplicateIsAdopted(t *testing.T) {
	t.Parallel()
	const terms = `
class: keyed
identity: [id]
request: {method: POST, path: /pay, body: args}
key: {carrier: header, name: Idempotency-Key}
on_duplicate:
  when: response.status == 409
  conflict_with_id: /error/links/conflicting_resource_id
  read: {path: "/pay/{operation.ref}"}
result_ref: /payment/id
`
	for _, c := range []struct {
		name, body, read string
		class            pawl.AttemptClass
		result           string
	}{
		{"found", `{"error":{"links":{"conflicting_resource_id":"PM1"}}}`, `{"payment":{"id":"PM1","amount":5}}`, pawl.ClassSucceeded, `{"payment":{"id":"PM1","amount":5}}`},
		{"unreadable", `{"error":{"links":{"conflicting_resource_id":"PM1"}}}`, ``, pawl.ClassResultLost, ``},
		{"no id", `{"error":{}}`, `{}`, pawl.ClassAmbiguous, ``},
		{"hostile id", `{"error":{"links":{"conflicting_resource_id":"../admin"}}}`, `{}`, pawl.ClassResultLost, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, func(w http.ResponseWriter, r *received) {
				switch {
				case r.Method == "POST":
					w.WriteHeader(409)
					io.WriteString(w, c.body)
				case r.URL.Path != "/pay/PM1" || c.read == "":
					w.WriteHeader(500)
				default:
					io.WriteString(w, c.read)
				}
			})
			tool := setup(t, p.URL, terms, nil)
			op := begin(t, tool, `{"id":"A"}`)
			ev := tool.Port.Send(t.Context(), &pawl.Sending{Operation: op, Attempt: 2, Permit: op.Created})
			if ev.Class != c.class || string(ev.Result) != c.result {
				t.Errorf("got %+v, want %s %s", ev, c.class, c.result)
			}
			if ev.Class == pawl.ClassSucceeded && (ev.Ref != "PM1" || !ev.Replayed || ev.Conflict) {
				t.Errorf("got %+v, want the replayed effect PM1", ev)
			}
			if c.class == pawl.ClassAmbiguous && !ev.Conflict {
				t.Errorf("got %+v, want a conflict", ev)
			}
			if op.Ref != "" {
				t.Errorf("the operation was changed: %q", op.Ref)
			}
		})
	}
}

// Where the effect cannot be read by its id, what the provider says instead of it is no
// result.
func TestDuplicateWithoutRead(t *testing.T) {
	t.Parallel()
	p := answering(t, 200, `{"duplicate_of":"PM1"}`)
	tool := setup(t, p.URL, `
class: keyed
identity: [id]
request: {method: POST, path: /pay, body: args}
key: {carrier: header, name: Idempotency-Key}
on_duplicate: {when: has(response.body.duplicate_of), conflict_with_id: response.body.duplicate_of}
`, nil)
	ev := send(t, tool, begin(t, tool, `{"id":"A"}`))
	if ev.Class != pawl.ClassSucceeded || ev.Ref != "PM1" || ev.Result != nil {
		t.Errorf("got %s %q %s, want PM1 without a result", ev.Class, ev.Ref, ev.Result)
	}
}

func TestReadClass(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(w http.ResponseWriter, r *received) {
		if r.URL.Path != "/orders/A-1" || r.Method != "GET" {
			w.WriteHeader(404)
		}
		io.WriteString(w, `{"order":{"id":9007199254740993}}`)
	})
	tool := setup(t, p.URL, `
class: read
request: {path: "/orders/{args.id}"}
result: response.body.order
`, nil)
	ev := send(t, tool, begin(t, tool, `{"id":"A-1"}`))
	if ev.Class != pawl.ClassSucceeded || string(ev.Result) != `{"id":9007199254740993}` {
		t.Errorf("got %s %s, want the order", ev.Class, ev.Result)
	}
	if ev := send(t, tool, begin(t, tool, `{"id":"A-2"}`)); ev.Class == pawl.ClassSucceeded {
		t.Errorf("got %s for a 404", ev.Class)
	}
}

// The same answer means another thing once an earlier attempt may have arrived.
func TestAttemptDecidesConflict(t *testing.T) {
	t.Parallel()
	p := answering(t, 404, `{"error":"no such charge"}`)
	tool := setup(t, p.URL, `
class: keyed
identity: [id]
request: {method: POST, path: /pay, body: args}
key: {carrier: header, name: Idempotency-Key}
no_effect: [response.status == 404]
`, nil)
	op := begin(t, tool, `{"id":"A"}`)
	for attempt, want := range map[int]pawl.AttemptClass{1: pawl.ClassRejected, 2: pawl.ClassAmbiguous, 5: pawl.ClassAmbiguous} {
		ev := tool.Port.Send(t.Context(), &pawl.Sending{Operation: op, Attempt: attempt, Permit: op.Created})
		if ev.Class != want || ev.Conflict != (attempt > 1) {
			t.Errorf("attempt %d: got %s, conflict %v, want %s", attempt, ev.Class, ev.Conflict, want)
		}
	}
}
