package blackbox

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

// callers is how many there are at once.
const callers = 256

// TestCallersAtOnce: many callers share one upstream on stdio, and each gets the answer to
// its own call, of reads and of effects.
func TestCallersAtOnce(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			upstream := mcptest.NewStdio(t, era)
			gateway := mcptest.Serve(t, contractFile(t, overStdio(upstream), ""))
			url := gateway.URL + "/mcp"
			shared := mcptest.DialHTTP(t, era, url) // sessions are for a tenth of them
			results := make([]string, callers)
			failures := make([]error, callers)
			var wg sync.WaitGroup
			for i := range callers {
				client := shared
				if i%10 == 0 {
					client = mcptest.DialHTTP(t, era, url)
				}
				wg.Go(func() {
					name := fmt.Sprintf("caller-%d", i)
					for range 4 {
						r, err := client.Call(t.Context(), mcptest.Asked{Tool: "echo", Args: map[string]any{"text": name}})
						if err != nil || r.Text() != name {
							failures[i] = errors.Join(err, fmt.Errorf("%s: got %v, want its own text", name, r))
							return
						}
					}
					r, err := client.Call(t.Context(), mcptest.Asked{Tool: probed, Args: map[string]any{"order_id": name, "sku": "tea"}, Meta: inRun})
					if err != nil || r.IsError {
						failures[i] = errors.Join(err, fmt.Errorf("%s: got %v, want an order", name, r))
						return
					}
					results[i] = r.Text()
				})
			}
			wg.Wait()
			if err := errors.Join(failures...); err != nil {
				t.Fatal(err)
			}
			effects := upstream.Effects(t)
			if len(effects) != callers {
				t.Errorf("got %d effects, want %d", len(effects), callers)
			}
			of := map[any]string{}
			for _, e := range effects {
				of[e.Args["order_id"]] = e.ID
			}
			for i, got := range results {
				if want := of[fmt.Sprintf("caller-%d", i)]; got != want {
					t.Errorf("caller %d: got order %s, want %s", i, got, want)
				}
			}
			if n := len(upstream.Calls(t, "echo")); n != 4*callers {
				t.Errorf("got %d reads at the upstream, want %d", n, 4*callers)
			}
		})
	}
}
