package pawl_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// TestPruneKeepsWhatIsNeeded: settled operations are forgotten when they are old, and what
// may still be needed is not.
func TestPruneKeepsWhatIsNeeded(t *testing.T) { // OP7
	prune := func(h *house, keep time.Duration, want int) {
		t.Helper()
		dry, err := pawl.Prune(context.Background(), h.store, pawl.PruneOptions{Keep: keep, DryRun: true})
		if err != nil || dry.Forgotten != want {
			t.Errorf("dry run: got %+v, %v; want %d forgotten", dry, err, want)
		}
		if got, err := pawl.Prune(context.Background(), h.store, pawl.PruneOptions{Keep: keep}); err != nil || got.Forgotten != want {
			t.Errorf("got %+v, %v; want %d forgotten", got, err, want)
		}
	}
	const day = 24 * time.Hour
	t.Run("old and young", func(t *testing.T) {
		play(t, keyless, func(h *house) {
			ex := h.executor(nil)
			for i := range 450 { // several pages
				h.do(ex, call(func(c *pawl.Call) { c.Run = fmt.Sprint("old-", i) }))
			}
			time.Sleep(3 * day)
			h.do(ex, call(nil))
			prune(h, 30*day, 0)
			prune(h, 2*day, 450)
			prune(h, 2*day, 0)
			h.operation() // the young one alone
			h.want(h.do(ex, call(nil)), "SUCCEEDED confirmed replayed", 451)
			h.want(h.do(ex, call(func(c *pawl.Call) { c.Run = "old-1" })), "SUCCEEDED confirmed executed", 452)
		})
	})
	t.Run("the key may be known", func(t *testing.T) {
		play(t, func(c *pawl.Contract) { c.Retention = 60 * day }, func(h *house) {
			h.do(h.executor(nil), call(nil))
			time.Sleep(59 * day)
			prune(h, 2*day, 0)
			time.Sleep(2 * day)
			prune(h, 2*day, 1)
		})
	})
	t.Run("something may land", func(t *testing.T) {
		play(t, func(c *pawl.Contract) { keyless(c); c.Landing = 20 * day }, func(h *house) {
			h.do(h.executor(nil), call(nil))
			time.Sleep(19 * day)
			prune(h, 2*day, 0)
			time.Sleep(2 * day)
			prune(h, 2*day, 1)
		})
	})
	t.Run("a person is asked", func(t *testing.T) {
		play(t, keyless, func(h *house) {
			h.provider.script = []string{"lost"}
			ex := h.executor(nil)
			h.do(ex, call(nil))
			ex.Start()
			h.settled()
			stop(ex)
			time.Sleep(400 * day)
			prune(h, 2*day, 0)
		})
	})
	t.Run("its run is open", func(t *testing.T) {
		play(t, keyless, func(h *house) {
			ex := h.executor(nil)
			h.do(ex, call(nil))
			h.provider.script = []string{"lost"}
			h.do(ex, call(func(c *pawl.Call) { c.Step, c.Args = "2", []byte(`{"order_id":"B"}`) }))
			time.Sleep(400 * day)
			prune(h, 2*day, 0)
		})
	})
	t.Run("too little", func(t *testing.T) {
		play(t, keyless, func(h *house) {
			if _, err := pawl.Prune(context.Background(), h.store, pawl.PruneOptions{Keep: time.Hour}); err == nil {
				t.Error("got no error, want operations to be kept for a day at least")
			}
		})
	})
}
