// The race detector sees nothing of other processes.
//go:build !race

package crash

import (
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
)

// faults are what network and provider do to one operation while nobody kills the daemon.
// The names begin with the rows of the fault matrix in docs/reliability.md.
var faults = []scenario{
	{name: "NE3 reset after the work", tool: "refund", args: refund, service: "refunds", fault: "reset after", status: pawl.Succeeded, effects: 1},
	{name: "NE3 closed before the work", tool: "refund", args: refund, service: "refunds", fault: "fin before", status: pawl.Succeeded, effects: 1},
	{name: "NE5 request lost, no way back", tool: "small_refund", args: refund, service: "refunds", fault: "reset before", later: []string{"reset before", "reset before"}, status: pawl.FailedNoEffect},
	{name: "NE6 answer lost twice", tool: "refund", args: refund, service: "refunds", fault: "reset after", reads: []string{"reset before"}, status: pawl.Succeeded, effects: 1},
	{name: "NE7 lands after it was given up", tool: "small_refund", args: refund, service: "refunds", fault: "delay 1200ms before", status: pawl.Succeeded, effects: 1},
	{name: "NE8 delivered twice", tool: "refund", args: refund, service: "refunds", fault: "duplicate", status: pawl.Succeeded, effects: 1},
	{name: "NE9 answer cut", tool: "refund", args: refund, service: "refunds", fault: "cut 20 after", status: pawl.Succeeded, effects: 1},
	{name: "NE10 answer drips", tool: "refund", args: refund, service: "refunds", fault: "slow body 20B/s", status: pawl.Succeeded, effects: 1},
	{name: "NE11 a page of a portal", tool: "refund", args: refund, service: "refunds", fault: "html 200 before", status: pawl.Succeeded, effects: 1},
	{name: "NE11 garbage", tool: "refund", args: refund, service: "refunds", fault: "garbage after", status: pawl.Succeeded, effects: 1},
	{name: "RE1 500 after the work", tool: "refund", args: refund, service: "refunds", fault: "status 500 after", status: pawl.Succeeded, effects: 1},
	{name: "RE1 500 before the work", tool: "small_refund", args: refund, service: "refunds", fault: "status 500 before", later: []string{"status 500 before", "status 500 before", "status 500 before"}, status: pawl.FailedNoEffect},
	{name: "RE2 429 that the contract lists", tool: "refund", args: refund, service: "refunds", fault: "status 429 before", status: pawl.Succeeded, effects: 1},
	{name: "RE2 503 that it does not list", tool: "mail", args: mail, service: "emails", fault: "status 503 before", status: pawl.Unknown},
	{name: "RE3 409 while the first is worked on", tool: "refund", args: refund, service: "refunds", fault: "work 2500ms", status: pawl.Succeeded, effects: 1},
	{name: "RE5 401 on the resend", tool: "refund", args: refund, service: "refunds", fault: "reset before", later: []string{"status 401 before"}, status: pawl.Succeeded, effects: 1},
	{name: "RE6 accepted, lands later", tool: "ticket", args: ticket, service: "tickets", fault: "accept 202 lands 700ms", status: pawl.Succeeded, effects: 1},
	{name: "RE6 accepted, then fails", tool: "mail", args: mail, service: "emails", fault: "accept 202 fails 300ms", status: pawl.Unknown},
	{name: "PB1 reads that are behind", tool: "refund", args: refund, service: "refunds", fault: "reset after", reads: []string{"lie 2 absent"}, status: pawl.Succeeded, effects: 1},
	{name: "PB2 reads that fail", tool: "ticket", args: ticket, service: "tickets", fault: "reset after", reads: []string{"status 500 before", "status 429 before", "html 404 before", "reset before"}, status: pawl.Succeeded, effects: 1},
}

// TestFaultMatrix plays each fault against the daemon on each store.
func TestFaultMatrix(t *testing.T) {
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, store := range []string{"sqlite", "postgres"} {
		for _, s := range faults {
			all.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				t.Run(store+"/"+s.name, func(t *testing.T) { walk(t, store, s) })
			})
		}
	}
	all.Wait()
}

// TestCrashLoop starts and kills the daemon again and again while the provider cannot be
// asked. The pauses between two probes are in the store, so restarts do not shorten them.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	const restarts = 12
	reads := make([]string, 200)
	for i := range reads {
		reads[i] = "status 500 before"
	}
	s := scenario{tool: "ticket", args: ticket, service: "tickets", fault: "reset after", reads: reads}
	w := begun(t, func() (*world, bool) { return s.begin(t, "sqlite") })
	d := w.start("PAWL_CRASH=")
	d.call(s.tool, s.args)
	d.kill()
	for range restarts {
		d := w.start("PAWL_CRASH=")
		if _, err := d.operations(); err != nil {
			t.Fatal(err)
		}
		d.kill()
	}
	// One that is taken over is asked about at once, and that needs a lease that is over.
	if n := w.sent(s) - 1; n > restarts {
		t.Errorf("probes: got %d in %d restarts, want fewer than one each", n, restarts)
	}
	if err := w.box.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	w.recover(s)
	if n := w.effects(s); n != 1 {
		t.Errorf("effects: got %d, want 1", n)
	}
}
