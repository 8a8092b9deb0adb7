package mcptest

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestMain(m *testing.M) { Run(m) }

// TestUpstreamAndClientSpeakBothEras: they get on with each other over each transport, and
// the ledgers tell what happened. That others get on with them is for gateway/conformance.
func TestUpstreamAndClientSpeakBothEras(t *testing.T) {
	t.Parallel()
	for _, era := range []Era{Legacy, Modern} {
		for name, dial := range map[string]func(t *testing.T, era Era) (*Upstream, *Client){
			"stdio": func(t *testing.T, era Era) (*Upstream, *Client) {
				u := NewStdio(t, era)
				return u, DialStdio(t, era, u.Command()...).Client
			},
			"http": func(t *testing.T, era Era) (*Upstream, *Client) {
				u := NewHTTP(t, era)
				return u, DialHTTP(t, era, u.URL())
			},
		} {
			t.Run(string(era)+"/"+name, func(t *testing.T) {
				t.Parallel()
				u, c := dial(t, era)
				if names, err := c.Tools(t.Context()); err != nil || len(names) != len(tools) {
					t.Fatalf("got %v, %v, want %d tools", names, err, len(tools))
				}
				call := func(tool string, args map[string]any) *Result {
					t.Helper()
					r, err := c.Call(t.Context(), Asked{Tool: tool, Args: args})
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
				order := map[string]any{"order_id": "A-1", "sku": "tea"}
				call("place_order", order)
				call("place_order", order)
				if n := len(u.Effects(t)); n != 2 {
					t.Errorf("got %d effects, want 2: the upstream itself keeps no key", n)
				}
				found := call("find_orders", map[string]any{"order_id": "A-1"})
				var orders struct{ Orders []any }
				if err := json.Unmarshal(found.StructuredContent, &orders); err != nil || len(orders.Orders) != 2 {
					t.Errorf("got %s, %v, want two orders", found.StructuredContent, err)
				}
				u.Fail(t, IsError)
				if r := call("send_note", map[string]any{"to": "ann", "text": "hi"}); !r.IsError || !u.Failed(t) {
					t.Errorf("got %+v, want the fault", r)
				}
				if _, err := c.Call(t.Context(), Asked{Tool: "none"}); !errors.Is(err, ErrRefused) {
					t.Errorf("got %v, want an unknown tool refused", err)
				}
				if calls, notes := u.Calls(t, ""), u.Calls(t, "send_note"); len(calls) != 5 || len(notes) != 1 {
					t.Errorf("got %d calls and %d notes, want 5 and 1", len(calls), len(notes))
				}
				u.Fail(t, Die)
				if _, err := c.Call(t.Context(), Asked{Tool: "place_order", Args: order}); err == nil {
					t.Error("got an answer of an upstream that died")
				}
				if n := len(u.Effects(t)); n != 4 {
					t.Errorf("got %d effects, want 4", n)
				}
			})
		}
	}
}
