package contract

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// client is an MCPClient that a test plays.
type client struct {
	calls  []MCPCall
	answer func(c *MCPCall) *MCPAnswer
	schema error
}

func (c *client) CallTool(_ context.Context, call *MCPCall) *MCPAnswer {
	c.calls = append(c.calls, *call)
	return c.answer(call)
}

func (c *client) CheckArguments(string, string, json.RawMessage) error { return c.schema }

func result(raw string) *MCPAnswer { return &MCPAnswer{Result: json.RawMessage(raw)} }

func failure(code int64, message string) *MCPAnswer {
	return &MCPAnswer{Error: &MCPError{Code: code, Message: message}}
}

// mcpSetup compiles one tool, up/act, of an MCP server.
func mcpSetup(t *testing.T, upstream, terms string, c *client) (*File, pawl.Tool) {
	t.Helper()
	indent := func(s string, n string) string {
		return n + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+n) + "\n"
	}
	src := "version: 1\nupstreams:\n  up:\n" + indent(upstream, "    ") + "  other:\n    mcp: {command: [other]}\ntools:\n  up/act:\n    upstream: up\n" + indent(terms, "    ")
	f, err := Parse("pawl.yaml", []byte(src), &Options{Getenv: func(name string) (string, bool) { return "value of " + name, true }})
	if err != nil {
		t.Fatal(err)
	}
	f.UseMCP(c)
	tools, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	return f, tools[0]
}

// TestWhatToolsAnswer: what each answer proves, without and with a contract's word.
func TestWhatToolsAnswer(t *testing.T) {
	t.Parallel()
	const text = `{"content":[{"type":"text","text":"done"}]}`
	sent := func(a *MCPAnswer) *MCPAnswer { a.Facts.BytesBegun = 9; return a }
	unreachable := &MCPAnswer{Facts: pawl.Evidence{Class: pawl.ClassNotSent, Strength: pawl.P1, Proof: "no_connection"}}
	refused := &MCPAnswer{Facts: pawl.Evidence{Class: pawl.ClassRejected, Strength: pawl.P2, Proof: "refused_stream"}}
	for _, c := range []struct {
		name, upstream, terms string
		answer                *MCPAnswer
		want                  string
	}{
		{"a result", "", "", result(text), "SUCCEEDED  result"},
		{"a modern result", "", "", result(`{"resultType":"complete",` + text[1:]), "SUCCEEDED  result"},
		{"structured only", "", "", result(`{"content":[],"structuredContent":{"id":1}}`), "SUCCEEDED  result"},
		{"no answer", "", "", sent(&MCPAnswer{}), "AMBIGUOUS  no_answer"},
		{"nothing sent", "", "", unreachable, "NOT_SENT P1 no_connection"},
		{"refused below", "", "", refused, "REJECTED P2 refused_stream"},
		{"isError", "", "", result(`{"isError":true,` + text[1:]), "EFFECT_POSSIBLE  is_error"},
		{"isError is no truth value", "", "", result(`{"isError":"no",` + text[1:]), "AMBIGUOUS  unreadable"},
		{"isError twice", "", "", result(`{"isError":true,"isError":false,` + text[1:]), "AMBIGUOUS  unreadable"},
		{"isError in another case", "", "", result(`{"isError":false,"iserror":true,` + text[1:]), "AMBIGUOUS  unreadable"},
		{"no object", "", "", result(`[1]`), "AMBIGUOUS  unreadable"},
		{"content is no list", "", "", result(`{"content":{}}`), "AMBIGUOUS  unreadable"},
		{"a task", "", "", result(`{"resultType":"task","taskId":"t"}`), "AMBIGUOUS  result_type"},
		{"input_required", "", "", result(`{"resultType":"input_required","requestState":"s"}`), "AMBIGUOUS  result_type"},
		{"a kind of no text", "", "", result(`{"resultType":1,` + text[1:]), "AMBIGUOUS  unreadable"},
		{"unknown content", "", "", result(`{"content":[{"type":"hologram"}]}`), "AMBIGUOUS  unknown_content"},
		{"empty", "", "", result(`{"content":[]}`), "AMBIGUOUS  empty_success"},
		{"empty object", "", "", result(`{}`), "AMBIGUOUS  empty_success"},
		{"empty, declared", "", "empty_success: success", result(`{"content":[]}`), "SUCCEEDED  result"},
		{"empty, declared above", "empty_success: success", "", result(`{"content":[]}`), "SUCCEEDED  result"},
		{"empty, declared otherwise", "empty_success: success", "empty_success: doubt", result(`{"content":[]}`), "AMBIGUOUS  empty_success"},
		{"success holds", "", "success: response.text == 'done'", result(text), "SUCCEEDED  contract_success"},
		{"success does not", "", "success: response.text == 'gone'", result(text), "EFFECT_POSSIBLE  contract_no_success"},
		{"success cannot be said", "", "success: response.body.id == 1", result(text), "AMBIGUOUS  contract_undecided"},
		{"success does not overrule isError", "", "success: response.text == 'done'", result(`{"isError":true,` + text[1:]), "EFFECT_POSSIBLE  is_error"},
		{"accepted", "", "accepted: response.text == 'done'", result(text), "ACCEPTED  contract_accepted"},
		{"an error", "", "", failure(-32603, "x"), "AMBIGUOUS  protocol_error"},
		{"no such tool", "", "", failure(-32602, "x"), "REJECTED P4 mcp_convention"},
		{"no such method", "", "", failure(-32601, "x"), "REJECTED P4 mcp_convention"},
		{"no such tool by text", "", "", result(`{"isError":true,"content":[{"type":"text","text":"MCP error -32602: bad"}]}`), "REJECTED P4 mcp_convention"},
		{"a text like it", "", "", result(`{"isError":true,"content":[{"type":"text","text":"MCP error -32603: bad"}]}`), "EFFECT_POSSIBLE  is_error"},
		{"listed as no effect", "", "no_effect: [response.is_error && response.text == 'done']", result(`{"isError":true,` + text[1:]), "REJECTED P3 contract_no_effect"},
		{"listed by code", "", "no_effect: [{when: response.code == -32000, transient: true}]", failure(-32000, "x"), "REJECTED P3 contract_no_effect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			upstream := "mcp: {command: [x]}"
			if c.upstream != "" {
				upstream = "mcp: {command: [x], " + c.upstream + "}"
			}
			_, tool := mcpSetup(t, upstream, "identity: none\n"+c.terms, &client{answer: func(*MCPCall) *MCPAnswer { return c.answer }})
			e := send(t, tool, begin(t, tool, `{}`))
			if got := string(e.Class) + " " + string(e.Strength) + " " + e.Proof; got != c.want {
				t.Errorf("got %s (%s), want %s", got, e.Error, c.want)
			}
			if e.Class == pawl.ClassSucceeded != (string(e.Result) == string(c.answer.Result) && e.Result != nil) {
				t.Errorf("result: got %s, want the server's own with a success alone", e.Result)
			}
			if tool.Contract.Conventions {
				t.Error("conventions count that nobody declared")
			}
		})
	}
}

// TestConventionsOfMCP: the strength P4 counts only where the file says so.
func TestConventionsOfMCP(t *testing.T) {
	t.Parallel()
	_, tool := mcpSetup(t, "conventions: mcp\nmcp: {command: [x]}", "identity: none", &client{})
	if !tool.Contract.Conventions {
		t.Error("the upstream's conventions do not count")
	}
	if _, tool = mcpSetup(t, "conventions: mcp\nmcp: {command: [x]}", "identity: none\nconventions: none", &client{}); tool.Contract.Conventions {
		t.Error("the tool's own word does not count")
	}
}

// TestKeyOfMCP: the key is in its place, whatever the model wrote there, and is the same in
// the request that is sent again.
func TestKeyOfMCP(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ carrier, params, header, hidden string }{
		{"carrier: argument, name: key", `{"arguments":{"id":"1","key":"KEY"},"name":"act"}`, "", "/key"},
		{"carrier: argument, name: /meta/a~1b", `{"arguments":{"id":"1","key":"mine","meta":{"a/b":"KEY"}},"name":"act"}`, "", "/meta/a~1b"},
		{"carrier: meta, name: example.com/key", `{"_meta":{"example.com/key":"KEY"},"arguments":{"id":"1","key":"mine"},"name":"act"}`, "", ""},
		{"carrier: header, name: idempotency-key", `{"arguments":{"id":"1","key":"mine"},"name":"act"}`, "KEY", ""},
	} {
		var got client
		got.answer = func(*MCPCall) *MCPAnswer { return result(`{"content":[{"type":"text","text":"ok"}]}`) }
		f, tool := mcpSetup(t, "url: https://a.example/mcp\nmcp: {}", "class: keyed\nidentity: [id]\nkey: {"+c.carrier+"}", &got)
		op := begin(t, tool, `{"id":"1","key":"mine"}`)
		key, err := op.Key.Encode("")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			send(t, tool, op)
		}
		for i, call := range got.calls {
			want := strings.ReplaceAll(c.params, "KEY", key)
			if string(call.Params) != want || call.Header.Get("Idempotency-Key") != strings.ReplaceAll(c.header, "KEY", key) || !call.Effect {
				t.Errorf("%s, request %d: got %s %v, want %s", c.carrier, i+1, call.Params, call.Header, want)
			}
		}
		tools := f.MCPTools("up")
		if len(tools) != 1 || tools[0].Name != "up/act" || tools[0].Tool != "act" || strings.Join(tools[0].Hidden, " ") != c.hidden {
			t.Errorf("%s: got %+v, want %s hidden", c.carrier, tools, c.hidden)
		}
	}
}

// TestCallArguments: the arguments are a tree of expressions, and what does not fit the
// server's schema is refused with nothing sent.
func TestCallArguments(t *testing.T) {
	t.Parallel()
	got := &client{answer: func(*MCPCall) *MCPAnswer { return result(`{}`) }}
	_, tool := mcpSetup(t, "mcp: {command: [x]}", `
identity: [id]
call: {tool: act-now, args: {path: args.id, text: "args.text + ' [' + key + ']'", note: args.?note, n: 7}}
deadline_to: {meta: example.com/deadline, format: rfc3339}`, got)
	op := begin(t, tool, `{"id":"1","text":"hi"}`)
	send(t, tool, op)
	key, _ := op.Key.Encode("")
	if want := `{"arguments":{"n":7,"path":"1","text":"hi [` + key + `]"},"name":"act-now"}`; string(got.calls[0].Params) != want {
		t.Errorf("got %s, want %s", got.calls[0].Params, want)
	}
	if _, err := time.Parse(time.RFC3339, got.calls[0].Meta["example.com/deadline"]); err != nil {
		t.Errorf("got %v, want the deadline", got.calls[0].Meta)
	}
	got.schema = errors.New("at /text: too long")
	_, err := tool.Port.Prepare(&pawl.Invocation{Tool: "up/act", Args: map[string]any{"id": "1", "text": "x"}, Canonical: json.RawMessage(`{"id":"1","text":"x"}`)})
	if !errors.Is(err, got.schema) {
		t.Errorf("got %v, want what the schema says", err)
	}
}

// TestProbeByTool: another tool, also of another server, tells whether the effect exists.
func TestProbeByTool(t *testing.T) {
	t.Parallel()
	found := func(list string) *MCPAnswer {
		return result(`{"content":[{"type":"text","text":"see there"}],"structuredContent":{"list":` + list + `,"more":false}}`)
	}
	for _, c := range []struct {
		name   string
		answer *MCPAnswer
		want   pawl.ProbeOutcome
		refs   string
	}{
		{"found", found(`[{"key":"KEY","id":"r1"},{"key":"x","id":"r2"}]`), pawl.Found, "r1"},
		{"absent", found(`[{"key":"x","id":"r2"}]`), pawl.Absent, ""},
		{"as text", result(`{"content":[{"type":"text","text":"{\"list\":[],\"more\":false}"}]}`), pawl.Absent, ""},
		{"a page", result(`{"structuredContent":{"list":[],"more":true}}`), pawl.Inconclusive, ""},
		{"declared absent", result(`{"isError":true,"content":[{"type":"text","text":"not found"}]}`), pawl.Absent, ""},
		{"isError", result(`{"isError":true,"content":[{"type":"text","text":"busy"}],"structuredContent":{"list":[],"more":false}}`), pawl.Inconclusive, ""},
		{"an error", failure(-32603, "busy"), pawl.Inconclusive, ""},
		{"no answer", &MCPAnswer{}, pawl.Inconclusive, ""},
		{"empty", result(`{"content":[]}`), pawl.Inconclusive, ""},
		{"a task", result(`{"resultType":"task","structuredContent":{"list":[],"more":false}}`), pawl.Inconclusive, ""},
		{"unreadable", result(`{"structuredContent":{"list":[],"list":[],"more":false}}`), pawl.Inconclusive, ""},
	} {
		got := &client{answer: func(call *MCPCall) *MCPAnswer { return c.answer }}
		_, tool := mcpSetup(t, "mcp: {command: [x]}", `
identity: [id]
marker: {carrier: argument, name: ref}
probe:
  call: {upstream: other, tool: find, args: {q: key}}
  by: marker
  match: response.body.list.filter(r, r.key == key)
  complete: "!response.body.more"
  absent: response.is_error && response.text == 'not found'
  ref: match.id`, got)
		op := begin(t, tool, `{"id":"1"}`)
		key, _ := op.Key.Encode("")
		if c.answer.Result != nil {
			c.answer.Result = json.RawMessage(strings.ReplaceAll(string(c.answer.Result), "KEY", key))
		}
		r := tool.Port.(pawl.Prober).Probe(t.Context(), op)
		if r.Outcome != c.want || strings.Join(r.Refs, " ") != c.refs {
			t.Errorf("%s: got %s %v %s, want %s %s", c.name, r.Outcome, r.Refs, r.Error, c.want, c.refs)
		}
		if call := got.calls[0]; call.Server != "other" || call.Tool != "find" || call.Effect || string(call.Params) != `{"arguments":{"q":"`+key+`"},"name":"find"}` {
			t.Errorf("%s: got %+v %s", c.name, call, call.Params)
		}
		if again, err := Parse("source", []byte(tool.Contract.Source), nil); err != nil || !slices.ContainsFunc(again.MCPServers(), func(s *MCPServer) bool { return s.Name == "other" }) {
			t.Errorf("the pinned text lacks the other server: %v\n%s", err, tool.Contract.Source)
		}
	}
}

// TestFenceAndSnapshotByTool: a fence has an effect, and a snapshot reads the state before.
func TestFenceAndSnapshotByTool(t *testing.T) {
	t.Parallel()
	answer := result(`{"structuredContent":{"state":"cancelled","id":"r1"}}`)
	got := &client{answer: func(*MCPCall) *MCPAnswer { return answer }}
	_, tool := mcpSetup(t, "mcp: {command: [x]}", `
class: keyed
identity: [id]
key: {carrier: argument, name: ref}
fence: {call: {tool: cancel, args: {ref: key}}, found: response.body.state == 'done', held: response.body.state == 'cancelled', ref: response.body.id}
snapshot: {call: {tool: get, args: {id: args.id}}, result: response.body.state, absent: response.is_error}`, got)
	op := begin(t, tool, `{"id":"1"}`)
	fence := func() pawl.FenceResult { return tool.Port.(pawl.Fencer).Fence(t.Context(), op) }
	if r := fence(); r.Outcome != pawl.FenceHeld || !got.calls[len(got.calls)-1].Effect {
		t.Errorf("got %s %s, want held, by a call that may have an effect", r.Outcome, r.Error)
	}
	inv := &pawl.Invocation{Tool: "up/act", Args: map[string]any{"id": "1"}, Canonical: json.RawMessage(`{"id":"1"}`)}
	if before, err := tool.Port.(pawl.Snapshotter).Snapshot(t.Context(), inv); err != nil || string(before) != `"cancelled"` {
		t.Errorf("got %s %v, want the state", before, err)
	}
	answer = result(`{"structuredContent":{"state":"done","id":"r1"}}`)
	if r := fence(); r.Outcome != pawl.FenceFound || r.Ref != "r1" {
		t.Errorf("got %s %s, want found", r.Outcome, r.Error)
	}
	answer = result(`{"isError":true,"structuredContent":{"state":"open"}}`)
	if r := fence(); r.Outcome != pawl.FenceInconclusive {
		t.Errorf("got %s, want inconclusive", r.Outcome)
	}
	if before, err := tool.Port.(pawl.Snapshotter).Snapshot(t.Context(), inv); err != nil || string(before) != "null" {
		t.Errorf("got %s %v, want null", before, err)
	}
	answer = &MCPAnswer{}
	if before, err := tool.Port.(pawl.Snapshotter).Snapshot(t.Context(), inv); err == nil {
		t.Errorf("got %s, want an error", before)
	}
}

// TestUndeclared: a tool that nobody has declared has no guarantee.
func TestUndeclared(t *testing.T) {
	t.Parallel()
	got := &client{answer: func(*MCPCall) *MCPAnswer { return result(`{"structuredContent":1}`) }}
	f, _ := mcpSetup(t, "mcp: {command: [x]}", "identity: none", got)
	tool, err := f.Undeclared("up", "write")
	if err != nil {
		t.Fatal(err)
	}
	c := tool.Contract
	if c.Tool != "up/write" || c.Class != pawl.Unsafe || !c.IdentityAll || c.Retention != 0 || c.Probe != nil || c.Fence != nil || c.ConvergentFor != 0 || c.Conventions || c.Validate() != nil {
		t.Errorf("got %+v, want no guarantee", c)
	}
	if e := send(t, *tool, begin(t, *tool, `{"a":1}`)); e.Class != pawl.ClassSucceeded || string(got.calls[0].Params) != `{"arguments":{"a":1},"name":"write"}` {
		t.Errorf("got %s %s", e.Class, got.calls[0].Params)
	}
	if r := tool.Port.(pawl.Prober).Probe(t.Context(), begin(t, *tool, `{}`)); r.Outcome != pawl.Inconclusive {
		t.Errorf("got %s, want inconclusive", r.Outcome)
	}
	for _, bad := range [][2]string{{"nowhere", "x"}, {"up", "a b"}, {"up", strings.Repeat("x", 200)}, {"up", ""}} {
		if _, err := f.Undeclared(bad[0], bad[1]); bad[1] != "" && !errors.Is(err, ErrUndeclared) {
			t.Errorf("%v: got %v, want ErrUndeclared", bad, err)
		}
	}
	f, _ = mcpSetup(t, "mcp: {command: [x], undeclared: refuse}", "identity: none", got)
	if _, err := f.Undeclared("up", "write"); !errors.Is(err, ErrUndeclared) {
		t.Errorf("got %v, want ErrUndeclared", err)
	}
}

// TestMCPServers: what is declared about servers, with credentials that are joined late.
func TestMCPServers(t *testing.T) {
	t.Parallel()
	f, _ := mcpSetup(t, `
url: https://a.example/mcp
headers: {Authorization: "Bearer ${env:TOKEN}", X-Plain: p}
mcp: {era: modern, read_only_hints: trusted, undeclared: refuse, start_timeout: 3s}`, "identity: none", &client{})
	servers := f.MCPServers()
	if len(servers) != 2 || servers[0].Name != "other" || servers[1].Name != "up" {
		t.Fatalf("got %+v, want both", servers)
	}
	s := servers[1]
	if s.URL != "https://a.example/mcp" || s.Era != "modern" || !s.TrustReadOnly || !s.Refuse || s.StartTimeout != 3*time.Second || s.Command != nil {
		t.Errorf("got %+v", s)
	}
	header, secrets, err := s.Header()
	if err != nil || header.Get("Authorization") != "Bearer value of TOKEN" || header.Get("X-Plain") != "p" || len(secrets) != 1 {
		t.Errorf("got %v %v %v, want today's credential", header, secrets, err)
	}
	if s := servers[0]; s.Era != "" || s.TrustReadOnly || s.Refuse || s.StartTimeout != defaultStart {
		t.Errorf("got %+v, want the cautious defaults", s)
	}
	env, _, err := servers[0].Environment()
	if err != nil || slices.ContainsFunc(env, func(e string) bool { return !slices.Contains(inherited(), strings.Split(e, "=")[0]) }) {
		t.Errorf("got %v %v, want what programs need alone", env, err)
	}
}

// FuzzToolMessage: a text is refused or is the one text of its message.
func FuzzToolMessage(f *testing.F) {
	f.Add([]byte("tools/call git\nIdempotency-Key: abc\n\n{\"arguments\":{},\"name\":\"x\"}"))
	f.Add([]byte("tools/call git\n\n{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseToolMessage(raw)
		if err != nil {
			return
		}
		again, err := m.text()
		if err != nil || string(again) != string(raw) {
			t.Fatalf("got %q, %v, want %q", again, err, raw)
		}
	})
}

// FuzzToolAnswer: no result of a server is a panic, and none that says isError a success.
func FuzzToolAnswer(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"{}"}],"structuredContent":{},"isError":false,"resultType":"complete"}`))
	f.Add([]byte(`{"isError":true}`))
	file, err := Parse("pawl.yaml", []byte("version: 1\nupstreams:\n  up:\n    mcp: {command: [x]}\n"), nil)
	if err != nil {
		f.Fatal(err)
	}
	tool, err := file.Undeclared("up", "act")
	if err != nil {
		f.Fatal(err)
	}
	port := tool.Port.(*mcpTool)
	s, err := port.subject(nil, nil, pawl.Key{}, map[string]any{}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		e := port.classify(&MCPAnswer{Result: raw, Header: http.Header{}}, s)
		var loose struct{ IsError bool }
		if json.Unmarshal(raw, &loose) == nil && loose.IsError && e.Class == pawl.ClassSucceeded {
			t.Fatalf("%s: got SUCCEEDED", raw)
		}
		if e.Class == pawl.ClassNotSent || e.Class == pawl.ClassRejected && e.Strength != pawl.P4 {
			t.Fatalf("%s: got %s, want no claim of no effect", raw, e.Class)
		}
	})
}
