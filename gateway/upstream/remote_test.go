package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// site is a server over HTTP that keeps what it is sent, and answers as a test says.
type site struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex
	// heard are the requests in their order, without the stream of the session.
	heard []heard
	// answer answers a request of a tool, and whatever else a test wants: it reports
	// whether it did.
	answer func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool
	// stream is what a GET gets.
	stream func(w http.ResponseWriter, r *http.Request)
	era    wire.Era
}

type heard struct {
	header http.Header
	m      *wire.Message
	method string
}

func newSite(t *testing.T, era wire.Era) *site {
	s := &site{t: t, era: era}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h := heard{header: r.Header, method: r.Method}
	if r.Method == http.MethodPost {
		m, err := wire.Parse(body)
		if err != nil {
			s.t.Errorf("got %q: %v", body, err)
			return
		}
		h.m = m
	}
	s.mu.Lock()
	if r.Method != http.MethodGet || r.Header.Get(wire.HeaderLastEvent) != "" {
		s.heard = append(s.heard, h)
	}
	s.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && s.stream != nil:
		s.stream(w, r)
	case r.Method == http.MethodGet:
		http.Error(w, "no", http.StatusMethodNotAllowed)
	case h.m == nil:
	case s.answer != nil && s.answer(w, r, h.m):
	case h.m.Method == wire.MethodInitialize && s.era == wire.Legacy:
		w.Header().Set(wire.HeaderSession, "session-1")
		reply(w, wire.Result(h.m.ID, json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"site","version":"1"}}`)))
	case h.m.Method == wire.MethodDiscover && s.era == wire.Modern:
		reply(w, wire.Result(h.m.ID, json.RawMessage(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"site","version":"1"}}}`)))
	case !h.m.IsRequest():
		w.WriteHeader(http.StatusAccepted)
	case h.m.Method == wire.MethodListTools:
		reply(w, wire.Result(h.m.ID, json.RawMessage(`{"resultType":"complete","tools":[{"name":"act","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}}]}`)))
	case h.m.Method == wire.MethodCallTool:
		reply(w, wire.Result(h.m.ID, json.RawMessage(done)))
	default:
		w.WriteHeader(http.StatusBadRequest)
		reply(w, wire.Failure("", &wire.Error{Code: wire.CodeMethodNotFound, Message: "no " + h.m.Method}))
	}
}

const done = `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`

func reply(w http.ResponseWriter, m *wire.Message) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(m.Append(nil))
}

// events begins a stream of events.
func events(w http.ResponseWriter) func(id string, m *wire.Message) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := wire.NewEventWriter(w)
	return func(id string, m *wire.Message) {
		out.Write(id, m.Append(nil))
		w.(http.Flusher).Flush()
	}
}

// all are the requests of one method.
func (s *site) all(method string) (list []heard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.heard {
		if h.m != nil && h.m.Method == method || h.m == nil && h.method == method {
			list = append(list, h)
		}
	}
	return list
}

// TestLegacySession: every request of a session has its name and revision, a server that
// has forgotten it gets a new one, and one that is closed is told so.
func TestLegacySession(t *testing.T) {
	t.Parallel()
	s := newSite(t, wire.Legacy)
	f, set := file(t, reached(s.URL, ""), nil)
	u := set.Get("up")
	tool := port(t, f, "up/act")
	if e := send(t, within(t, patience), tool, `{}`); e.Class != pawl.ClassSucceeded || e.Code != 200 || e.Peer == "" {
		t.Fatalf("got %s %s %s", e.Class, e.Proof, e.Error)
	}
	for _, method := range []string{wire.NotifyInitialized, wire.MethodCallTool} {
		for _, h := range s.all(method) {
			if h.header.Get(wire.HeaderSession) != "session-1" || h.header.Get(wire.HeaderVersion) != wire.Version20250618 ||
				h.header.Get("Accept") != "application/json, text/event-stream" {
				t.Errorf("%s: got %v, want session and revision", method, h.header)
			}
			if h.header.Get(wire.HeaderMethod) != "" || strings.Contains(string(h.m.Params), "io.modelcontextprotocol") {
				t.Errorf("%s: got %v %s, want nothing of modern revisions", method, h.header, h.m.Params)
			}
		}
	}
	forget := true
	s.answer = func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool {
		if forget && m.Method == wire.MethodCallTool {
			forget = false
			http.Error(w, "no such session", http.StatusNotFound)
			return true
		}
		return false
	}
	if e := send(t, within(t, patience), tool, `{}`); e.Class != pawl.ClassAmbiguous || e.Code != 404 {
		t.Errorf("got %s %s %d, want doubt: a status proves nothing", e.Class, e.Proof, e.Code)
	}
	if e := send(t, within(t, patience), tool, `{}`); e.Class != pawl.ClassSucceeded {
		t.Errorf("got %s %s %s, want the next one in a new session", e.Class, e.Proof, e.Error)
	}
	if n := len(s.all(wire.MethodInitialize)); n != 2 {
		t.Errorf("sessions: got %d, want 2", n)
	}
	// A session that has rested is looked at before an effect goes over it.
	u.restAge = 0
	s.answer = func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool {
		if m.Method != wire.MethodPing {
			return false
		}
		http.Error(w, "no such session", http.StatusNotFound)
		return true
	}
	before := len(s.all(wire.MethodCallTool))
	if e := send(t, within(t, patience), tool, `{}`); e.Class != pawl.ClassSucceeded {
		t.Errorf("got %s %s %s, want an effect in a new session", e.Class, e.Proof, e.Error)
	}
	if n := len(s.all(wire.MethodCallTool)) - before; n != 1 {
		t.Errorf("calls: got %d, want 1", n)
	}
	set.Close()
	if n := len(s.all(http.MethodDelete)); n != 1 {
		t.Errorf("farewells: got %d, want 1", n)
	}
}

// TestResume: a stream that breaks off is read on behind its last event, by a GET; the
// effect is asked for once.
func TestResume(t *testing.T) {
	t.Parallel()
	s := newSite(t, wire.Legacy)
	var id wire.ID
	s.answer = func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool {
		if m.Method != wire.MethodCallTool {
			return false
		}
		id = m.ID
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "retry: 1\nid: e1\ndata: \n\n")
		events(w)("e2", wire.Notification(wire.NotifyProgress, json.RawMessage(`{"progressToken":`+string(m.ID)+`,"progress":1}`)))
		return true
	}
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(wire.HeaderLastEvent) == "" {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		events(w)("e3", wire.Result(id, json.RawMessage(done)))
	}
	f, _ := file(t, reached(s.URL), nil)
	if e := send(t, within(t, patience), port(t, f, "up/act"), `{}`); e.Class != pawl.ClassSucceeded {
		t.Errorf("got %s %s %s, want the answer behind the break", e.Class, e.Proof, e.Error)
	}
	if gets := s.all(http.MethodGet); len(gets) != 1 || gets[0].header.Get(wire.HeaderLastEvent) != "e2" || gets[0].header.Get(wire.HeaderSession) != "session-1" {
		t.Errorf("got %v, want one GET behind e2", gets)
	}
	if n := len(s.all(wire.MethodCallTool)); n != 1 {
		t.Errorf("calls: got %d, want 1", n)
	}
}

// TestStreams: what a legacy server asks on the stream of a call is of that call, and what
// it says on the stream of the session is for everybody.
func TestStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t, wire.Legacy)
	answers := make(chan *wire.Message, 8)
	s.answer = func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool {
		if m.IsResponse() {
			answers <- m
			w.WriteHeader(http.StatusAccepted)
			return true
		}
		if m.Method != wire.MethodCallTool {
			return false
		}
		write := events(w)
		write("", wire.Request(`"q"`, wire.MethodElicit, m.Params))
		a := <-answers
		if a.Error != nil {
			write("", wire.Failure(m.ID, a.Error))
			return true
		}
		write("", wire.Result(m.ID, a.Result))
		return true
	}
	open := make(chan struct{})
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		events(w)("1", wire.Notification(wire.NotifyToolsChanged, nil))
		close(open)
		<-r.Context().Done()
	}
	notices := make(chan *Notice, 1)
	_, set := file(t, reached(s.URL), &Options{Notify: func(n *Notice) { notices <- n }})
	client := &Client{Session: "ana", Capabilities: json.RawMessage(elicits)}
	for _, name := range []string{"one", "two"} {
		r := callTool("act", `{"message":"`+name+`"}`)
		r.Client, r.Caller = client, answering(name)
		if got := ask(t, set.Get("up"), r); !strings.Contains(got, `"by":"`+name+`"`) {
			t.Errorf("got %s, want an answer of %s", got, name)
		}
	}
	<-open
	if n := <-notices; n.Method != wire.NotifyToolsChanged || n.Session != "ana" {
		t.Errorf("got %+v, want one for the session's client", n)
	}
}

// TestModernRequest: a modern request says what it is in its headers and its _meta.
func TestModernRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, wire.Modern)
	f, set := file(t, reached(s.URL), nil)
	client := &Client{Era: wire.Modern, Info: json.RawMessage(`{"name":"ana"}`), Capabilities: json.RawMessage(`{"elicitation":{},"tasks":{},"extensions":{"io.modelcontextprotocol/tasks":{},"other":{}}}`)}
	ctx := WithCaller(within(t, patience), client, &front{})
	if e := send(t, ctx, port(t, f, "up/act"), `{"region":"Zürich","deep":{"n":7},"x":1}`); e.Class != pawl.ClassSucceeded {
		t.Fatalf("got %s %s %s", e.Class, e.Proof, e.Error)
	}
	h := s.all(wire.MethodCallTool)[0]
	for name, want := range map[string]string{
		wire.HeaderVersion: wire.Version20260728, wire.HeaderMethod: "tools/call", wire.HeaderName: "act",
		"Mcp-Param-Region": "=?base64?WsO8cmljaA==?=", "Mcp-Param-N": "7", wire.HeaderSession: "",
	} {
		if got := h.header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	meta := wire.Meta(h.m.Params)
	if string(meta.Get(wire.MetaClientInfo)) != `{"name":"ana"}` || string(meta.Get(wire.MetaCapabilities)) != `{"elicitation":{},"extensions":{"other":{}}}` {
		t.Errorf("got %s, want who calls, and what can be asked but tasks", meta.JSON())
	}
	ask(t, set.Get("up"), &Request{Method: wire.MethodListTools, Client: client})
	if meta := wire.Meta(s.all(wire.MethodListTools)[1].m.Params); string(meta.Get(wire.MetaCapabilities)) != `{}` {
		t.Errorf("got %s, want that nobody can be asked without a caller", meta.JSON())
	}
	if d, err := set.Get("up").Describe(ctx, client); err != nil || d.Era != wire.Modern || !strings.Contains(string(d.Info), "site") {
		t.Errorf("got %+v %v", d, err)
	}
}

// TestContinuation: input that a modern server asks for goes with the same call under a new
// id, within one attempt.
func TestContinuation(t *testing.T) {
	t.Parallel()
	asking := func(rounds int) *site {
		s := newSite(t, wire.Modern)
		s.answer = func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool {
			if m.Method != wire.MethodCallTool || len(s.all(wire.MethodCallTool)) > rounds {
				return false
			}
			reply(w, wire.Result(m.ID, json.RawMessage(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{}}},"requestState":"s%d"}`, len(s.all(wire.MethodCallTool))))))
			return true
		}
		return s
	}
	s := asking(2)
	f, _ := file(t, reached(s.URL), nil)
	var asked []string
	caller := &front{input: func(_ context.Context, result json.RawMessage) (json.RawMessage, error) {
		asked = append(asked, string(result))
		return json.RawMessage(fmt.Sprintf(`{"q":{"action":"accept","n":%d}}`, len(asked))), nil
	}}
	ctx := WithCaller(within(t, patience), &Client{Era: wire.Modern, Capabilities: json.RawMessage(elicits)}, caller)
	e := send(t, ctx, port(t, f, "up/act"), `{"x":1}`)
	if e.Class != pawl.ClassSucceeded || len(asked) != 2 || strings.Count(strings.Join(e.Trace, " "), "input_required") != 2 {
		t.Fatalf("got %s %s %v after %d questions, want two rounds", e.Class, e.Proof, e.Trace, len(asked))
	}
	calls := s.all(wire.MethodCallTool)
	ids := map[wire.ID]bool{}
	for i, h := range calls {
		o, _ := wire.ParseObject(h.m.Params)
		ids[h.m.ID] = true
		if string(o.Get("arguments")) != `{"x":1}` || string(o.Get("name")) != `"act"` {
			t.Errorf("round %d: got %s, want the same call", i, h.m.Params)
		}
		if state, _ := o.Text("requestState"); i > 0 && (state != fmt.Sprintf("s%d", i) || !strings.Contains(string(o.Get("inputResponses")), fmt.Sprintf(`"n":%d`, i))) {
			t.Errorf("round %d: got %s, want state and input", i, h.m.Params)
		}
	}
	if len(calls) != 3 || len(ids) != 3 {
		t.Errorf("got %d calls under %d ids, want 3", len(calls), len(ids))
	}
	// Nobody to ask, a person who does not answer, a server without end: doubt, and no call more.
	for name, c := range map[string]struct {
		caller Caller
		rounds int
		calls  int
	}{
		"nobody":     {nil, 100, 1},
		"no input":   {&front{}, 100, 1},
		"never ends": {caller, 100, maxRounds + 1},
	} {
		s := asking(c.rounds)
		f, _ := file(t, reached(s.URL), nil)
		e := send(t, WithCaller(within(t, patience), &Client{Era: wire.Modern}, c.caller), port(t, f, "up/act"), `{}`)
		if e.Class != pawl.ClassAmbiguous || e.BytesBegun == 0 || len(s.all(wire.MethodCallTool)) != c.calls {
			t.Errorf("%s: got %s %s after %d calls, want doubt after %d", name, e.Class, e.Proof, len(s.all(wire.MethodCallTool)), c.calls)
		}
	}
	// A read passes the question on where it is wanted.
	s = asking(1)
	_, set := file(t, reached(s.URL), nil)
	r := callTool("act", `{}`)
	r.PassInput, r.Caller = true, caller
	if got := ask(t, set.Get("up"), r); !strings.Contains(got, "input_required") {
		t.Errorf("got %s, want the question", got)
	}
}

// TestEras: a client is served in its own era where the server has it, else in the other.
func TestEras(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		server, client wire.Era
		refuse         func(w http.ResponseWriter, m *wire.Message)
	}{
		{"legacy for modern, error", wire.Legacy, wire.Modern, nil},
		{"modern for legacy, error", wire.Modern, wire.Legacy, nil},
		{"legacy for modern, text", wire.Legacy, wire.Modern, func(w http.ResponseWriter, _ *wire.Message) { http.Error(w, "bad request", 400) }},
		{"legacy for modern, 404", wire.Legacy, wire.Modern, func(w http.ResponseWriter, _ *wire.Message) { http.Error(w, "not found", 404) }},
		{"legacy for modern, page", wire.Legacy, wire.Modern, func(w http.ResponseWriter, _ *wire.Message) { io.WriteString(w, "<html>") }},
		{"same", wire.Modern, wire.Modern, nil},
		{"same", wire.Legacy, wire.Legacy, nil},
	} {
		s := newSite(t, c.server)
		s.answer = func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool {
			if c.refuse == nil || m.Method != wire.MethodDiscover {
				return false
			}
			c.refuse(w, m)
			return true
		}
		_, set := file(t, reached(s.URL), nil)
		for range 2 {
			r := callTool("act", `{}`)
			r.Client = &Client{Era: c.client, Capabilities: json.RawMessage(`{}`)}
			a, err := set.Get("up").Call(within(t, patience), r)
			if err != nil || a.Era != c.server {
				t.Errorf("%s: got %+v, %v, want era %s", c.name, a, err, c.server)
			}
			if c.server != c.client { // what was learned serves another kind of client too
				set.drop("up")
			}
		}
		greeting := wire.MethodDiscover
		if c.server == wire.Modern {
			greeting = wire.MethodInitialize
		}
		if n, want := len(s.all(greeting)), 1; c.server != c.client && n != want || c.server == c.client && n != 0 {
			t.Errorf("%s: %s was asked for %d times", c.name, greeting, n)
		}
	}
	// An era that the file names is the only one.
	s := newSite(t, wire.Legacy)
	_, set := file(t, strings.Replace(reached(s.URL), "undeclared: unsafe", "era: modern", 1), nil)
	if _, err := set.Get("up").Call(within(t, patience), callTool("act", `{}`)); !errors.Is(err, ErrUnsent) {
		t.Errorf("got %v, want ErrUnsent", err)
	}
	if n := len(s.all(wire.MethodInitialize)); n != 0 {
		t.Errorf("got %d handshakes of the other era, want none", n)
	}
}

// drop ends the sessions of a server, as if it had been restarted.
func (s *Set) drop(name string) { s.Get(name).drop(func(*session) bool { return true }) }

// TestHiddenSends: neither a redirect nor a reused connection that breaks has a call sent
// twice, whatever its key's header is called.
func TestHiddenSends(t *testing.T) {
	t.Parallel()
	s := newSite(t, wire.Modern)
	var n atomic.Int64
	s.answer = func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool {
		if m.Method != wire.MethodCallTool {
			return false
		}
		switch n.Add(1) {
		case 1:
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return true
		case 2:
			panic(http.ErrAbortHandler)
		}
		return false
	}
	f, _ := file(t, reached(s.URL, "tools:\n  up/act:\n    upstream: up\n    class: keyed\n    identity: none\n    key: {carrier: header, name: Idempotency-Key}\n"), nil)
	tool := port(t, f, "up/act")
	for i, want := range []pawl.AttemptClass{pawl.ClassAmbiguous, pawl.ClassAmbiguous, pawl.ClassSucceeded} {
		if e := send(t, within(t, patience), tool, `{}`); e.Class != want || n.Load() != int64(i+1) {
			t.Errorf("attempt %d: got %s %s after %d calls, want %s", i+1, e.Class, e.Proof, n.Load(), want)
		}
	}
	if keys := s.all(wire.MethodCallTool); keys[0].header.Get("Idempotency-Key") == "" || keys[0].header.Get("Idempotency-Key") != keys[2].header.Get("Idempotency-Key") {
		t.Errorf("got %v, want the same key each time", keys)
	}
}

// TestEchoIsHidden: a credential that a server repeats is in nothing that is kept or passed.
func TestEchoIsHidden(t *testing.T) {
	t.Setenv("PAWL_TEST_TOKEN", "s3cr3t-s3cr3t-s3cr3t")
	s := newSite(t, wire.Legacy)
	stream := false
	s.answer = func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool {
		if m.Method != wire.MethodCallTool {
			return false
		}
		result := wire.Result(m.ID, json.RawMessage(`{"content":[{"type":"text","text":`+string(wire.Quote("you sent "+r.Header.Get("Authorization")))+`}]}`))
		if stream {
			events(w)("", result)
		} else {
			reply(w, result)
		}
		return true
	}
	f, _ := file(t, strings.Replace(reached(s.URL), "    mcp:", "    headers: {Authorization: \"Bearer ${env:PAWL_TEST_TOKEN}\"}\n    mcp:", 1), nil)
	for _, stream = range []bool{false, true} {
		e := send(t, within(t, patience), port(t, f, "up/act"), `{}`)
		if e.Class != pawl.ClassSucceeded || !strings.Contains(string(e.Result), "you sent") {
			t.Fatalf("got %s %s", e.Class, e.Result)
		}
		if all := string(e.Result) + string(e.Body) + e.Error; strings.Contains(all, "s3cr3t") {
			t.Errorf("stream %v: got %s, want *** for the credential", stream, all)
		}
	}
	if got := s.all(wire.MethodCallTool)[0].header.Get("Authorization"); got != "Bearer s3cr3t-s3cr3t-s3cr3t" {
		t.Errorf("got %q, want the credential at the server", got)
	}
}

// TestGivenUp: a read that is given up is cancelled at the server; an effect never is.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, wire.Legacy)
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	defer close(release)
	s.answer = func(w http.ResponseWriter, r *http.Request, m *wire.Message) bool {
		if m.Method != wire.MethodCallTool {
			return false
		}
		arrived <- struct{}{}
		<-release
		return true
	}
	f, set := file(t, reached(s.URL), nil)
	for _, effect := range []bool{true, false} {
		ctx, giveUp := context.WithCancel(within(t, patience))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if effect {
				e := send(t, ctx, port(t, f, "up/act"), `{}`)
				if e.Class != pawl.ClassAmbiguous {
					t.Errorf("got %s %s, want doubt", e.Class, e.Proof)
				}
				return
			}
			if _, err := set.Get("up").Call(ctx, callTool("act", `{}`)); !errors.Is(err, ErrLost) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want ErrLost and the context's", err)
			}
		}()
		<-arrived
		giveUp()
		<-ended
	}
	for end := time.Now().Add(patience); len(s.all(wire.NotifyCancelled)) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	cancelled := s.all(wire.NotifyCancelled)
	calls := s.all(wire.MethodCallTool)
	if len(cancelled) != 1 || !strings.Contains(string(cancelled[0].m.Params), `"requestId":`+string(calls[1].m.ID)) {
		t.Errorf("got %d, want the read cancelled and not the effect", len(cancelled))
	}
	if slices.ContainsFunc(cancelled, func(h heard) bool { return h.header.Get(wire.HeaderSession) == "" }) {
		t.Error("a cancellation without its session")
	}
}
