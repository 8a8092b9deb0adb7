package workers

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/sandbox"
)

// inFlight is the number of operations whose request is at the provider when the primary dies.
const inFlight = 500

// TestFailover kills the primary with 500 operations in flight and promotes its synchronous
// standby. Each has one effect, none is lost, and all are settled by the workers that were
// running, without anybody's help.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprintf("behind a pooler %t", pooled), func(t *testing.T) {
			t.Parallel()
			primary := pgtest.Start(t, nil)
			standby := primary.Standby(t)
			store := either(t, primary, standby)
			failover := func() {}
			if pooled {
				p := primary.Pooler(t, 20)
				store, failover = p.URL("postgres"), func() { p.Follow(t, standby, 20) }
			}
			w := newWorld(t, store, inFlight)
			w.wait = "20s"
			var workers []*worker
			for i := range 8 { // one takes 64 calls of an actor at a time
				workers = append(workers, w.start(fmt.Sprint("worker-", i), 5*time.Second))
			}
			for _, line := range []string{"delay 8s before", "delay 8s after"} {
				if _, err := w.box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Service: "refunds", Method: "POST"}, Line: line, Times: inFlight / 2}); err != nil {
					t.Fatal(err)
				}
			}
			var mu sync.Mutex
			told := map[string]*pawl.Envelope{}
			var all sync.WaitGroup
			for i := range inFlight {
				all.Go(func() {
					run := fmt.Sprint("refund-", i)
					env := workers[i%len(workers)].call(context.Background(), "issue_refund", run, refund(i), 40*time.Second)
					mu.Lock()
					defer mu.Unlock()
					told[run] = env
				})
			}
			w.await("all requests are at the provider", func() bool { return len(w.requests("refunds")) == inFlight })
			mu.Lock()
			if len(told) > 0 {
				t.Errorf("%d calls were answered before the failover, want all in flight", len(told))
			}
			mu.Unlock()
			primary.Kill(t) // answers come while there is no store, and after
			standby.Promote(t)
			failover()
			all.Wait()
			w.settled()
			ops := w.operations()
			if len(ops) != inFlight {
				t.Errorf("operations: got %d, want the %d that were acknowledged", len(ops), inFlight)
			}
			w.truth("refunds", ops)
			for run, op := range ops {
				if op.Status != pawl.Succeeded {
					t.Errorf("%s: got %s, want SUCCEEDED", run, op.Status)
				}
			}
			for run, env := range told {
				switch {
				case env == nil:
					t.Errorf("%s: the caller got no answer", run)
				case env.Status != pawl.Succeeded && env.Status != pawl.Unknown:
					t.Errorf("%s: the caller was told %s (%s)", run, env.Status, env.Reason)
				}
			}
			for _, k := range workers {
				k.drain()
			}
		})
	}
}

// either is a URL that leads to the one of two servers that is the primary.
func either(t *testing.T, a, b *pgtest.Cluster) string {
	t.Helper()
	first, err := url.Parse(a.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(b.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	q := first.Query()
	for _, name := range []string{"host", "port"} {
		q.Set(name, q.Get(name)+","+second.Query().Get(name))
	}
	q.Set("target_session_attrs", "read-write")
	first.RawQuery = q.Encode()
	return first.String()
}
