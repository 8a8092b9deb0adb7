package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// scripted is a modern upstream that answers what a test says, raw.
func scripted(t *testing.T, answer func(method string, params object) string) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
			Params object
		}
		if err != nil || json.Unmarshal(text, &m) != nil || len(m.ID) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		body := answer(m.Method, m.Params)
		if m.Method == wire.MethodDiscover && body == "" {
			body = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"raw","version":"1"},"ttlMs":0,"cacheScope":"private"}`
		}
		if body == "" {
			w.WriteHeader(http.StatusNotFound)
			body = `"error":{"code":-32601,"message":"no such method"}`
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, body)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestUnknownFieldsSurvive: what nobody here knows passes in both directions, for reads and
// for effects; only what the gateway adds is different.
func TestUnknownFieldsSurvive(t *testing.T) {
	t.Parallel()
	const (
		entry  = `{"name":"%s","inputSchema":{"type":"object","x-future":[1]},"execution":{"taskSupport":"optional"},"x-new":{"a":12345678901234567890}}`
		result = `{"content":[{"type":"text","text":"hi","annotations":{"x":1},"x":1.10}],"structuredContent":{"n":12345678901234567890},"x-extra":[null,1e400],"resultType":"complete","_meta":{"shop/x":1}}`
	)
	var mu sync.Mutex
	got := map[string]object{}
	url := scripted(t, func(method string, params object) string {
		mu.Lock()
		defer mu.Unlock()
		switch method {
		case wire.MethodListTools:
			return `"result":{"tools":[` + fmt.Sprintf(entry, "look") + "," + fmt.Sprintf(entry, "do") + `],"resultType":"complete","ttlMs":5,"cacheScope":"public"}`
		case wire.MethodCallTool:
			got[params["name"].(string)] = params
			return `"result":` + result
		case wire.MethodListPrompts:
			return `"result":{"prompts":[{"name":"p","x-new":1}],"x-extra":1,"resultType":"complete","ttlMs":7,"cacheScope":"public"}`
		}
		return ""
	})
	f := serve(t, upstreamAt("shop", url, "")+"tools:\n  shop/look: {upstream: shop, class: read}\n", nil)
	c := rawClient(t, f.url)

	_, list := c.modern(wire.MethodListTools, nil)
	tools := member(list, "result", "tools").([]any)
	if len(tools) != 3 || member(tools[2], "name") != "pawl_status" {
		t.Fatalf("got %d tools, want two and pawl_status: %v", len(tools), list)
	}
	for i, name := range []string{"look", "do"} {
		want := numbers(t, fmt.Appendf(nil, entry, name))
		if diff := cmp.Diff(want, tools[i]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, name := range []string{"look", "do"} {
		status, messages, err := c.post(t.Context(), `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"`+name+`","arguments":{"n":1.50},"x-param":7,"_meta":`+
			encode(t, object{wire.MetaVersion: wire.Version20260728, wire.MetaCapabilities: object{}, "shop/trace": "x", "dev.pawl/step": "1"})+`}}`,
			wire.HeaderVersion, wire.Version20260728, wire.HeaderMethod, wire.MethodCallTool, wire.HeaderName, name)
		if err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d, %v", name, status, err)
		}
		r := messages[len(messages)-1]["result"].(object)
		want := numbers(t, []byte(result)).(object)
		for _, part := range []string{"content", "structuredContent", "x-extra", "resultType"} {
			if diff := cmp.Diff(want[part], r[part]); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		if member(r, "_meta", "shop/x") != json.Number("1") {
			t.Errorf("%s: got the _meta %v, want the upstream's own kept", name, r["_meta"])
		}
		mu.Lock()
		sent := got[name]
		mu.Unlock()
		if member(sent, "_meta", "shop/trace") != "x" {
			t.Errorf("%s: the upstream got the _meta %v, want the caller's keys", name, sent["_meta"])
		}
		if _, there := sent["_meta"].(object)["dev.pawl/step"]; there {
			t.Errorf("%s: the upstream got what was for pawl", name)
		}
	}
	if member(got["look"], "x-param") != 7.0 {
		t.Errorf("look: the upstream got %v, want the caller's own members", got["look"])
	}
	_, prompts := c.modern(wire.MethodListPrompts, nil)
	if member(prompts, "result", "x-extra") != json.Number("1") || member(prompts, "result", "ttlMs") != json.Number("7") || member(prompts, "result", "cacheScope") != "public" {
		t.Errorf("got %v, want the upstream's own list", prompts)
	}
}

// TestSeveralUpstreams: one door has them all, with their names before those of their tools
// and prompts; resources are found by their URI; and each has a door of its own.
func TestSeveralUpstreams(t *testing.T) {
	t.Parallel()
	one := func(name string) string {
		s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{Instructions: "be kind to " + name})
		s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Description: "from " + name}, nil
		})
		s.AddResource(&mcp.Resource{URI: "file:///" + name, Name: name}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "file:///" + name, Text: "of " + name}}}, nil
		})
		mcp.AddTool(s, &mcp.Tool{Name: "whoami"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name}}}, nil, nil
		})
		return fmt.Sprintf("  %s: {url: %q, mcp: {}}\n", name, sdkServer(t, s, false))
	}
	f := serve(t, "upstreams:\n"+one("ana")+one("ben"), nil)
	for _, version := range eras {
		t.Run(version, func(t *testing.T) {
			c := connect(t, f.url, version, nil)
			tools, err := c.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
			}
			if want := []string{"ana__whoami", "ben__whoami", "pawl_status"}; !slices.Equal(names, want) {
				t.Errorf("got %v, want %v", names, want)
			}
			if text := c.InitializeResult().Instructions; !strings.Contains(text, "be kind to ana") || !strings.Contains(text, "be kind to ben") || !strings.HasSuffix(text, pawl.SystemPrompt) {
				t.Errorf("got the instructions %q, want those of both, and the rule", text)
			}
			prompt, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "ben__greet"})
			if err != nil || prompt.Description != "from ben" {
				t.Errorf("got %v, %v", prompt, err)
			}
			resource, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file:///ben"})
			if err != nil || resource.Contents[0].Text != "of ben" {
				t.Errorf("got %v, %v", resource, err)
			}
			r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "ben__whoami"})
			if err != nil || r.Content[0].(*mcp.TextContent).Text != "ben" {
				t.Errorf("got %v, %v", r, err)
			}
			alone := connect(t, f.url+"/ana", version, nil)
			if r, err := alone.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"}); err != nil || r.Content[0].(*mcp.TextContent).Text != "ana" {
				t.Errorf("got %v, %v", r, err)
			}
		})
	}
}

// TestQuestionsCrossTheEras: an upstream of one era asks the user of a client of the other,
// in a read and in an effect; the effect happens once.
func TestQuestionsCrossTheEras(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		client   string
		sessions bool // the upstream has sessions: it is legacy alone
	}{
		{wire.Version20251125, true}, {wire.Version20251125, false}, {wire.Version20260728, true}, {wire.Version20260728, false},
	} {
		for _, declared := range []string{"", "tools:\n  shop/ask: {upstream: shop, class: read}\n"} {
			t.Run(fmt.Sprintf("%s to sessions %v, declared %v", c.client, c.sessions, declared != ""), func(t *testing.T) {
				t.Parallel()
				s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
				var mu sync.Mutex
				ended := 0
				question := &mcp.ElicitParams{Message: "which colour?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"colour":{"type":"string"}},"required":["colour"]}`)}
				s.AddTool(&mcp.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					var answer *mcp.ElicitResult
					if c.sessions {
						var err error
						if answer, err = r.Session.Elicit(ctx, question); err != nil {
							return nil, err
						}
					} else if given, ok := r.Params.InputResponses["colour"].(*mcp.ElicitResult); ok {
						answer = given
					} else {
						return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"colour": question}, RequestState: "s1"}, nil
					}
					mu.Lock()
					defer mu.Unlock()
					ended++
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(answer.Content["colour"])}}}, nil
				})
				terms := "era: modern"
				if c.sessions {
					terms = "era: legacy"
				}
				f := serve(t, upstreamAt("shop", sdkServer(t, s, c.sessions), terms)+declared, nil)
				asked := 0
				session := person(t, f.url, c.client, func(string) *mcp.ElicitResult {
					mu.Lock()
					defer mu.Unlock()
					asked++
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"colour": "blue"}}
				})
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "ask"})
				if err != nil {
					t.Fatal(err)
				}
				if text := r.Content[0].(*mcp.TextContent).Text; text != "blue" {
					t.Errorf("got %q, want what the user said", text)
				}
				mu.Lock()
				defer mu.Unlock()
				if asked != 1 || ended != 1 {
					t.Errorf("asked %d times and done %d times, want once", asked, ended)
				}
			})
		}
	}
}
