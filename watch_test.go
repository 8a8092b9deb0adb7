package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// TestLookAlikesCannotBeBuried: calls that were sighted and never begun do not hide the one
// that had its effect.
func TestLookAlikesCannotBeBuried(t *testing.T) {
	for _, n := range []int{70, pawl.MaxSightings + 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			play(t, func(c *pawl.Contract) {
				keyless(c)
				c.Watch = &pawl.WatchTerms{By: []string{"amount"}, Within: time.Hour}
			}, func(h *house) {
				ex := h.executor(nil)
				h.want(h.do(ex, call(nil)), "SUCCEEDED", 1)
				if _, err := ex.Abort(context.Background(), "", "run-off", off); err != nil {
					t.Fatal(err)
				}
				alike := func(run string, i int) pawl.Envelope {
					return h.do(ex, call(func(c *pawl.Call) {
						c.Run, c.Args = run, json.RawMessage(fmt.Sprintf(`{"order_id":"B%d","amount":49.90}`, i))
					}))
				}
				for i := range n {
					h.want(alike("run-off", i), "FAILED_NO_EFFECT run_aborted", 1)
				}
				time.Sleep(2 * time.Minute)
				h.want(alike("run-2", n), "PREPARED look_alike", 1)
			})
		})
	}
}
