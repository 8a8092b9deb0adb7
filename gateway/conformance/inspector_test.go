package conformance

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

// orders declares the tools of mcptest's upstream. A note is one to a customer; every other
// argument of it is free.
const orders = `tools:
  orders/echo: {upstream: orders, class: read}
  orders/find_orders: {upstream: orders, class: read}
  orders/place_order: {upstream: orders, identity: [order_id], free: [note], effect: "order {order_id}"}
  orders/send_note: {upstream: orders, identity: [to], free: [text], effect: "note to {to}"}
`

func ordersFile(t *testing.T, upstream string) string {
	t.Helper()
	return write(t, t.TempDir(), "pawl.yaml", "version: 1\nstore: pawl.db\nupstreams:\n  orders:\n"+upstream+orders)
}

// TestInspector: the Inspector lists and calls tools through the gateway on stdio and over
// HTTP in both eras, and its load mode makes 200 calls, 10 at once, without an error.
func TestInspector(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(string(era)+"/"+transport, func(t *testing.T) {
				t.Parallel()
				var upstream *mcptest.Upstream
				var server map[string]any
				if transport == "stdio" {
					upstream = mcptest.NewStdio(t, era)
					words := mcptest.Wrap(t, ordersFile(t, overStdio(upstream.Command()...)), upstream.Command())
					server = map[string]any{"command": words[0], "args": words[1:]}
				} else {
					upstream = mcptest.NewHTTP(t, era)
					gateway := mcptest.Serve(t, ordersFile(t, overHTTP(upstream.URL())))
					server = map[string]any{"type": "streamable-http", "url": gateway.URL + "/mcp"}
				}
				i := inspector{server, era}

				var list struct{ Tools []struct{ Name string } }
				i.ask(t, &list, "--method", "tools/list")
				for _, want := range []string{"echo", "find_orders", "place_order", "send_note", "pawl_status"} {
					if !slices.ContainsFunc(list.Tools, func(tool struct{ Name string }) bool { return tool.Name == want }) {
						t.Errorf("got tools %v, want %s among them", list.Tools, want)
					}
				}
				var echo struct{ Content []struct{ Text string } }
				i.ask(t, &echo, "--method", "tools/call", "--tool-name", "echo", "--tool-args-json", `{"text":"héllo"}`)
				if len(echo.Content) != 1 || echo.Content[0].Text != "héllo" {
					t.Errorf("got %+v, want the text back", echo)
				}
				i.ask(t, &echo, "--method", "tools/call", "--tool-name", "place_order", "--tool-args-json", `{"order_id":"A-1","sku":"tea"}`)
				i.load(t, "echo", `{"text":"x"}`)
				i.load(t, "send_note", `{"to":"ann","text":"hello"}`)
				if n := len(upstream.Effects(t)); n != 2 {
					t.Errorf("got %d effects, want 2: an order, and a note that was asked for 200 times", n)
				}
				if n := len(upstream.Calls(t, "echo")); n != 201 {
					t.Errorf("got %d reads, want 201", n)
				}
			})
		}
	}
}

type inspector struct {
	server map[string]any
	era    mcptest.Era
}

// ask runs the Inspector once and reads the result that it prints.
func (i inspector) ask(t *testing.T, result any, args ...string) {
	t.Helper()
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"pawl": i.server}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := module(t, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	out, code := run(t, append([]string{
		program, "--cli", "--config", write(t, dir, "mcp.json", string(config)), "--server", "pawl",
		"--protocol-era", string(i.era), "--format", "json",
	}, args...)...)
	if code != 0 {
		t.Fatalf("the Inspector ended with code %d: %s", code, out)
	}
	if err := json.Unmarshal([]byte(out), &struct{ Result any }{result}); err != nil {
		t.Fatalf("the Inspector says %q: %v", out, err)
	}
}

func (i inspector) load(t *testing.T, tool, args string) {
	t.Helper()
	var sum struct {
		Requests, OK, ToolErrors, Errors int
		Throughput                       float64
		LatencyMS                        struct{ P50, P99 float64 }
		ErrorMessages                    []any
	}
	i.ask(t, &sum, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", args,
		"--load", "--load-requests", "200", "--load-concurrency", "10")
	if sum.Requests != 200 || sum.OK != 200 {
		t.Errorf("%s: got %+v, want 200 calls without an error", tool, sum)
	}
	t.Logf("%s: %.0f calls/s, p50 %.1f ms, p99 %.1f ms", tool, sum.Throughput, sum.LatencyMS.P50, sum.LatencyMS.P99)
}
