package contract

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// Arguments fill segments and parameters and never anything else of the URL.
func TestPathValues(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	tool := setup(t, p.URL+"/v1", `
identity: [id]
request:
  method: POST
  path: /orders/x-{args.id}/items:refund
`, nil)
	for _, c := range []struct{ id, path string }{
		{`A-1182`, "A-1182"},
		{`a b`, "a%20b"},
		{`a?b=c#d`, "a%3Fb%3Dc%23d"},
		{`a&b;c=d,e@f:g+h`, "a%26b%3Bc%3Dd%2Ce%40f%3Ag%2Bh"},
		{`café😀`, "caf%C3%A9%F0%9F%98%80"},
		{`100%`, "100%25"},
		{`a.b..c`, "a.b..c"},
		{`~_-`, "~_-"},
	} {
		op := begin(t, tool, `{"id":"`+c.id+`"}`)
		if ev := send(t, tool, op); ev.Class != pawl.ClassSucceeded {
			t.Fatalf("%q: got %s %s", c.id, ev.Class, ev.Error)
		}
		if got, want := p.last(t).RequestURI, "/v1/orders/x-"+c.path+"/items:refund"; got != want {
			t.Errorf("%q: got %s, want %s", c.id, got, want)
		}
		if got := p.last(t).Host; "http://"+got != p.URL {
			t.Errorf("%q: got host %s", c.id, got)
		}
	}
	for _, id := range []string{
		`../admin`, `..`, `.`, `...`, `a/b`, `/`, `a\\b`, `..%2fadmin`, `%2F`, `%2e%2e`, `%252e`, `%5c`,
		`a\r\nHost: evil`, `a\nb`, `a\tb`, "a\u007fb", `a\u0085b`, strings.Repeat("x", 1025),
	} {
		if op, err := tryBegin(tool, `{"id":"`+id+`"}`); err == nil {
			t.Errorf("%q: got %s, want a refusal", id, op.Request)
		} else if strings.Contains(err.Error(), "admin") || strings.Contains(err.Error(), "evil") {
			t.Errorf("%q: the error repeats the value: %v", id, err)
		}
	}
}

// A value that is no scalar, is missing or makes a segment empty is refused.
func TestPathValueTypes(t *testing.T) {
	t.Parallel()
	tool := setup(t, "https://a.example.com", "identity: none\nrequest: {method: POST, path: \"/x/{args.id}/{args.?opt.orValue('none')}\"}", nil)
	for args, want := range map[string]string{
		`{"id":12345678901234567890}`: "/x/12345678901234567890/none", `{"id":true,"opt":"o"}`: "/x/true/o",
		`{}`: "", `{"id":null}`: "", `{"id":[1]}`: "", `{"id":{}}`: "", `{"id":""}`: "", `{"id":"a","opt":""}`: "",
	} {
		op, err := tryBegin(tool, args)
		if (err == nil) != (want != "") {
			t.Errorf("%s: got %v", args, err)
			continue
		}
		if err == nil && !strings.HasPrefix(string(op.Request), "POST https://a.example.com"+want+"\n") {
			t.Errorf("%s: got %s, want %s", args, op.Request, want)
		}
	}
}

func TestQueryValues(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	tool := setup(t, p.URL, `
identity: none
request:
  method: POST
  path: /search
  query: {q: args.?q, list: args.?list, "na me": "'a'"}
`, nil)
	for args, want := range map[string]string{
		`{}`:                                 "na%20me=a",
		`{"q":"a&b=c d+e%2f/..\r\n"}`:        "na%20me=a&q=a%26b%3Dc%20d%2Be%252f%2F..%0D%0A",
		`{"q":"é","list":["x",1,2.50,true]}`: "list=x&list=1&list=2.50&list=true&na%20me=a&q=%C3%A9",
	} {
		send(t, tool, begin(t, tool, args))
		if got := p.last(t).URL.RawQuery; got != want {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
	if _, err := tryBegin(tool, `{"q":{"a":1}}`); err == nil {
		t.Error("an object in a query: got no error, want one")
	}
}

func TestHeaderValues(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	tool := setup(t, p.URL, `
identity: none
request:
  method: POST
  path: /x
  headers: {X-Note: "n: {args.note} ({key})"}
`, nil)
	op := begin(t, tool, `{"note":"a $ b: c"}`)
	send(t, tool, op)
	if got, want := p.last(t).Header.Get("X-Note"), "n: a $ b: c ("+op.Key.String()+")"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, note := range []string{`a\r\nX-Evil: 1`, `a\nb`, `a\u0000`, `é`, `a\u007f`} {
		if _, err := tryBegin(tool, `{"note":"`+note+`"}`); err == nil && note != `a\u0000` {
			t.Errorf("%s: got no error, want a refusal", note)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	for _, c := range []struct{ name, request, args, want, contentType string }{
		{"args", "body: args", `{"b": 1.0, "a":{"c":[1,null,"é"]}}`, `{"a":{"c":[1,null,"\u00e9"]},"b":1.0}`, "application/json"},
		{"tree", `body: {a: args.b, n: null, t: true, f: 1.50, l: [args.b, 2], o: {x: args.?none, y: "args.?b"}, lit: "'EUR'"}`, `{"b":"v"}`,
			`{"a":"v","f":1.50,"l":["v",2],"lit":"EUR","n":null,"o":{"y":"v"},"t":true}`, "application/json"},
		{"whole expression", `body: "{'a': args.b, 'when': timestamp('2026-01-02T03:04:05Z')}"`, `{"b":[1]}`, `{"a":[1],"when":"2026-01-02T03:04:05Z"}`, "application/json"},
		{"form", "encoding: form\n  body: {a: args.b, m: {x y: \"'1&2'\"}, l: [1, 2], n: null}", `{"b":"é"}`,
			"a=%C3%A9&l%5B0%5D=1&l%5B1%5D=2&m%5Bx%20y%5D=1%262&n=", "application/x-www-form-urlencoded"},
		{"own type", "headers: {Content-Type: application/vnd.x+json}\n  body: args", `{}`, `{}`, "application/vnd.x+json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tool := setup(t, p.URL, "identity: none\nrequest:\n  method: POST\n  path: /x\n  "+c.request, nil)
			if ev := send(t, tool, begin(t, tool, c.args)); ev.Class != pawl.ClassSucceeded {
				t.Fatalf("got %s %s", ev.Class, ev.Error)
			}
			got := p.last(t)
			if got.body != c.want || got.Header.Get("Content-Type") != c.contentType {
				t.Errorf("got %s %s, want %s %s", got.Header.Get("Content-Type"), got.body, c.contentType, c.want)
			}
		})
	}
}

// Expressions see identity fields as what they are, however the model wrote them.
func TestArgumentsAreTyped(t *testing.T) {
	t.Parallel()
	tool := setup(t, "https://a.example.com", `
identity:
  amount: money(currency)
  n: integer
  yes: bool
  zip: {from: [/address/zip], rule: upper}
request:
  method: POST
  path: /x
  body: {amount: args.amount, big: args.amount > 100, equal: 49.9 == args.amount, n: args.n + 1, yes: args.yes, id: identity.amount, zip: identity.zip, text: string(args.amount)}
`, nil)
	want := `{"amount":49.90,"big":false,"equal":true,"id":49.90,"n":43,"text":"49.90","yes":true,"zip":"SW1"}`
	for _, args := range []string{
		`{"amount":49.9,"currency":"EUR","n":42,"yes":true,"address":{"zip":"sw1"}}`,
		`{"amount":"49.90","currency":"EUR","n":"42","yes":"true","address":{"zip":" SW1 "}}`,
		`{"amount":4.99e1,"currency":"EUR","n":42.0,"yes":true,"address":{"zip":"sw1"}}`,
	} {
		op := begin(t, tool, args)
		_, body, _ := strings.Cut(string(op.Request), "\n\n")
		if body != want {
			t.Errorf("%s: got %s, want %s", args, body, want)
		}
	}
}

func TestStoredForm(t *testing.T) {
	t.Parallel()
	tool := setup(t, "https://api.example.com/v1/", `
class: keyed
identity: [order_id, {field: amount, rule: decimal(2)}]
request:
  method: POST
  path: /orders/{args.order_id}/refunds
  body: {amount: args.amount}
  headers: {Authorization: "Bearer ${env:TOKEN}", X-Price: "$5"}
key: {carrier: header, name: Idempotency-Key}
`, nil)
	tool.Contract.Tool = "issue_refund"
	op := begin(t, tool, `{"order_id":"A-1182","amount":"49.90"}`)
	const want = `POST https://api.example.com/v1/orders/A-1182/refunds
Accept: application/json
Authorization: Bearer ${env:TOKEN}
Content-Type: application/json
Idempotency-Key: 8893dc6d05960a237c3dc2bfd80913b2
X-Price: $$5

{"amount":49.90}`
	if string(op.Request) != want {
		t.Errorf("got\n%s\nwant\n%s", op.Request, want)
	}
}

func TestMessageRoundTrip(t *testing.T) {
	t.Parallel()
	m := &message{method: "PUT", url: "https://a.example.com/x?y=%0A", body: []byte("a\n\nb: c\n"), header: []field{
		{"A", literalValue("$ ${env:X} $$")}, {"B", "x ${file:/run/x y}"[:len("x ${file:/run/x")] + "}"}, {"C", ""},
	}}
	text, err := m.text()
	if err != nil {
		t.Fatal(err)
	}
	back, err := parseMessage(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.text()
	if err != nil || string(again) != string(text) {
		t.Errorf("got %q %v, want %q", again, err, text)
	}
	if v, _, err := join(back.header[0].value, nil, nil); err != nil || v != "$ ${env:X} $$" {
		t.Errorf("got %q %v, want the literal text", v, err)
	}
}

// FuzzMessage: what can be parsed has that text and no other, and is fit to be sent.
func FuzzMessage(f *testing.F) {
	f.Add([]byte("POST https://a.example.com/x\nA: b\n\nbody"))
	f.Add([]byte("GET http://a/\nA: ${env:X}$$\nB: \n\n"))
	f.Add([]byte("POST https://a/\n\n"))
	f.Add([]byte("POST https://a/\r\nA: b\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseMessage(raw)
		if err != nil {
			return
		}
		text, err := m.text()
		if err != nil {
			t.Fatalf("parsed and has no text: %v", err)
		}
		if string(text) != string(raw) {
			t.Fatalf("got %q, want %q", text, raw)
		}
		for _, h := range m.header {
			if strings.ContainsAny(h.value, "\r\n") || http.CanonicalHeaderKey(h.name) != h.name {
				t.Fatalf("unfit header %q", h)
			}
		}
	})
}
