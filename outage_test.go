package pawl_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestOutageIsSettledAtAPace: an outage has left 10,000 operations in doubt. The provider is
// asked about a few at a time, the oldest first, and all are settled.
func TestOutageIsSettledAtAPace(t *testing.T) { // WO6
	const many, hands = 10_000, 16
	play(t, func(c *pawl.Contract) { c.Class, c.Retention = pawl.Unsafe, 0 }, func(h *house) {
		contract := h.contract.WithDefaults()
		began := time.Now()
		place := make(map[pawl.ID]int, many)
		for i := range many {
			op, first := storetest.Op(storetest.Seed{
				Tool: "refund", Run: fmt.Sprint("run-", i), Identity: fmt.Sprint(i), At: began.Add(time.Duration(i) * time.Millisecond), Contract: &contract,
			})
			place[op.ID] = i
			if standing, err := h.store.Begin(t.Context(), op, first); standing != nil || err != nil {
				t.Fatalf("begin: %v, %v", standing, err)
			}
			if err := h.store.Apply(t.Context(), storetest.Move(op, pawl.Unknown, func(s *pawl.State) {
				s.Reason, s.Lease, s.Due, s.Attempts[0].Class = pawl.ReasonAmbiguous, time.Time{}, op.Created, pawl.ClassAmbiguous
			})); err != nil {
				t.Fatal(err)
			}
			h.provider.ledger = append(h.provider.ledger, op.Key.String())
		}
		time.Sleep(time.Minute)
		var mu sync.Mutex
		now, most, asked, unfair := 0, 0, 0, 0
		h.provider.probe = func(op *pawl.Operation) pawl.ProbeResult {
			mu.Lock()
			defer mu.Unlock()
			if i := place[op.ID]; i > asked+4*hands {
				unfair++
			}
			asked++
			return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchKey, Count: 1, Refs: []string{"r"}, Result: []byte(`{}`)}
		}
		port := &paced{provider: h.provider, enter: func(by int) {
			mu.Lock()
			defer mu.Unlock()
			now += by
			most = max(most, now)
		}}
		ex := pawl.New(h.store, &pawl.Options{SweepBatch: hands})
		if err := ex.Register(&pawl.Tool{Contract: h.contract, Port: port}); err != nil {
			t.Fatal(err)
		}
		ex.Start()
		defer stop(ex)
		for range 100_000 {
			open, err := h.store.Find(t.Context(), pawl.Query{AllTenants: true, Open: true, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			if len(open) == 0 {
				break
			}
			time.Sleep(time.Second)
		}
		if asked != many || most > hands || most < 2 || unfair > 0 {
			t.Errorf("got %d probes, %d at once, %d out of order; want %d, 2 to %d, 0", asked, most, unfair, many, hands)
		}
	})
}

// paced is a provider whose probes take a while.
type paced struct {
	*provider
	enter func(by int)
}

func (p *paced) Probe(ctx context.Context, op *pawl.Operation) pawl.ProbeResult {
	p.enter(1)
	defer p.enter(-1)
	time.Sleep(50 * time.Millisecond)
	return p.provider.Probe(ctx, op)
}
