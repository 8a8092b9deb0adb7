package gateway_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway"
	"github.com/pawl-dev/pawl/gateway/wire"
	"github.com/pawl-dev/pawl/server"
)

var eras = []string{wire.Version20251125, wire.Version20260728}

// person is an SDK client whose user answers questions.
func person(t *testing.T, url, version string, answer func(question string) *mcp.ElicitResult) *mcp.ClientSession {
	t.Helper()
	return connect(t, url, version, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return answer(r.Params.Message), nil
	}})
}

func order(t *testing.T, c *mcp.ClientSession, id string) *mcp.CallToolResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "order", Arguments: map[string]any{"id": id}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPersonAtTheClientDecides: a call that needs a yes is sent once the user of the client
// has given it; a no, or a box that is not ticked, ends it, and a dialog that is closed
// leaves it waiting.
func TestPersonAtTheClientDecides(t *testing.T) {
	t.Parallel()
	for _, version := range eras {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newShop(false)
			f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), "")+
				"tools:\n  shop/order: {upstream: shop, identity: [id], effect: \"order {id}\", confirm: always}\n", nil)
			var says atomic.Pointer[mcp.ElicitResult]
			var asked atomic.Int32
			c := person(t, f.url, version, func(question string) *mcp.ElicitResult {
				asked.Add(1)
				if !strings.Contains(question, "order A-1") {
					t.Errorf("got the question %q, want one that names the order", question)
				}
				return says.Load()
			})
			ticked := func(yes bool) *mcp.ElicitResult {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": yes}}
			}
			for i, step := range []struct {
				answer *mcp.ElicitResult
				order  string
				status pawl.Status
				reason pawl.Reason
				orders int32
			}{
				{&mcp.ElicitResult{Action: "cancel"}, "A-1", pawl.Prepared, pawl.ReasonApprovalNeeded, 0},
				{ticked(true), "A-1", pawl.Succeeded, pawl.ReasonConfirmed, 1},
				{&mcp.ElicitResult{Action: "decline"}, "A-12", pawl.FailedNoEffect, pawl.ReasonNotApproved, 1},
				{ticked(false), "A-13", pawl.FailedNoEffect, pawl.ReasonNotApproved, 1},
			} {
				says.Store(step.answer)
				env := operation(t, order(t, c, step.order))
				if env.Status != step.status || env.Reason != step.reason {
					t.Errorf("step %d: got %s %s, want %s %s", i, env.Status, env.Reason, step.status, step.reason)
				}
				if n := s.orders.Load(); n != step.orders {
					t.Errorf("step %d: got %d orders, want %d", i, n, step.orders)
				}
				if n := int(asked.Load()); n != i+1 {
					t.Errorf("step %d: asked %d times, want %d", i, n, i+1)
				}
			}
		})
	}
}

// TestNobodyToAsk: a client that cannot ask its user is told that the call waits.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	s := newShop(false)
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), "")+
		"tools:\n  shop/order: {upstream: shop, identity: [id], confirm: always}\n", nil)
	for _, version := range eras {
		if env := operation(t, order(t, connect(t, f.url, version, nil), version)); env.Status != pawl.Prepared {
			t.Errorf("%s: got %s, want PREPARED", version, env.Status)
		}
	}
	if n := s.orders.Load(); n != 0 {
		t.Errorf("got %d orders, want none", n)
	}
}

// TestWantedRepeat: the same call a while after its answer is asked about. A yes has the
// effect once more, a no replays, and a repeat that comes at once is never asked about.
func TestWantedRepeat(t *testing.T) {
	t.Parallel()
	for _, version := range eras {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newShop(false)
			const after = 300 * time.Millisecond
			f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), ""), &server.Options{Gateway: &gateway.Options{RepeatAfter: after}})
			var asked atomic.Int32
			var wanted atomic.Bool
			c := person(t, f.url, version, func(string) *mcp.ElicitResult {
				asked.Add(1)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": wanted.Load()}}
			})
			first := time.Now()
			order(t, c, "A-1")
			env := operation(t, order(t, c, "A-1"))
			if time.Since(first) < after && asked.Load() != 0 { // a slow machine proves nothing
				t.Error("asked about a repeat that came at once")
			}
			if env.ActionTaken != pawl.Replayed {
				t.Errorf("got %s, want replayed", env.ActionTaken)
			}
			<-time.After(after) // the time itself is what is tested
			was := asked.Load()
			if env := operation(t, order(t, c, "A-1")); env.ActionTaken != pawl.Replayed || asked.Load() != was+1 || s.orders.Load() != 1 {
				t.Errorf("a no: got %s, asked %d times, %d orders, want replayed, once more, 1", env.ActionTaken, asked.Load()-was, s.orders.Load())
			}
			wanted.Store(true)
			env = operation(t, order(t, c, "A-1"))
			if env.ActionTaken != pawl.Executed || env.Status != pawl.Succeeded || s.orders.Load() != 2 {
				t.Errorf("a yes: got %s %s, %d orders, want executed SUCCEEDED, 2", env.ActionTaken, env.Status, s.orders.Load())
			}
		})
	}
}
