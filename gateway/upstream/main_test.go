package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/gateway/wire"
	"github.com/pawl-dev/pawl/internal/mcptest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == scriptWord {
		playScript(os.Args[2])
		os.Exit(0)
	}
	mcptest.Run(m)
}

// patience bounds every wait of a test.
const patience = 20 * time.Second

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// quiet drops what a set logs.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// file reads a contract file with one upstream, "up", and opens its servers.
func file(t *testing.T, yaml string, o *Options) (*contract.File, *Set) {
	t.Helper()
	f, err := contract.Parse("pawl.yaml", []byte(yaml), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o == nil {
		o = &Options{}
	}
	if o.Log == nil {
		o.Log = quiet
	}
	s, err := Open(f.MCPServers(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	f.UseMCP(s)
	return f, s
}

// started declares a child.
func started(command []string, more ...string) string {
	text, err := json.Marshal(command)
	if err != nil {
		panic(err)
	}
	return "version: 1\nupstreams:\n  up:\n    mcp:\n      command: " + string(text) + "\n" + strings.Join(more, "")
}

// reached declares a server at a URL.
func reached(url string, more ...string) string {
	return "version: 1\nupstreams:\n  up:\n    url: " + url + "\n    mcp:\n      undeclared: unsafe\n" + strings.Join(more, "")
}

// port is the port of a tool: a declared one, or one that is not.
func port(t *testing.T, f *contract.File, name string) pawl.Tool {
	t.Helper()
	tools, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if tool.Contract.Tool == name {
			return tool
		}
	}
	tool, err := f.Undeclared("up", strings.TrimPrefix(name, "up/"))
	if err != nil {
		t.Fatal(err)
	}
	return *tool
}

// operation is what the executor would have on record before it sends.
func operation(t *testing.T, tool pawl.Tool, args string) (*pawl.Operation, error) {
	t.Helper()
	v, err := pawl.ParseJSON([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := pawl.AppendJSON(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	key := pawl.Key{1, 2, 3}
	out, err := tool.Port.Prepare(&pawl.Invocation{
		Tool: tool.Contract.Tool, Args: v.(map[string]any), Canonical: canonical, Key: key, Permit: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	c := tool.Contract
	return &pawl.Operation{Intent: pawl.Intent{
		ID: pawl.NewID(time.Now()), Tool: c.Tool, Args: canonical, Identity: json.RawMessage("{}"), Key: key, Request: out.Request,
		Contract: &c, Created: time.Now(),
	}}, nil
}

// send makes one attempt of a tool.
func send(t *testing.T, ctx context.Context, tool pawl.Tool, args string) pawl.Evidence {
	t.Helper()
	op, err := operation(t, tool, args)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Port.Send(ctx, &pawl.Sending{Operation: op, Attempt: 1, Permit: time.Now(), Deadline: time.Now().Add(patience)})
}

// ask makes one request that has a result.
func ask(t *testing.T, u *Upstream, r *Request) string {
	t.Helper()
	a, err := u.Call(within(t, patience), r)
	if err != nil {
		t.Fatalf("%s: %v", r.Method, err)
	}
	if a.Error != nil {
		t.Fatalf("%s: %v", r.Method, a.Error)
	}
	return string(a.Result)
}

func callTool(name, args string) *Request {
	return &Request{Method: wire.MethodCallTool, Params: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))}
}

// fixtures are an upstream in each era and over each transport.
func fixtures(t *testing.T) map[string]func() (*mcptest.Upstream, string) {
	t.Helper()
	list := map[string]func() (*mcptest.Upstream, string){}
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		list["stdio "+string(era)] = func() (*mcptest.Upstream, string) {
			u := mcptest.NewStdio(t, era)
			return u, started(u.Command())
		}
		list["http "+string(era)] = func() (*mcptest.Upstream, string) {
			u := mcptest.NewHTTP(t, era)
			return u, reached(u.URL())
		}
	}
	return list
}
