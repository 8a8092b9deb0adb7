package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestLookup finds an operation by what it was asked for, and by nothing less.
func TestLookup(t *testing.T) {
	t.Parallel()
	ex := pawl.New(storetest.NewMemory(), nil)
	nothing := func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil }
	refund := pawl.Contract{Tool: "refund", Identity: []pawl.Field{{Name: "order_id", Rule: pawl.Rule{Kind: pawl.RuleUpper}}}, Free: []string{"reason"}}
	if err := ex.Register(pawl.NewFunc(refund, nothing, nil),
		pawl.NewFunc(pawl.Contract{Tool: "look", Class: pawl.Read}, nothing, nil)); err != nil {
		t.Fatal(err)
	}
	asked := pawl.Call{Tool: "refund", Run: "r", Step: "1", Tenant: "acme", Actor: "ana", Args: []byte(`{"order_id":"A-1","reason":"late"}`)}
	env, err := ex.Do(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	same := asked
	same.Actor, same.Args = "ben", []byte(`{"order_id":" a-1 "}`)
	op, err := ex.Lookup(t.Context(), same)
	if err != nil || op.ID.String() != env.OperationID {
		t.Errorf("in other words: got %v, %v, want %s", op, err, env.OperationID)
	}
	for name, change := range map[string]func(c *pawl.Call){
		"order":  func(c *pawl.Call) { c.Args = []byte(`{"order_id":"A-2"}`) },
		"step":   func(c *pawl.Call) { c.Step = "2" },
		"run":    func(c *pawl.Call) { c.Run = "q" },
		"tenant": func(c *pawl.Call) { c.Tenant = "other" },
		"read":   func(c *pawl.Call) { c.Tool = "look" },
	} {
		c := asked
		change(&c)
		if op, err := ex.Lookup(t.Context(), c); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("another %s: got %v, %v, want ErrNotFound", name, op, err)
		}
	}
	for want, change := range map[pawl.Reason]func(c *pawl.Call){
		pawl.ReasonUnknownTool:      func(c *pawl.Call) { c.Tool = "none" },
		pawl.ReasonIdentityMissing:  func(c *pawl.Call) { c.Args = nil },
		pawl.ReasonRunRequired:      func(c *pawl.Call) { c.Run = "" },
		pawl.ReasonInvalidArguments: func(c *pawl.Call) { c.Args = []byte(`{"order_id":"A","order_id":"B"}`) },
	} {
		c := asked
		change(&c)
		var bad *pawl.CallError
		if _, err := ex.Lookup(t.Context(), c); !errors.As(err, &bad) || bad.Reason != want {
			t.Errorf("got %v, want a call error with %s", err, want)
		}
	}
}
