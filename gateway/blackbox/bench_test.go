package blackbox

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

// BenchmarkGateway measures one call after the other, and 16 at once, to an upstream alone
// and through the gateway: a read, and an effect, whose intent is made durable before it is
// sent. `make bench-gateway` prints the ratios.
func BenchmarkGateway(b *testing.B) {
	for _, side := range []struct {
		name string
		dial func(b *testing.B, stdio bool) *mcptest.Client
	}{{"bare", bare}, {"pawl", throughPawl}} {
		for _, stdio := range []bool{true, false} {
			for _, tool := range []string{"echo", probed} {
				for _, atOnce := range []int{1, 16} {
					kind := map[string]string{"echo": "read", probed: "effect"}[tool]
					b.Run(fmt.Sprintf("%s/%s/%s/%d", kind, transport(stdio), side.name, atOnce), func(b *testing.B) {
						client := side.dial(b, stdio)
						var last atomic.Int64
						b.SetParallelism(atOnce) // of each processor: GOMAXPROCS is 1, see the target
						b.ResetTimer()
						b.RunParallel(func(pb *testing.PB) {
							for pb.Next() {
								id := fmt.Sprintf("o-%d", last.Add(1))
								args := map[string]any{"text": id}
								if tool == probed {
									args = map[string]any{"order_id": id, "sku": "tea"}
								}
								if _, err := client.Call(b.Context(), mcptest.Asked{Tool: tool, Args: args, Meta: inRun}); err != nil {
									b.Error(err)
									return
								}
							}
						})
					})
				}
			}
		}
	}
}

func bare(b *testing.B, stdio bool) *mcptest.Client {
	if stdio {
		return mcptest.DialStdio(b, mcptest.Modern, mcptest.NewStdio(b, mcptest.Modern).Command()...).Client
	}
	return mcptest.DialHTTP(b, mcptest.Modern, mcptest.NewHTTP(b, mcptest.Modern).URL())
}

func throughPawl(b *testing.B, stdio bool) *mcptest.Client {
	return open(b, stdio, mcptest.Modern, "").client
}
