package pawl_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// choosing is a port whose contract depends on the arguments.
type choosing struct {
	*provider
	own string
}

func (c *choosing) Select(args json.RawMessage) (string, json.RawMessage) {
	switch {
	case strings.Contains(string(args), "broken"):
		panic("select")
	case strings.Contains(string(args), "nobody"):
		return "not registered", args
	case strings.Contains(string(args), "inner"):
		return "refund", json.RawMessage(`{"order_id":"A"}`)
	}
	return c.own, args
}

// TestThePortChoosesTheContract: a call becomes one of the tool that its port chooses, for a
// lookup too, and a tool that is not there is refused.
func TestThePortChoosesTheContract(t *testing.T) {
	play(t, nil, func(h *house) {
		ex := h.executor(nil)
		c := h.contract
		c.Tool, c.Identity, c.IdentityAll, c.Free = "any", nil, true, nil
		c.Class, c.Retention, c.Probe = pawl.Unsafe, 0, nil
		if err := ex.Register(&pawl.Tool{Contract: c, Port: &choosing{h.provider, "any"}}); err != nil {
			t.Fatal(err)
		}
		wrapped := call(func(c *pawl.Call) { c.Tool, c.Args = "any", json.RawMessage(`{"inner":1}`) })
		h.want(h.do(ex, wrapped), "SUCCEEDED confirmed executed", 1)
		if op := h.operation(); op.Tool != "refund" || string(op.Args) != `{"order_id":"A"}` {
			t.Errorf("got an operation of %s with %s", op.Tool, op.Args)
		}
		op, err := ex.Lookup(context.Background(), wrapped)
		if err != nil || op.Tool != "refund" {
			t.Errorf("lookup: got %v, %v", op, err)
		}
		// The same effect asked for by its own name is the same operation.
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Args = json.RawMessage(`{"order_id":"A"}`) })), "SUCCEEDED * replayed", 1)
		nobody := call(func(c *pawl.Call) { c.Tool, c.Args = "any", json.RawMessage(`{"nobody":1}`) })
		h.want(h.do(ex, nobody), "FAILED_NO_EFFECT unknown_tool refused", 1)
		broken := call(func(c *pawl.Call) { c.Tool, c.Args = "any", json.RawMessage(`{"broken":1}`) })
		h.want(h.do(ex, broken), "FAILED_NO_EFFECT unknown_tool refused", 1)
		// A plan names the tool that is called.
		if _, err := ex.RegisterPlan(context.Background(), "", "", "run-2", []pawl.PlanStep{{Step: "1", Tool: "any"}}); err != nil {
			t.Fatal(err)
		}
		planned := call(func(c *pawl.Call) { c.Tool, c.Run, c.Args = "any", "run-2", json.RawMessage(`{"inner":1}`) })
		h.want(h.do(ex, planned), "SUCCEEDED confirmed executed", 2)
		own := call(func(c *pawl.Call) { c.Tool, c.Args, c.Step = "any", json.RawMessage(`{"x":1}`), "2" })
		h.want(h.do(ex, own), "SUCCEEDED confirmed executed", 3)
	})
}
