package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/gateway"
	"github.com/pawl-dev/pawl/gateway/wire"
	"github.com/pawl-dev/pawl/server"
)

// TestStateIsHeldToItsCall: the token of a question counts once, for the call, the client
// and the time that it was made for. The answer that is brought once more joins the call.
func TestStateIsHeldToItsCall(t *testing.T) {
	t.Parallel()
	s := newShop(false)
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), "")+
		"tools:\n  shop/order: {upstream: shop, identity: [id], confirm: always}\n", nil)
	c := rawClient(t, f.url)
	ask := func(id string) string {
		_, m := c.modern(wire.MethodCallTool, callOrder(id))
		state, _ := member(m, "result", "requestState").(string)
		if state == "" {
			t.Fatalf("got %v, want a question", m)
		}
		return state
	}
	answer := func(id, state string) object {
		params := callOrder(id)
		params["requestState"] = state
		params["inputResponses"] = object{"pawl-1": object{"action": "accept", "content": object{"confirm": true}}}
		_, m := c.modern(wire.MethodCallTool, params)
		return m
	}
	refused := func(what string, m object) {
		t.Helper()
		if member(m, "error", "code") != json.Number("-32602") {
			t.Errorf("%s: got %v, want it refused", what, m)
		}
	}
	state := ask("A-1")
	refused("another call", answer("A-2", state))
	refused("a changed token", answer("A-1", state[:len(state)-1]+map[bool]string{true: "1", false: "0"}[strings.HasSuffix(state, "0")]))
	refused("a longer life", answer("A-1", strings.Replace(state, ".1", ".9", 1)))
	refused("no token of ours", answer("A-1", "pawl1.x.y.z"))
	refused("an upstream's token", answer("A-1", "s1"))
	if n := s.orders.Load(); n != 0 {
		t.Errorf("got %d orders, want none yet", n)
	}
	if again := ask("A-1"); again != state {
		t.Error("the call that comes again without its token is asked something else")
	}
	for _, action := range []string{"executed", "replayed"} {
		m := answer("A-1", state)
		if got := member(m, "result", "_meta", gateway.MetaOperation, "status"); got != "SUCCEEDED" {
			t.Errorf("%s: got %v, want SUCCEEDED", action, m)
		}
	}
	if n := s.orders.Load(); n != 1 {
		t.Errorf("got %d orders, want 1", n)
	}
}

// TestStateExpires: a question that nobody answers in time is over.
func TestStateExpires(t *testing.T) {
	t.Parallel()
	s := newShop(false)
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), "")+
		"tools:\n  shop/order: {upstream: shop, identity: [id], confirm: always}\n", &server.Options{Gateway: &gateway.Options{AnswerTime: time.Millisecond}})
	c := rawClient(t, f.url)
	_, m := c.modern(wire.MethodCallTool, callOrder("A-1"))
	if state, ok := member(m, "result", "requestState").(string); ok {
		<-time.After(20 * time.Millisecond) // the time itself is what is tested
		params := callOrder("A-1")
		params["requestState"] = state
		if _, m := c.modern(wire.MethodCallTool, params); member(m, "error", "code") != json.Number("-32602") {
			t.Errorf("got %v, want it refused", m)
		}
	}
}

// TestBadMessages: what cannot be done is answered with what is wrong, and the next message
// is answered as if nothing had been.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	s := newShop(false)
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), ""), &server.Options{Gateway: &gateway.Options{MaxMessage: 4096}})
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	call := func(rest string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"order","arguments":{"id":"x"},` + rest + `}}`
	}
	good := []string{wire.HeaderVersion, "2026-07-28", wire.HeaderMethod, "tools/call", wire.HeaderName, "order"}
	for _, c := range []struct {
		name    string
		body    string
		headers []string
		status  int
		code    string
	}{
		{"no JSON", `{"jsonrpc"`, nil, 400, "-32700"},
		{"no message", `[1]`, nil, 400, "-32600"},
		{"a doubled key", `{"jsonrpc":"2.0","id":1,"ID":2,"method":"ping"}`, nil, 400, "-32600"},
		{"a doubled key in params", call(`"name":"other",` + meta), good, 400, "-32602"},
		{"too large", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 5000) + `"}`, nil, 413, ""},
		{"no session", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, 400, "-32600"},
		{"no such session", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, []string{wire.HeaderSession, "x"}, 404, ""},
		{"another media type", `{}`, []string{"Content-Type", "text/plain"}, 415, ""},
		{"nothing accepted", `{}`, []string{"Accept", "text/html"}, 406, ""},
		{"a revision nobody knows", strings.ReplaceAll(call(meta), "2026-07-28", "2099-01-01"), []string{wire.HeaderVersion, "2099-01-01", wire.HeaderMethod, "tools/call", wire.HeaderName, "order"}, 400, "-32022"},
		{"no capabilities", call(strings.Replace(meta, "clientCapabilities", "x", 1)), good, 400, "-32602"},
		{"no version header", call(meta), append([]string{}, good[2:]...), 400, "-32020"},
		{"no version in the body", call(`"_meta":{}`), good, 400, "-32602"},
		{"another method header", call(meta), []string{wire.HeaderVersion, "2026-07-28", wire.HeaderMethod, "tools/list", wire.HeaderName, "order"}, 400, "-32020"},
		{"another name header", call(meta), []string{wire.HeaderVersion, "2026-07-28", wire.HeaderMethod, "tools/call", wire.HeaderName, "other"}, 400, "-32020"},
		{"no name header", call(meta), good[:4], 400, "-32020"},
		{"arguments that are none", strings.Replace(call(meta), `{"id":"x"}`, `7`, 1), good, 400, "-32602"},
	} {
		status, messages, err := rawClient(t, f.url).post(t.Context(), c.body, c.headers...)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		code := ""
		if len(messages) > 0 {
			code = fmt.Sprint(member(messages[0], "error", "code"))
		}
		if status != c.status || code != c.code {
			t.Errorf("%s: got %d %s %v, want %d %s", c.name, status, code, messages, c.status, c.code)
		}
	}
	c := rawClient(t, f.url)
	for _, unknown := range []struct {
		method string
		params object
		status int
		code   json.Number
	}{{"tasks/get", object{}, 404, "-32601"}, {"ping", object{}, 404, "-32601"}, {wire.MethodCallTool, object{"name": "none"}, 400, "-32602"}} {
		if status, m := c.modern(unknown.method, unknown.params); status != unknown.status || member(m, "error", "code") != unknown.code {
			t.Errorf("%s: got %d %v, want %d %s", unknown.method, status, m, unknown.status, unknown.code)
		}
	}
	if n := s.orders.Load(); n != 0 {
		t.Errorf("got %d orders, want none", n)
	}
	if _, m := c.modern(wire.MethodCallTool, callOrder("A-1")); member(m, "result", "_meta", gateway.MetaOperation, "status") != "SUCCEEDED" {
		t.Errorf("got %v, want the next message answered", m)
	}
}

// TestBadLines: the same on stdio, where one line must not spoil the next.
func TestBadLines(t *testing.T) {
	t.Parallel()
	s := newShop(false)
	p := stdio(t, serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), ""), &server.Options{Gateway: &gateway.Options{MaxMessage: 4096}}))
	for _, c := range []struct{ line, id, code string }{
		{`{"jsonrpc"`, "<nil>", "-32700"},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "<nil>", "-32600"},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "<nil>", "-32600"},
		{`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 5000) + `"}`, "<nil>", "-32600"},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "2", "-32600"},
		{`{"jsonrpc":"2.0","id":"3","method":"ping"}`, "3", "<nil>"},
		{`{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2099-01-01","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`, "4", "<nil>"},
		{`{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, "5", "-32600"},
		{`{"jsonrpc":"2.0","id":6,"method":"no/such"}`, "6", "-32601"},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"order","arguments":{"id":"x"}}}`, "7", "<nil>"},
	} {
		p.write(c.line)
		m := p.next()
		if id, code := fmt.Sprint(m["id"]), fmt.Sprint(member(m, "error", "code")); id != c.id || code != c.code {
			t.Errorf("%s: got %v, want id %s and code %s", c.line[:min(40, len(c.line))], m, c.id, c.code)
		}
	}
	p.close()
	if n := s.orders.Load(); n != 1 {
		t.Errorf("got %d orders, want 1", n)
	}
}

// TestEachErasOwnOnOneURL: at one URL a legacy client has a session, and ends it; a modern
// one has none.
func TestEachErasOwnOnOneURL(t *testing.T) {
	t.Parallel()
	s := newShop(false)
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), ""), nil)
	modern, old := rawClient(t, f.url), rawClient(t, f.url)
	if _, m := modern.modern(wire.MethodListTools, object{}); member(m, "result", "resultType") != "complete" || modern.session != "" {
		t.Errorf("modern: got %v in session %q, want a result with its type and no session", m, modern.session)
	}
	if _, m := old.legacy(wire.MethodListTools, object{}); member(m, "result", "tools") == nil || member(m, "result", "resultType") != nil || old.session == "" {
		t.Errorf("legacy: got %v in session %q, want a plain result in a session", m, old.session)
	}
	do := func(method string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, f.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(wire.HeaderSession, old.session)
		answer, err := old.web.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if got := do(http.MethodDelete); got != http.StatusNoContent {
		t.Errorf("end: got %d, want 204", got)
	}
	if status, _ := old.legacy(wire.MethodListTools, object{}); status != http.StatusNotFound {
		t.Errorf("after the end: got %d, want 404", status)
	}
	if got := do(http.MethodPut); got != http.StatusMethodNotAllowed {
		t.Errorf("put: got %d, want 405", got)
	}
}

// TestLimits: sessions and calls have their bounds, and what is over them is refused and
// harms nothing.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := newShop(true)
	defer s.release()
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), ""), &server.Options{Gateway: &gateway.Options{MaxSessions: 2, MaxCalls: 1}})
	first := rawClient(t, f.url)
	first.legacy(wire.MethodListTools, object{})
	rawClient(t, f.url).legacy(wire.MethodListTools, object{})
	hello := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`
	if status, m, err := rawClient(t, f.url).post(t.Context(), hello); err != nil || status != http.StatusTooManyRequests {
		t.Errorf("a third session: got %d %v %v, want 429", status, m, err)
	}
	answered := make(chan object, 1)
	go func() {
		_, m := first.legacy(wire.MethodCallTool, callOrder("A-1"))
		answered <- m
	}()
	<-s.arrived
	if _, m := first.legacy(wire.MethodCallTool, callOrder("A-2")); member(m, "error", "code") != json.Number("-31001") {
		t.Errorf("a second call at once: got %v, want it refused", m)
	}
	s.release()
	if m := <-answered; member(m, "result", "_meta", gateway.MetaOperation, "status") != "SUCCEEDED" {
		t.Errorf("got %v, want the first one to go on", m)
	}
	if n := s.orders.Load(); n != 1 {
		t.Errorf("got %d orders, want 1", n)
	}
}

// TestStopEndsStreams: a server that is told to stop ends the streams that would last for
// ever, and does so within its grace.
func TestStopEndsStreams(t *testing.T) {
	t.Parallel()
	s := newShop(false)
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), ""), nil)
	c := rawClient(t, f.url)
	c.legacy(wire.MethodListTools, object{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(wire.HeaderSession, c.session)
	r.Header.Set("Accept", "text/event-stream")
	answer, err := c.web.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v, want a stream", answer, err)
	}
	defer answer.Body.Close()
	body := encode(t, object{"jsonrpc": "2.0", "id": "sub", "method": wire.MethodListen, "params": object{
		"notifications": object{"toolsListChanged": true}, "_meta": object{wire.MetaVersion: wire.Version20260728, wire.MetaCapabilities: object{}},
	}})
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", wire.HeaderVersion: wire.Version20260728, wire.HeaderMethod: wire.MethodListen,
	} {
		r.Header.Set(name, value)
	}
	subscribed, err := c.web.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer subscribed.Body.Close()
	events := wire.NewEventReader(subscribed.Body, 0)
	if e, err := events.Next(); err != nil || c.read(e.Data)["method"] != wire.NotifyAcknowledged {
		t.Fatalf("got %v, %v, want the subscription acknowledged", e, err)
	}
	begun := time.Now()
	f.stop()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
	if e, err := events.Next(); err != nil || member(c.read(e.Data), "result", "_meta", wire.MetaSubscription) != "sub" {
		t.Errorf("got %v, %v, want the end of the subscription", e, err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("took %v, want less than the grace", took)
	}
}

// process is a client on a pair of pipes.
type process struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *bufio.Scanner
	ended chan error
}

func stdio(t *testing.T, f *front) *process {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &process{t: t, in: inW, out: bufio.NewScanner(outR), ended: make(chan error, 1)}
	go func() { p.ended <- f.ServeStdio(context.WithoutCancel(t.Context()), inR, outW) }()
	return p
}

func (p *process) write(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) next() object {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("no answer: %v", p.out.Err())
	}
	m, _ := numbers(p.t, p.out.Bytes()).(object)
	return m
}

// close closes the client's side and waits for the end.
func (p *process) close() {
	p.t.Helper()
	p.in.Close()
	if err := <-p.ended; err != nil {
		p.t.Errorf("got %v, want a clean end", err)
	}
}
