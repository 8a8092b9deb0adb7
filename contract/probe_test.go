package contract

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

const probeBlock = `
class: keyed
identity: [id, {field: amount, rule: decimal(2)}]
request: {method: POST, path: /pay, body: args}
key: {carrier: header, name: Idempotency-Key}
probe:
  request: {path: /pays, query: {key: key, after: string(operation.permit)}}
  by: key
  lag: 1s
  match: response.body.data.filter(p, p.amount == args.amount)
  complete: "!response.body.has_more"
  absent: response.body.code == "not_found" && response.status == 404
  in_progress: response.body.data.exists(p, has(p.state) && p.state == "working")
  result: "{'amount': match.amount}"
  ref: match.id
`

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		status  int
		body    string
		outcome pawl.ProbeOutcome
		check   func(r pawl.ProbeResult) bool
	}{
		{"found", 200, `{"has_more":false,"data":[{"id":"p1","amount":49.9},{"id":"p0","amount":1}]}`, pawl.Found,
			func(r pawl.ProbeResult) bool {
				return r.Count == 1 && r.Match == pawl.MatchKey && len(r.Refs) == 1 && r.Refs[0] == "p1" && string(r.Result) == `{"amount":49.9}`
			}},
		{"found twice", 200, `{"has_more":false,"data":[{"id":"p1","amount":49.9},{"id":2,"amount":49.90}]}`, pawl.Found,
			func(r pawl.ProbeResult) bool { return r.Count == 2 && strings.Join(r.Refs, " ") == "p1 2" }},
		{"found without id", 200, `{"has_more":false,"data":[{"amount":49.9}]}`, pawl.Found,
			func(r pawl.ProbeResult) bool { return r.Count == 1 && r.Refs == nil }},
		{"found on a page", 200, `{"has_more":true,"data":[{"id":"p1","amount":49.9}]}`, pawl.Found, nil},
		{"in progress", 200, `{"has_more":false,"data":[{"state":"working","amount":49.9}]}`, pawl.InProgress, nil},
		{"absent", 200, `{"has_more":false,"data":[]}`, pawl.Absent, nil},
		{"absent by declaration", 404, `{"code":"not_found"}`, pawl.Absent, nil},
		{"404 of somebody else", 404, `{"code":"no_route"}`, pawl.Inconclusive, nil},
		{"404 of a proxy", 404, `<html>`, pawl.Inconclusive, nil},
		{"page", 200, `{"has_more":true,"data":[]}`, pawl.Inconclusive, nil},
		{"page unknown", 200, `{"data":[]}`, pawl.Inconclusive, nil},
		{"no data", 200, `{"has_more":false}`, pawl.Inconclusive, nil},
		{"data of another type", 200, `{"has_more":false,"data":"none"}`, pawl.Inconclusive, nil},
		{"an element without amount", 200, `{"has_more":false,"data":[{"id":"x"}]}`, pawl.Inconclusive, nil},
		{"partial", 206, `{"has_more":false,"data":[]}`, pawl.Inconclusive, nil},
		{"accepted", 202, `{"has_more":false,"data":[]}`, pawl.Inconclusive, nil},
		{"empty", 200, ``, pawl.Inconclusive, nil},
		{"not json", 200, `<html>{"has_more":false,"data":[]}`, pawl.Inconclusive, nil},
		{"doubled key", 200, `{"has_more":false,"data":[{"amount":49.9}],"data":[]}`, pawl.Inconclusive, nil},
		{"error", 500, `{"has_more":false,"data":[]}`, pawl.Inconclusive, nil},
		{"rate limit", 429, `{"has_more":false,"data":[]}`, pawl.Inconclusive, nil},
		{"redirect", 302, `{"has_more":false,"data":[]}`, pawl.Inconclusive, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := answering(t, c.status, c.body)
			tool := setup(t, p.URL, probeBlock, nil)
			op := begin(t, tool, `{"id":"A","amount":"49.90"}`)
			got := probeOf(t, tool, op)
			if got.Outcome != c.outcome || c.check != nil && !c.check(got) {
				t.Errorf("got %+v, want %s", got, c.outcome)
			}
			if c.outcome == pawl.Inconclusive && (got.Error == "" || got.Count != 0 || got.Result != nil) {
				t.Errorf("got %+v, want a reason and nothing else", got)
			}
			if got.Code != c.status {
				t.Errorf("got code %d, want %d", got.Code, c.status)
			}
			if q := p.last(t).URL.Query(); q.Get("key") != op.Key.String() || q.Get("after") != "2026-03-04T05:06:07Z" {
				t.Errorf("got query %v", q)
			}
		})
	}
}

// A read that does not end, or ends early, proves nothing.
func TestProbeBrokenReads(t *testing.T) {
	t.Parallel()
	cut := newProvider(t, func(w http.ResponseWriter, _ *received) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"has_more":false,"data":[]}`)
	})
	silent := newProvider(t, func(_ http.ResponseWriter, r *received) { <-r.Context().Done() })
	for name, p := range map[string]*fakeProvider{"cut": cut, "silent": silent} {
		tool := setup(t, p.URL, "timeout: 200ms\n"+strings.TrimPrefix(probeBlock, "\n"), nil)
		op := begin(t, tool, `{"id":"A","amount":"49.90"}`)
		if got := probeOf(t, tool, op); got.Outcome != pawl.Inconclusive {
			t.Errorf("%s: got %+v, want inconclusive", name, got)
		}
	}
	tool := setup(t, "http://127.0.0.1:1", probeBlock, nil)
	if got := probeOf(t, tool, begin(t, tool, `{"id":"A","amount":"1"}`)); got.Outcome != pawl.Inconclusive {
		t.Errorf("refused: got %+v, want inconclusive", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ok := setup(t, answering(t, 200, `{"has_more":false,"data":[]}`).URL, probeBlock, nil)
	if got := ok.Port.(pawl.Prober).Probe(ctx, begin(t, ok, `{"id":"A","amount":"1"}`)); got.Outcome != pawl.Inconclusive {
		t.Errorf("cancelled: got %+v, want inconclusive", got)
	}
}

// An answer without content, a part of one, a redirect or a cut body shows nothing, however
// little match asks for and whatever is declared as absent.
func TestProbePins(t *testing.T) {
	t.Parallel()
	const terms = `
class: keyed
identity: [id]
request: {method: POST, path: /pay, body: args}
key: {carrier: header, name: Idempotency-Key}
probe: {request: {path: "/pays/{key}"}, by: key, lag: 0, match: response.status == MATCH, ABSENT negative_proof: after_quiescence}
`
	const body = `{"data":[]}`
	for _, c := range []struct {
		name   string
		status int
		header string
		body   string
	}{
		{"no content", 204, "", ""},
		{"reset content", 205, "", ""},
		{"accepted", 202, "", body},
		{"altered", 203, "", body},
		{"partial", 206, "Content-Range: bytes 0-10/99", body},
		{"per item", 207, "", body},
		{"already reported", 208, "", body},
		{"delta", 226, "", body},
		{"choices", 300, "", body},
		{"moved", 301, "Location: /elsewhere", body},
		{"found elsewhere", 302, "Location: /elsewhere", body},
		{"see other", 303, "Location: /elsewhere", body},
		{"not modified", 304, "", ""},
		{"temporarily elsewhere", 307, "Location: /elsewhere", body},
		{"permanently elsewhere", 308, "Location: /elsewhere", body},
		{"cut", 200, "Content-Length: 99", body},
		{"cut 404", 404, "Content-Length: 99", body},
		{"encoded", 200, "Content-Encoding: gzip", body},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, func(w http.ResponseWriter, r *received) {
				if name, value, ok := strings.Cut(c.header, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			for match, absent := range map[string]string{"299": "", "298": "absent: response.status != 299,", strconv.Itoa(c.status): ""} {
				tool := setup(t, p.URL, strings.NewReplacer("MATCH", match, "ABSENT", absent).Replace(terms), nil)
				if got := probeOf(t, tool, begin(t, tool, `{"id":"A"}`)); got.Outcome != pawl.Inconclusive || got.Error == "" {
					t.Errorf("match on %s, %q: got %+v, want inconclusive with a reason", match, absent, got)
				}
			}
			if got := p.last(t).URL.Path; !strings.HasPrefix(got, "/pays/") {
				t.Errorf("got a request for %s, want none that follows the answer", got)
			}
		})
	}
}

// By state or business fields, a match on one page of several could have a twin.
func TestProbeByState(t *testing.T) {
	t.Parallel()
	const terms = `
class: convergent
identity: [id]
serialize: id
request: {method: PUT, path: "/orders/{args.id}", body: args}
snapshot: {request: {path: "/orders/{args.id}"}, result: response.body.zip}
probe:
  request: {path: "/orders/{args.id}"}
  by: state
  match: response.body.zip == args.zip && response.body.zip != before
  complete: response.body.?whole.orValue(true)
  sole_writer: true
`
	p := answering(t, 200, `{"zip":"A1","whole":true}`)
	tool := setup(t, p.URL, terms, nil)
	op := begin(t, tool, `{"id":"o1","zip":"B2"}`)
	c := tool.Contract.WithDefaults()
	id, err := pawl.Identify(&c, &pawl.Call{Tool: "t", Args: op.Args, Run: "r", Step: "1"})
	if err != nil {
		t.Fatal(err)
	}
	before, err := tool.Port.(pawl.Snapshotter).Snapshot(t.Context(), invocationOf(op, id))
	if err != nil || string(before) != `"A1"` {
		t.Fatalf("got %s %v, want A1", before, err)
	}
	op.Before = before
	for body, want := range map[string]pawl.ProbeOutcome{
		`{"zip":"A1"}`:               pawl.Absent,
		`{"zip":"B2"}`:               pawl.Found,
		`{"zip":"B2","whole":false}`: pawl.Inconclusive,
		`{"zip":"A1","whole":false}`: pawl.Inconclusive,
	} {
		p.answer = func(w http.ResponseWriter, _ *received) { io.WriteString(w, body) }
		if got := probeOf(t, tool, op); got.Outcome != want {
			t.Errorf("%s: got %+v, want %s", body, got, want)
		}
	}
	p.answer = func(w http.ResponseWriter, _ *received) { w.WriteHeader(500); io.WriteString(w, `{"zip":"A1"}`) }
	if _, err := tool.Port.(pawl.Snapshotter).Snapshot(t.Context(), invocationOf(op, id)); err == nil {
		t.Error("a snapshot from a 500: got no error, want one")
	}
}

// What is not there has a state too. Only the upstream's own word counts, as for a probe.
func TestSnapshotOfNothing(t *testing.T) {
	t.Parallel()
	const terms = `
identity: [id]
request: {method: PUT, path: "/orders/{args.id}", body: args}
snapshot:
  request: {path: "/orders/{args.id}"}
  absent: response.status == 404
`
	p := answering(t, 200, `{}`)
	tool := setup(t, p.URL, terms, nil)
	op := begin(t, tool, `{"id":"o1"}`)
	c := tool.Contract.WithDefaults()
	id, err := pawl.Identify(&c, &pawl.Call{Tool: "t", Args: op.Args, Run: "r", Step: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		status     int
		body, want string
	}{
		{404, `{"error":"no such order"}`, "null"},
		{404, `not here`, ""},
		{404, `<html>not here</html>`, ""},
		{410, `{"error":"no such order"}`, ""},
		{200, `{"zip":"A1"}`, `{"zip":"A1"}`},
	} {
		p.answer = func(w http.ResponseWriter, _ *received) { w.WriteHeader(k.status); io.WriteString(w, k.body) }
		before, err := tool.Port.(pawl.Snapshotter).Snapshot(t.Context(), invocationOf(op, id))
		if string(before) != k.want && err == nil || (err == nil) != (k.want != "") {
			t.Errorf("%d %s: got %s, %v, want %q", k.status, k.body, before, err, k.want)
		}
	}
}

func TestFence(t *testing.T) {
	t.Parallel()
	const terms = `
class: keyed
identity: [id]
request: {method: POST, path: /pay, body: args}
key: {carrier: header, name: Idempotency-Key}
fence:
  request: {method: POST, path: /cancel-by-key, body: {key: key}}
  found: response.body.state == "done"
  held: response.body.state == "none" && response.status != 500
  ref: response.body.id
  result: response.body.payment
  refuses_later: true
  tombstone: 24h
`
	for _, c := range []struct {
		status  int
		body    string
		outcome pawl.FenceOutcome
	}{
		{200, `{"state":"none"}`, pawl.FenceHeld},
		{409, `{"state":"done","id":"p1","payment":{"a":1}}`, pawl.FenceFound},
		{200, `{"state":"odd"}`, pawl.FenceInconclusive},
		{200, `{}`, pawl.FenceInconclusive},
		{200, ``, pawl.FenceInconclusive},
		{500, `{"state":"none"}`, pawl.FenceInconclusive},
		{404, `{"state":"none"}`, pawl.FenceHeld},
		{202, `{"state":"none"}`, pawl.FenceInconclusive},
		{206, `{"state":"none"}`, pawl.FenceInconclusive},
		{302, `{"state":"none"}`, pawl.FenceInconclusive},
	} {
		p := answering(t, c.status, c.body)
		tool := setup(t, p.URL, terms, nil)
		op := begin(t, tool, `{"id":"A"}`)
		got := tool.Port.(pawl.Fencer).Fence(t.Context(), op)
		if got.Outcome != c.outcome {
			t.Errorf("%d %s: got %+v, want %s", c.status, c.body, got, c.outcome)
		}
		if c.outcome == pawl.FenceFound && (got.Ref != "p1" || string(got.Result) != `{"a":1}`) {
			t.Errorf("got %+v, want p1 and its result", got)
		}
		if key := inBody(p.last(t).body, "key"); key != op.Key.String() {
			t.Errorf("got key %q, want %q", key, op.Key)
		}
	}
}

// An operation is probed by the contract that it began under: an edit of the file cannot
// make its effect look absent.
func TestPinnedContract(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(w http.ResponseWriter, r *received) {
		if len(r.URL.Query().Get("key")) == 32 {
			io.WriteString(w, `{"has_more":false,"data":[{"id":"p1","amount":49.9}]}`)
			return
		}
		io.WriteString(w, `{"has_more":false,"data":[]}`)
	})
	earlier := setup(t, p.URL, probeBlock, nil)
	op := begin(t, earlier, `{"id":"A","amount":"49.90"}`)
	edited := strings.Replace(probeBlock, "name: Idempotency-Key", "name: Idempotency-Key, encoding: uuid", 1)
	now := setup(t, p.URL, edited, nil)
	for range 2 {
		if got := probeOf(t, now, op); got.Outcome != pawl.Found {
			t.Errorf("got %+v, want found", got)
		}
	}
	if got := probeOf(t, now, begin(t, now, `{"id":"A","amount":"49.90"}`)); got.Outcome != pawl.Absent {
		t.Errorf("a new operation: got %+v, want absent", got)
	}
	moved := setup(t, answering(t, 200, `{"has_more":false,"data":[]}`).URL, edited, nil)
	if got := probeOf(t, moved, op); got.Outcome != pawl.Inconclusive {
		t.Errorf("at another origin: got %+v, want inconclusive", got)
	}
	if ev := send(t, moved, op); ev.Class != pawl.ClassNotSent {
		t.Errorf("at another origin: got %s, want NOT_SENT", ev.Class)
	}
	below := setup(t, p.URL+"/v2", edited, nil)
	if got := probeOf(t, below, op); got.Outcome != pawl.Inconclusive {
		t.Errorf("at another path: got %+v, want inconclusive", got)
	}
	damaged := *op
	damaged.Contract = &pawl.Contract{Tool: "t", Source: "version: 9"}
	if got := probeOf(t, now, &damaged); got.Outcome != pawl.Inconclusive {
		t.Errorf("an unreadable contract: got %+v, want inconclusive", got)
	}
}

// Today's credentials are used for operations that began under others.
func TestPinnedCredentials(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(w http.ResponseWriter, r *received) { io.WriteString(w, `{"found":true}`) })
	src := strings.ReplaceAll(credentialFile, "URL", p.URL)
	earlier := setupFile(t, src, canaryOptions("old"))
	op := begin(t, earlier, `{"id":"A","note":"n"}`)
	now := setupFile(t, strings.ReplaceAll(src, "env:PAY_TOKEN", "env:PAY_TOKEN_2"), &Options{
		Getenv:   func(name string) (string, bool) { return "new", name == "PAY_TOKEN_2" },
		ReadFile: canaryOptions("x").ReadFile,
	})
	if got := probeOf(t, now, op); got.Outcome != pawl.Found || p.last(t).Header.Get("Authorization") != "Bearer new" {
		t.Errorf("got %+v with %q, want found with today's credential", got, p.last(t).Header.Get("Authorization"))
	}
	if ev := send(t, now, op); ev.Class != pawl.ClassSucceeded || p.last(t).Header.Get("Authorization") != "Bearer new" {
		t.Errorf("got %s %s with %q, want SUCCEEDED with today's credential", ev.Class, ev.Error, p.last(t).Header.Get("Authorization"))
	}
}
