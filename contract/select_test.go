package contract

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

const casesFile = `version: 1
upstreams:
  git:
    mcp: {command: [git-mcp]}
tools:
  git/issue_write:
    upstream: git
    when:
      create:
        if: args.method == 'create'
        identity: [title]
        key: {carrier: argument, name: token}
        class: keyed
        retention: 1d
      read: {if: "args.method == 'read' || args.method == 'both'", class: read}
      close: {if: "args.method == 'close' || args.method == 'both'", identity: [number], effect: "close {number}"}
  git/mixed:
    upstream: git
    when:
      x: {if: args.x == 1, class: read}
      y: {if: args.y == 1, identity: none}
  git/call_tool:
    upstream: git
    unwrap:
      name: /tool/name
      arguments: /tool/arguments
      tools:
        send:
          identity: [to]
          probe: {call: {tool: find, args: {who: args.to}}, by: key, match: "response.body.filter(m, m.key == key)"}
          key: {carrier: argument, name: /meta/token}
          class: keyed
        list: {class: read}
  git/call_text:
    upstream: git
    call: {tool: run, args: {name: args.name, arguments: args.arguments, extra: "'x'"}}
    unwrap:
      name: /name
      arguments: /arguments
      as: text
      tools:
        send: {identity: [to]}
`

// caseTools are the tools of casesFile by name.
func caseTools(t *testing.T, c *client) map[string]pawl.Tool {
	t.Helper()
	f := mustParse(t, casesFile, nil)
	f.UseMCP(c)
	list, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	tools := map[string]pawl.Tool{}
	for _, tool := range list {
		tools[tool.Contract.Tool] = tool
	}
	return tools
}

func TestSelect(t *testing.T) {
	t.Parallel()
	tools := caseTools(t, &client{})
	for _, c := range []struct{ tool, args, want, own string }{
		{"git/issue_write", `{"method":"create","title":"x"}`, "git/issue_write.create", ""},
		{"git/issue_write", `{"method":"read"}`, "git/issue_write.read", ""},
		{"git/issue_write", `{"method":"both"}`, "git/issue_write", ""}, // several hold
		{"git/issue_write", `{"method":"CREATE"}`, "git/issue_write", ""},
		{"git/issue_write", `{"method":7}`, "git/issue_write", ""},
		{"git/issue_write", `{}`, "git/issue_write", ""}, // no condition can be evaluated
		{"git/issue_write", ``, "git/issue_write", ""},
		{"git/issue_write", `[`, "git/issue_write", ""},
		{"git/issue_write", `{"method":"read","method":"create"}`, "git/issue_write", ""},
		{"git/issue_write", `{"method":"read","Method":"create"}`, "git/issue_write", ""},
		{"git/mixed", `{"x":1,"y":2}`, "git/mixed.x", ""},
		{"git/mixed", `{"x":1}`, "git/mixed", ""}, // whether y holds is not known
		// Who names a case meets its condition all the same.
		{"git/issue_write.read", `{"method":"read"}`, "git/issue_write.read", ""},
		{"git/issue_write.read", `{"method":"create"}`, "git/issue_write.create", ""},
		{"git/issue_write.read", `{"method":"delete"}`, "git/issue_write", ""},

		{"git/call_tool", `{"tool":{"name":"send","arguments":{"to":"a","n":1.50}}}`, "git/call_tool.send", `{"n":1.50,"to":"a"}`},
		{"git/call_tool", `{"tool":{"name":"list","arguments":{}}}`, "git/call_tool.list", `{}`},
		{"git/call_tool", `{"tool":{"name":"drop","arguments":{}}}`, "git/call_tool", ""},
		{"git/call_tool", `{"tool":{"name":"","arguments":{}}}`, "git/call_tool", ""},
		{"git/call_tool", `{"tool":{"name":"list"}}`, "git/call_tool", ""},
		{"git/call_tool", `{"tool":{"name":"list","arguments":"{}"}}`, "git/call_tool", ""},
		{"git/call_tool", `{"tool":{"name":"list","arguments":[]}}`, "git/call_tool", ""},
		{"git/call_tool", `{"tool":{"name":"list","arguments":{},"dry_run":false}}`, "git/call_tool", ""}, // what it means is not known
		{"git/call_tool", `{"tool":{"name":"list","arguments":{}},"then":"drop"}`, "git/call_tool", ""},
		{"git/call_tool.send", `{"to":"a"}`, "git/call_tool.send", `{"to":"a"}`},

		{"git/call_text", `{"name":"send","arguments":"{ \"to\": \"a\" }"}`, "git/call_text.send", `{"to":"a"}`},
		{"git/call_text", `{"name":"send","arguments":{"to":"a"}}`, "git/call_text", ""},
		{"git/call_text", `{"name":"send","arguments":"{\"to\":\"a\",\"to\":\"b\"}"}`, "git/call_text", ""},
		{"git/call_text", `{"name":"send","arguments":"[]"}`, "git/call_text", ""},
		{"git/call_text", `{"name":"send","arguments":"{"}`, "git/call_text", ""},
	} {
		name, own := tools[c.tool].Port.(pawl.Selector).Select(json.RawMessage(c.args))
		if want := c.own; want == "" {
			c.own = c.args
		}
		if name != c.want || string(own) != c.own {
			t.Errorf("%s %s: got %s %s, want %s %s", c.tool, c.args, name, own, c.want, c.own)
		}
	}
}

// FuzzSelect: whatever the arguments are, a contract that reads is chosen only by
// those that its condition or name allows.
func FuzzSelect(f *testing.F) {
	f.Add("git/issue_write", []byte(`{"method":"both"}`))
	f.Add("git/call_tool", []byte(`{"tool":{"name":"list","arguments":{}}}`))
	f.Add("git/call_text", []byte(`{"name":"send","arguments":"{}"}`))
	file, err := Parse("pawl.yaml", []byte(casesFile), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		for _, tool := range file.tools {
			if tool.contract.Tool != name {
				continue
			}
			chosen, _ := tool.Select(raw)
			if chosen != "git/issue_write.read" && chosen != "git/call_tool.list" || chosen == name && tool.inner != "" {
				continue
			}
			v, err := pawl.ParseJSON(raw)
			if err != nil {
				t.Fatalf("%s is chosen by what is no JSON", chosen)
			}
			if chosen == "git/issue_write.read" && atPointer(v, []string{"method"}) != "read" {
				t.Fatalf("%s is chosen by %s", chosen, raw)
			}
			if chosen == "git/call_tool.list" && atPointer(v, []string{"tool", "name"}) != "list" {
				t.Fatalf("%s is chosen by %s", chosen, raw)
			}
		}
	})
}

// TestInnerToolsAreSentWrapped: the server gets the call of the tool around, with the key
// among the inner arguments; everything else sees the inner ones.
func TestInnerToolsAreSentWrapped(t *testing.T) {
	t.Parallel()
	c := &client{}
	c.answer = func(call *MCPCall) *MCPAnswer {
		if call.Tool == "find" {
			return result(`{"content":[],"structuredContent":[]}`)
		}
		return result(`{"content":[{"type":"text","text":"done"}]}`)
	}
	tools := caseTools(t, c)
	tool := tools["git/call_tool.send"]
	op := begin(t, tool, `{"to":"a","n":1.50}`)
	if e := send(t, tool, op); e.Class != pawl.ClassSucceeded {
		t.Fatalf("got %s %s", e.Class, e.Error)
	}
	want := `{"arguments":{"tool":{"arguments":{"meta":{"token":"` + op.Key.String() + `"},"n":1.50,"to":"a"},"name":"send"}},"name":"call_tool"}`
	if got := string(c.calls[0].Params); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if r := probeOf(t, tool, op); r.Outcome != pawl.Absent {
		t.Errorf("got %s %s", r.Outcome, r.Error)
	}
	if got, want := string(c.calls[1].Params), `{"arguments":{"who":"a"},"name":"find"}`; got != want {
		t.Errorf("the probe: got %s\nwant %s", got, want)
	}
	tool = tools["git/call_text.send"]
	op = begin(t, tool, `{"to":"a"}`)
	send(t, tool, op)
	want = `{"arguments":{"arguments":"{\"to\":\"a\"}","extra":"x","name":"send"},"name":"run"}`
	if got := string(c.calls[2].Params); got != want {
		t.Errorf("as text: got %s\nwant %s", got, want)
	}
}

// TestCasesInTheFile: what a case takes from its tool, what is pinned, and what is hidden.
func TestCasesInTheFile(t *testing.T) {
	t.Parallel()
	f := mustParse(t, casesFile, nil)
	for _, own := range f.tools {
		again, err := Parse("pinned", []byte(own.contract.Source), nil)
		if err != nil {
			t.Errorf("%s: the pinned text: %v\n%s", own.contract.Tool, err, own.contract.Source)
			continue
		}
		i := 0
		for i < len(again.tools) && again.tools[i].contract.Tool != own.contract.Tool {
			i++
		}
		if i == len(again.tools) || again.tools[i].contract.Hash() != own.contract.Hash() {
			t.Errorf("%s: its pinned text does not give the same contract", own.contract.Tool)
		}
	}
	got := f.MCPTools("git")
	want := []MCPTool{
		{Name: "git/issue_write", Tool: "issue_write", Class: pawl.Unsafe, Hidden: []string{"/token"}},
		{Name: "git/mixed", Tool: "mixed", Class: pawl.Unsafe},
		{Name: "git/call_tool", Tool: "call_tool", Class: pawl.Unsafe, Hidden: []string{"/tool/arguments/meta/token"}},
		{Name: "git/call_text", Tool: "run", Class: pawl.Unsafe},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MCP tools (-want +got):\n%s", diff)
	}
}

// TestCallsOfCases plays calls of one tool through an executor: each under the contract that
// its arguments choose.
func TestCallsOfCases(t *testing.T) {
	t.Parallel()
	c := &client{answer: func(*MCPCall) *MCPAnswer { return result(`{"content":[{"type":"text","text":"done"}]}`) }}
	store := storetest.NewMemory()
	defer store.Close()
	ex := pawl.New(store, nil)
	defer ex.Stop(context.Background())
	for _, tool := range caseTools(t, c) {
		if err := ex.Register(&tool); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range []struct {
		tool, args, effect string
		action             pawl.ActionTaken
		sent               int
	}{
		{"git/issue_write", `{"method":"close","number":7}`, "close 7", pawl.Executed, 1},
		{"git/issue_write", `{"number":7,"method":"close"}`, "close 7", pawl.Replayed, 1},
		{"git/issue_write", `{"method":"read"}`, "", pawl.Executed, 2},
		{"git/issue_write", `{"method":"read"}`, "", pawl.Executed, 3}, // a read is never replayed
		{"git/issue_write", `{"method":"CLOSE","number":7}`, "git/issue_write", pawl.Executed, 4},
		{"git/issue_write", `{"method":"CLOSE","number":7}`, "git/issue_write", pawl.Replayed, 4},
		{"git/call_tool", `{"tool":{"name":"send","arguments":{"to":"a"}}}`, "", pawl.Executed, 5},
		{"git/call_tool", `{"tool":{"arguments":{"to":" a "},"name":"send"}}`, "", pawl.Replayed, 5},
	} {
		env, err := ex.Do(t.Context(), pawl.Call{Tool: call.tool, Run: "run-7", Args: json.RawMessage(call.args)})
		if err != nil {
			t.Fatal(err)
		}
		if env.Status != pawl.Succeeded || env.ActionTaken != call.action || len(c.calls) != call.sent {
			t.Errorf("%s %s: got %s %s with %d calls sent, want %s with %d: %s", call.tool, call.args, env.Status, env.ActionTaken, len(c.calls), call.action, call.sent, env.Message)
		}
	}
}
