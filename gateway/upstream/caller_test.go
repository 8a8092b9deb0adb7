package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// front is a Caller that a test plays.
type front struct {
	ask   func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error)
	input func(ctx context.Context, result json.RawMessage) (json.RawMessage, error)
	tell  func(method string, params json.RawMessage)
	meta  wire.Object
}

func (f *front) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error) {
	if f.ask == nil {
		return nil, &wire.Error{Code: wire.CodeMethodNotFound, Message: "nobody"}
	}
	return f.ask(ctx, method, params)
}

func (f *front) Input(ctx context.Context, result json.RawMessage) (json.RawMessage, error) {
	if f.input == nil {
		return nil, errors.New("nobody")
	}
	return f.input(ctx, result)
}

func (f *front) Tell(method string, params json.RawMessage) {
	if f.tell != nil {
		f.tell(method, params)
	}
}

func (f *front) Meta() wire.Object { return f.meta }

// answering says what it was asked.
func answering(name string) *front {
	return &front{ask: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error) {
		o, _ := wire.ParseObject(params)
		return wire.Object{{Name: "by", Value: wire.Quote(name)}, {Name: "method", Value: wire.Quote(method)}, {Name: "message", Value: o.Get("message")}}.JSON(), nil
	}}
}

const elicits = `{"elicitation":{}}`

// TestAsk: a question of a legacy server finds the client that its call is of, whoever else
// calls at the same time. Each client that can be asked has a session of its own.
func TestAsk(t *testing.T) {
	t.Parallel()
	_, set := file(t, started(script("plain")), nil)
	u := set.Get("up")
	var work sync.WaitGroup
	for _, name := range []string{"ana", "bo", "cy"} {
		client := &Client{Session: name, Capabilities: json.RawMessage(elicits)}
		work.Go(func() {
			for range 10 {
				r := callTool("ask", `{"text":"from `+name+`"}`)
				r.Client, r.Caller = client, answering(name)
				a, err := u.Call(within(t, patience), r)
				if err != nil {
					t.Error(err)
					return
				}
				got := strings.ReplaceAll(string(a.Result), `\`, "")
				if !strings.Contains(got, `"by":"`+name+`"`) || !strings.Contains(got, `"message":"from `+name+`"`) || !strings.Contains(got, wire.MethodElicit) {
					t.Errorf("got %s, want an answer of %s", got, name)
				}
			}
		})
	}
	work.Wait()
	if n := sessionsOf(u); n != 3 {
		t.Errorf("sessions: got %d, want 3", n)
	}
	set.EndSession("bo")
	if n := sessionsOf(u); n != 2 {
		t.Errorf("sessions after one has ended: got %d, want 2", n)
	}
}

// TestAskOfTwo: where it cannot be told which of two clients a question is for, neither is
// asked.
func TestAskOfTwo(t *testing.T) {
	t.Parallel()
	_, set := file(t, started(script("plain")), nil)
	u := set.Get("up")
	ctx := within(t, patience)
	client := func() *Client { return &Client{Era: wire.Modern, Capabilities: json.RawMessage(elicits)} }
	waiting := callTool("wait", `{"text":"1h"}`)
	waiting.Client, waiting.Caller = client(), answering("the one who waits")
	ended := make(chan struct{})
	waitCtx, stop := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		u.Call(waitCtx, waiting)
	}()
	for {
		if n := callsOf(u); n > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	r := callTool("ask", `{"text":"q"}`)
	r.Client, r.Caller = client(), answering("the one who asks")
	if got := ask(t, u, r); !strings.Contains(got, "nobody can be asked now") {
		t.Errorf("got %s, want a refusal", got)
	}
	stop()
	<-ended
	if got := ask(t, u, r); !strings.Contains(got, "the one who asks") {
		t.Errorf("got %s, want an answer", got)
	}
}

func sessionsOf(u *Upstream) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.sessions)
}

func (l *toolList) counts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.fresh.IsZero()
}

func callsOf(u *Upstream) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.sessions {
		s.mu.Lock()
		n += len(s.calls)
		s.mu.Unlock()
	}
	return n
}

// TestNobodyToAsk: a client without the capability shares a session, and its server is told
// that nobody can be asked.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	_, set := file(t, started(script("plain")), nil)
	if got := ask(t, set.Get("up"), callTool("ask", `{"text":"q"}`)); !strings.Contains(got, "nobody can be asked now") {
		t.Errorf("got %s, want a refusal", got)
	}
	if got := ask(t, set.Get("up"), callTool("ping", `{}`)); !strings.Contains(strings.ReplaceAll(got, `\`, ""), `"result":{}`) {
		t.Errorf("got %s, want an answer to the server's ping", got)
	}
}

// TestAskOutsideACall: a question while no call is under way goes to the front, with the
// client that the session is of.
func TestAskOutsideACall(t *testing.T) {
	t.Parallel()
	notices := make(chan *Notice, 4)
	_, set := file(t, started(script("roots")), &Options{
		Notify: func(n *Notice) { notices <- n },
		Ask: func(_ context.Context, server, session, method string, _ json.RawMessage) (json.RawMessage, *wire.Error) {
			return wire.Object{{Name: "roots", Value: wire.Quote(server + " " + session + " " + method)}}.JSON(), nil
		},
	})
	u := set.Get("up")
	client := &Client{Session: "ana", Capabilities: json.RawMessage(`{"roots":{}}`)}
	if _, err := u.Describe(within(t, patience), client); err != nil {
		t.Fatal(err)
	}
	if n := <-notices; n.Session != "ana" || !strings.Contains(string(n.Params), `"result":{"roots":"up ana roots/list"}`) {
		t.Errorf("got %+v %s, want the answer of the front", n, n.Params)
	}
	// In a session that is shared there is nobody.
	if _, err := u.Describe(within(t, patience), nil); err != nil {
		t.Fatal(err)
	}
	if n := <-notices; n.Session != "" || !strings.Contains(string(n.Params), "nobody can be asked now") {
		t.Errorf("got %+v %s, want a refusal", n, n.Params)
	}
}

// TestProgress: progress comes under the caller's own token, in order, before the answer.
func TestProgress(t *testing.T) {
	t.Parallel()
	_, set := file(t, started(script("plain")), nil)
	var got []string
	r := callTool("progress", `{}`)
	r.Params = json.RawMessage(`{"name":"progress","_meta":{"progressToken":"mine","traceparent":"00-1"}}`)
	r.Caller = &front{tell: func(method string, params json.RawMessage) { got = append(got, method+" "+string(params)) }}
	ask(t, set.Get("up"), r)
	if len(got) != 3 || got[2] != `notifications/progress {"progressToken":"mine","progress":3,"extra":true}` {
		t.Errorf("got %q, want three steps under the caller's token", got)
	}
	r = callTool("meta", `{}`)
	r.Params = json.RawMessage(`{"name":"meta","_meta":{"progressToken":"mine","traceparent":"00-1","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`)
	text := strings.ReplaceAll(ask(t, set.Get("up"), r), `\`, "")
	if !strings.Contains(text, `"traceparent":"00-1"`) || strings.Contains(text, "mine") || strings.Contains(text, "io.modelcontextprotocol") {
		t.Errorf("got %s, want the caller's keys but those of its own way", text)
	}
}

// TestSlowCaller: a caller that takes nothing keeps neither the others nor its own answer.
func TestSlowCaller(t *testing.T) {
	t.Parallel()
	_, set := file(t, started(script("plain")), nil)
	u := set.Get("up")
	release := make(chan struct{})
	r := callTool("flood", `{}`)
	r.Params = json.RawMessage(`{"name":"flood","_meta":{"progressToken":1}}`)
	r.Caller = &front{tell: func(string, json.RawMessage) { <-release }}
	ended := make(chan error, 1)
	go func() {
		_, err := u.Call(within(t, patience), r)
		ended <- err
	}()
	if got := ask(t, u, callTool("echo", `{"text":"other"}`)); !strings.Contains(got, "other") {
		t.Errorf("got %s", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(release)
}

// TestNotices: what belongs to no call goes to the front, and a changed list is read again.
func TestNotices(t *testing.T) {
	t.Parallel()
	notices := make(chan *Notice, 16)
	_, set := file(t, started(script("plain")), &Options{Notify: func(n *Notice) { notices <- n }})
	u := set.Get("up")
	tools, err := u.Tools(within(t, patience), nil)
	if err != nil || len(tools) != 1 || tools[0].Name != "echo" {
		t.Fatalf("got %v, %v, want one tool", tools, err)
	}
	ask(t, u, callTool("changed", `{}`))
	for n := range notices {
		if n.Method == wire.NotifyToolsChanged {
			if n.Server != "up" || n.Session != "" {
				t.Errorf("got %+v, want one for everybody", n)
			}
			break
		}
	}
	if s, err := u.acquire(t.Context(), nil); err != nil || s.tools.counts() {
		t.Errorf("the list still counts, or %v", err)
	}
	if err := u.Notify(within(t, patience), nil, wire.NotifyRootsChanged, nil); err != nil {
		t.Fatal(err)
	}
	for n := range notices {
		if strings.Contains(string(n.Params), wire.NotifyRootsChanged) {
			break
		}
	}
}

// TestCallerOfAnEffect: the caller's keys go along with an effect, behind those that are
// stored with it, and its questions find the caller through the context.
func TestCallerOfAnEffect(t *testing.T) {
	t.Parallel()
	f, _ := file(t, started(script("plain"), "tools:\n  up/meta:\n    upstream: up\n    class: unsafe\n    identity: none\n    marker: {carrier: meta, name: example.com/key}\n"), nil)
	client := &Client{Session: "ana", Capabilities: json.RawMessage(elicits)}
	caller := answering("ana")
	caller.meta = wire.Object{
		{Name: "claudecode/toolUseId", Value: wire.Quote("t1")}, {Name: "example.com/key", Value: wire.Quote("forged")},
		{Name: wire.MetaVersion, Value: wire.Quote("x")},
	}
	ctx := WithCaller(within(t, patience), client, caller)
	e := send(t, ctx, port(t, f, "up/meta"), `{}`)
	got := strings.ReplaceAll(string(e.Result), `\`, "")
	if e.Class != pawl.ClassSucceeded || !strings.Contains(got, `"claudecode/toolUseId":"t1"`) || strings.Contains(got, "forged") ||
		!strings.Contains(got, `"example.com/key":"01020300000000000000000000000000"`) {
		t.Errorf("got %s %s, want the caller's keys and ours", e.Class, got)
	}
	e = send(t, ctx, port(t, f, "up/ask"), `{"text":"sure?"}`)
	if got := strings.ReplaceAll(string(e.Result), `\`, ""); !strings.Contains(got, `"by":"ana"`) {
		t.Errorf("got %s %s, want the caller's answer", e.Class, got)
	}
}
