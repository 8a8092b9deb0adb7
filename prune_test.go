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
	t.Run("a look-alike may come", func(t *testing.T) {
		play(t, func(c *pawl.Contract) {
			keyless(c)
			c.Watch = &pawl.WatchTerms{By: []string{"amount"}, Within: 30 * day}
		}, func(h *house) {
			ex := h.executor(nil)
			h.want(h.do(ex, call(nil)), "SUCCEEDED", 1)
			time.Sleep(29 * day)
			prune(h, 2*day, 0)
			h.want(h.do(ex, call(func(c *pawl.Call) { c.Run, c.Args = "run-2", []byte(`{"order_id":"B","amount":49.90}`) })), "PREPARED look_alike", 1)
			time.Sleep(2 * day)
			prune(h, 2*day, 1)
		})
	})
	t.Run("its run is being undone", func(t *testing.T) {
		travel(t, func(tr *trip) {
			ex := tr.started()
			tr.do(ex, step("1", "book_hotel"))
			stop(ex)
			alone := pawl.New(tr.store, nil) // it has none of the tools
			alone.Start()
			tr.abort(alone)
			stop(alone)
			time.Sleep(400 * day)
			prune(tr.house, 2*day, 0)
			ex = tr.started()
			tr.wantOutcomes(tr.over(ex), "book_hotel undone")
			stop(ex)
			time.Sleep(3 * day)
			prune(tr.house, 2*day, 1) // what was undone goes before what has undone it
			prune(tr.house, 2*day, 1)
			tr.wantEffects(map[string]int{"book_hotel": 1, "cancel_hotel": 1})
		})
	})
	t.Run("what it undoes stays", func(t *testing.T) {
		travel(t, func(tr *trip) {
			tr.terms["book_hotel"].Retention = 60 * day
			ex := tr.started()
			tr.do(ex, step("1", "book_hotel"))
			tr.tools["cancel_hotel"].script = []string{"reject"}
			tr.abort(ex)
			tr.wantOutcomes(tr.over(ex), "book_hotel refused")
			stop(ex)
			time.Sleep(30 * day)
			prune(tr.house, 2*day, 0)
			ex = tr.started()
			tr.abort(ex)
			tr.wantOutcomes(tr.over(ex), "book_hotel refused")
			tr.wantEffects(map[string]int{"book_hotel": 1})
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
