package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// sdkServer is a server of the SDK: a tool that works, one that asks first, and one that
// tells how far it is.
func sdkServer(effects *atomic.Int64) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{Instructions: "be good"})
	type order struct {
		ID string `json:"id"`
	}
	text := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "order"}, func(_ context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
		return text("order %s is number %d", in.ID, effects.Add(1)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "confirm"}, func(_ context.Context, r *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
		answer, ok := r.Params.InputResponses["sure"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{RequestState: "state of " + in.ID, InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{
				Mode: "form", Message: "order " + in.ID + "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
			}}}, nil, nil
		}
		if answer.Action != "accept" {
			return text("not ordered"), nil, nil
		}
		return text("order %s is number %d, %s", in.ID, effects.Add(1), r.Params.RequestState), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, r *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)})
		}
		return text("done"), nil, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "hello"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}}, nil
	})
	return s
}

// TestSDKServers: the SDK's own servers take what is sent, in each era and over each
// transport: an effect, one that asks first, progress, and what is not a tool.
func TestSDKServers(t *testing.T) {
	t.Parallel()
	var effects atomic.Int64
	serve := func(o *mcp.StreamableHTTPOptions) string {
		s := sdkServer(&effects)
		web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, o))
		t.Cleanup(func() {
			web.CloseClientConnections()
			web.Close()
		})
		return reached(web.URL)
	}
	for name, c := range map[string]struct {
		yaml string
		era  wire.Era
	}{
		"stdio, legacy client":      {started(script("sdk")), wire.Legacy},
		"stdio, modern client":      {started(script("sdk")), wire.Modern},
		"stateful":                  {serve(nil), wire.Legacy},
		"stateful, modern client":   {serve(nil), wire.Modern},
		"stateful, JSON":            {serve(&mcp.StreamableHTTPOptions{JSONResponse: true}), wire.Legacy},
		"stateless":                 {serve(&mcp.StreamableHTTPOptions{Stateless: true}), wire.Modern},
		"stateless, legacy client":  {serve(&mcp.StreamableHTTPOptions{Stateless: true}), wire.Legacy},
		"stateless, JSON responses": {serve(&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}), wire.Modern},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, set := file(t, c.yaml, nil)
			u := set.Get("up")
			client := &Client{Session: "ana", Era: c.era, Info: json.RawMessage(`{"name":"ana","version":"1"}`), Capabilities: json.RawMessage(`{"elicitation":{"form":{}}}`)}
			var mu sync.Mutex
			var asked, told []string
			caller := &front{
				meta: wire.Object{{Name: wire.MetaProgressToken, Value: wire.Quote("mine")}},
				ask: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error) {
					mu.Lock()
					defer mu.Unlock()
					asked = append(asked, method+string(params))
					return json.RawMessage(`{"action":"accept","content":{}}`), nil
				},
				input: func(_ context.Context, result json.RawMessage) (json.RawMessage, error) {
					mu.Lock()
					defer mu.Unlock()
					asked = append(asked, string(result))
					return json.RawMessage(`{"sure":{"action":"accept","content":{}}}`), nil
				},
				tell: func(method string, params json.RawMessage) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, string(params))
				},
			}
			ctx := WithCaller(within(t, patience), client, caller)
			tools, err := u.Tools(ctx, client)
			if err != nil || len(tools) != 3 {
				t.Fatalf("got %d tools, %v, want 3", len(tools), err)
			}
			if e := send(t, ctx, port(t, f, "up/order"), `{"id":"A-1"}`); e.Class != pawl.ClassSucceeded || !strings.Contains(string(e.Result), "order A-1 is number") {
				t.Errorf("order: got %s %s %s %s", e.Class, e.Proof, e.Error, e.Result)
			}
			if name != "stateless, legacy client" { // that one says itself that it cannot ask
				e := send(t, ctx, port(t, f, "up/confirm"), `{"id":"A-2"}`)
				if e.Class != pawl.ClassSucceeded || !strings.Contains(string(e.Result), "state of A-2") {
					t.Errorf("confirm: got %s %s %s %s", e.Class, e.Proof, e.Error, e.Result)
				}
				if len(asked) != 1 || !strings.Contains(asked[0], "order A-2?") {
					t.Errorf("confirm: got %q, want one question", asked)
				}
			}
			if e := send(t, ctx, port(t, f, "up/slow"), `{"id":"A-3"}`); e.Class != pawl.ClassSucceeded {
				t.Errorf("slow: got %s %s %s", e.Class, e.Proof, e.Error)
			}
			mu.Lock()
			if !strings.Contains(name, "JSON") && (len(told) < 2 || !strings.Contains(told[0], `"progressToken":"mine"`)) { // the last may be lost, as the SDK says
				t.Errorf("slow: got %q, want progress under the caller's token", told)
			}
			mu.Unlock()
			if got := ask(t, u, &Request{Method: wire.MethodGetPrompt, Params: json.RawMessage(`{"name":"hello"}`), Client: client}); !strings.Contains(got, `"hi"`) {
				t.Errorf("prompt: got %s", got)
			}
			if d, err := u.Describe(ctx, client); err != nil || d.Instructions != "be good" || !strings.Contains(string(d.Info), `"sdk"`) {
				t.Errorf("got %+v %v, want what the server says of itself", d, err)
			}
		})
	}
}
