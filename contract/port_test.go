package contract

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// The key arrives as the exact string in each carrier and encoding, also where the model
// wrote something of its own there.
func TestKeyArrives(t *testing.T) {
	t.Parallel()
	carriers := []struct {
		name, key, request string
		at                 func(r *received) string
	}{
		{"header", "carrier: header, name: Idempotency-Key", "{method: POST, path: /pay, body: args}",
			func(r *received) string { return r.Header.Get("Idempotency-Key") }},
		{"top of body", "carrier: json_pointer, name: /idempotency_key", "{method: POST, path: /pay, body: args}",
			func(r *received) string { return inBody(r.body, "idempotency_key") }},
		{"deep in body", "carrier: json_pointer, name: /options/a~1b/key", "{method: POST, path: /pay, body: {order: args.order_id}}",
			func(r *received) string { return inBody(r.body, "options", "a/b", "key") }},
		{"query", "carrier: query, name: request_id", "{method: POST, path: /pay, query: {request_id: args.order_id, x: \"'1'\"}}",
			func(r *received) string {
				if n := len(r.URL.Query()["request_id"]); n != 1 {
					return strconv.Itoa(n) + " values"
				}
				return r.URL.Query().Get("request_id")
			}},
		{"path", "carrier: resource_id", "{method: PUT, path: \"/pay/{key}\", body: args}",
			func(r *received) string { return strings.TrimPrefix(r.URL.Path, "/pay/") }},
		{"form", "carrier: json_pointer, name: /metadata/key", "{method: POST, path: /pay, encoding: form, body: {order: args.order_id}}",
			func(r *received) string {
				form, _ := url.ParseQuery(r.body)
				return form.Get("metadata[key]")
			}},
	}
	for _, c := range carriers {
		for _, form := range encoding("").words() {
			t.Run(c.name+" "+form, func(t *testing.T) {
				t.Parallel()
				p := newProvider(t, nil)
				tool := setup(t, p.URL, `
class: keyed
identity: [order_id]
request: `+c.request+`
key: {`+c.key+`, encoding: `+form+`}
`, nil)
				op := begin(t, tool, `{"order_id":"A-1","idempotency_key":"chosen by the model"}`)
				want, err := formOf(encoding(form)).encode(op.Key)
				if err != nil {
					t.Fatal(err)
				}
				if ev := send(t, tool, op); ev.Class != pawl.ClassSucceeded {
					t.Fatalf("got %s %s %s, want SUCCEEDED", ev.Class, ev.Proof, ev.Error)
				}
				if got := c.at(p.last(t)); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

func inBody(body string, path ...string) string {
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return err.Error()
	}
	s, _ := atPointer(v, path).(string)
	return s
}

// A resend puts the same bytes on the wire, whatever has changed around the operation.
func TestResendIsByteEqual(t *testing.T) {
	t.Parallel()
	at, requests := wireBytes(t)
	terms := `
class: keyed
identity: [order_id]
free: [note]
request:
  method: POST
  path: /orders/{args.order_id}/pay
  query: {z: args.note, a: "'x y'"}
  body: {note: args.note, amount: args.amount}
key: {carrier: header, name: Idempotency-Key}
`
	tool := setup(t, at, terms, nil)
	op := begin(t, tool, `{"order_id":"A 1","note":"first","amount":49.90}`)
	send(t, tool, op)
	op.Args = json.RawMessage(`{"order_id":"A 1","note":"changed","amount":1}`)
	again := setup(t, at, strings.ReplaceAll(terms, "note: args.note", "note: args.note + '!'"), nil)
	again.Port.Send(t.Context(), &pawl.Sending{Operation: op, Attempt: 2, Permit: op.Created.Add(time.Hour)})
	got := requests()
	if len(got) != 2 || got[0] != got[1] {
		t.Errorf("got %q, want the same bytes twice", got)
	}
}

// Integers beyond 2^53 and amounts arrive with the digits that were written.
func TestNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	tool := setup(t, p.URL, `
identity: [{field: charge_id, rule: integer}]
request:
  method: POST
  path: /charges/{args.charge_id}/refunds
  query: {c: args.charge_id, big: args.big}
  body: {charge: args.charge_id, next: args.charge_id + 1, big: args.big, amount: args.amount, list: "[args.big, args.amount]", fixed: 1.50, whole: 12345678901234567890}
`, nil)
	keys := map[string]bool{}
	for _, id := range []string{"9007199254740992", "9007199254740993"} {
		op := begin(t, tool, `{"charge_id":`+id+`,"big":123456789012345678901234567890,"amount":49.90}`)
		keys[op.Key.String()] = true
		send(t, tool, op)
		got := p.last(t)
		next, _ := strconv.ParseInt(id, 10, 64)
		want := `{"amount":49.90,"big":123456789012345678901234567890,"charge":` + id +
			`,"fixed":1.50,"list":[123456789012345678901234567890,49.90],"next":` + strconv.FormatInt(next+1, 10) + `,"whole":12345678901234567890}`
		if got.body != want {
			t.Errorf("got %s, want %s", got.body, want)
		}
		if want := "/charges/" + id + "/refunds?big=123456789012345678901234567890&c=" + id; got.URL.RequestURI() != want {
			t.Errorf("got %s, want %s", got.URL.RequestURI(), want)
		}
	}
	if len(keys) != 2 {
		t.Errorf("got %d keys, want 2", len(keys))
	}
}

func TestMinorUnitsArrive(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	tool := setup(t, p.URL, `
identity: [{field: amount, rule: money(currency)}]
request:
  method: POST
  path: /pay
  body: {amount: "minor(args.amount, args.currency)"}
`, nil)
	for _, c := range []struct{ amount, currency, want string }{
		{`80`, "JPY", "80"}, {`"80"`, "JPY", "80"}, {`1.005`, "KWD", "1005"}, {`10`, "USD", "1000"}, {`"10.00"`, "USD", "1000"}, {`1e1`, "USD", "1000"},
	} {
		send(t, tool, begin(t, tool, `{"amount":`+c.amount+`,"currency":"`+c.currency+`"}`))
		if got, want := p.last(t).body, `{"amount":`+c.want+`}`; got != want {
			t.Errorf("%s %s: got %s, want %s", c.amount, c.currency, got, want)
		}
	}
	if _, err := tryBegin(tool, `{"amount":80.5,"currency":"JPY"}`); err == nil {
		t.Error("80.5 JPY: got no error, want one")
	}
}

// The deadline of the turn and the end of the permit belong to the attempt.
func TestLateHeaders(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	deadline := time.Now().Add(30 * time.Second).UTC()
	permit := time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.UTC)
	for format, check := range map[string]func(string) bool{
		"ms":      func(s string) bool { n, err := strconv.Atoi(s); return err == nil && n > 20_000 && n <= 30_000 },
		"seconds": func(s string) bool { n, err := strconv.Atoi(s); return err == nil && n > 20 && n <= 30 },
		"rfc3339": func(s string) bool { return s == deadline.Format("2006-01-02T15:04:05.000Z07:00") },
	} {
		tool := setup(t, p.URL, `
identity: [id]
request: {method: POST, path: /pay}
deadline_to: {header: X-Deadline, format: `+format+`}
not_after: {after: 45s, header: Pawl-Not-After}
`, nil)
		if tool.Contract.NotAfter != 45*time.Second {
			t.Fatalf("got not-after %v, want 45s", tool.Contract.NotAfter)
		}
		op := begin(t, tool, `{"id":"A"}`)
		if strings.Contains(string(op.Request), "Deadline") || strings.Contains(string(op.Request), "Not-After") {
			t.Errorf("the stored request has late headers:\n%s", op.Request)
		}
		tool.Port.Send(t.Context(), &pawl.Sending{Operation: op, Attempt: 1, Permit: permit, Deadline: deadline})
		if got := p.last(t).Header.Get("X-Deadline"); !check(got) {
			t.Errorf("%s: got %q", format, got)
		}
		if got, want := p.last(t).Header.Get("Pawl-Not-After"), "2026-03-04T05:06:52.008Z"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		tool.Port.Send(t.Context(), &pawl.Sending{Operation: op, Attempt: 2, Permit: permit})
		if got := p.last(t).Header.Get("X-Deadline"); got != "" {
			t.Errorf("without a deadline: got %q, want none", got)
		}
	}
	tool := setup(t, p.URL, `
identity: [id]
request: {method: POST, path: /pay, body: args}
deadline_to: {json_pointer: /opts/deadline}
`, nil)
	op := begin(t, tool, `{"id":"A"}`)
	send(t, tool, op)
	if got, want := inBody(p.last(t).body, "opts", "deadline"), op.Deadline.Format("2006-01-02T15:04:05.000Z07:00"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A trace context reaches the provider with the attempt and with what is read; it is not in
// the stored bytes, and nothing is sent where nobody observes.
func TestTraceContextArrives(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	p := newProvider(t, nil)
	tool := setup(t, p.URL, `
class: keyed
identity: [id]
request: {method: POST, path: /pay}
key: {carrier: header, name: Idempotency-Key}
probe: {request: {path: /pay, query: {key: key}}, by: key, match: response.body.data, lag: 0s}
`, nil)
	op := begin(t, tool, `{"id":"A"}`)
	for _, want := range []string{parent, ""} {
		ctx := t.Context()
		if want != "" {
			ctx = pawl.WithTrace(ctx, want)
		}
		tool.Port.Send(ctx, &pawl.Sending{Operation: op, Attempt: 1})
		if got := p.last(t).Header.Get("Traceparent"); got != want {
			t.Errorf("attempt: got %q, want %q", got, want)
		}
		tool.Port.(pawl.Prober).Probe(ctx, op)
		if got := p.last(t); got.Method != "GET" || got.Header.Get("Traceparent") != want {
			t.Errorf("probe: got %s with %q, want GET with %q", got.Method, got.Header.Get("Traceparent"), want)
		}
	}
	if strings.Contains(strings.ToLower(string(op.Request)), "traceparent") {
		t.Errorf("the stored request has it:\n%s", op.Request)
	}
}
