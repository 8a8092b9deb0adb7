//go:build unix

package workers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/sandbox"
)

// TestZombieDoesNotOverwrite stops a worker while its request is at the provider, lets its
// lease lapse and another worker settle the operation, and wakes it up with its answer.
func TestZombieDoesNotOverwrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Database(t), 1)
	a, b := w.start("a", time.Second), w.start("b", time.Second)
	if _, err := w.box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Service: "refunds"}, Line: "hold after"}); err != nil {
		t.Fatal(err)
	}
	answer := make(chan *pawl.Envelope, 1)
	go func() { answer <- a.call(context.Background(), "issue_refund", "run", refund(0), 20*time.Second) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.box.AwaitHeld(ctx, 1); err != nil {
		t.Fatal(err)
	}
	a.signal(syscall.SIGSTOP)
	w.await("b settles what a has left", func() bool {
		op := w.operations()["run"]
		return op != nil && op.Status == pawl.Succeeded
	})
	before := w.operations()["run"]
	if before.SettledBy != pawl.ByProbe {
		t.Errorf("settled by %s, want the probe of the other worker", before.SettledBy)
	}
	w.box.Release(0) // the answer goes out to a
	a.signal(syscall.SIGCONT)
	if env := <-answer; env == nil || env.Status != pawl.Succeeded {
		t.Errorf("a's caller: got %+v, want SUCCEEDED, as b found", env)
	}
	a.drain()
	b.drain()
	after := w.operations()["run"]
	if after.Status != pawl.Succeeded || after.SettledBy != before.SettledBy || after.Ref != before.Ref {
		t.Errorf("got %s by %s, want what was settled to stay", after.Status, after.SettledBy)
	}
	w.truth("refunds", w.operations())
	if n := w.requests("refunds")["run"]; n != 1 {
		t.Errorf("requests: got %d, want 1: a neither sent again nor did b", n)
	}
}

// TestZombiesSendNothing stops and wakes one of two workers at random for longer than its
// lease, while both make calls. A keyless tool gets one request at most, whatever happens.
func TestZombiesSendNothing(t *testing.T) {
	t.Parallel()
	const calls = 150
	w := newWorld(t, pgtest.Database(t), calls)
	workers := []*worker{w.start("a", time.Second), w.start("b", time.Second)}
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				k := workers[i%2]
				if i%3 == 0 {
					k.call(t.Context(), "send_email", fmt.Sprint("mail-", i), mail(i), 8*time.Second)
				} else {
					k.call(t.Context(), "issue_refund", fmt.Sprint("refund-", i), refund(i), 8*time.Second)
				}
			}
		})
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for range 6 {
			time.Sleep(time.Duration(50+rand.IntN(300)) * time.Millisecond)
			workers[0].signal(syscall.SIGSTOP)
			time.Sleep(1500 * time.Millisecond) // longer than the lease
			workers[0].signal(syscall.SIGCONT)
		}
	}()
	for i := range calls {
		next <- i
	}
	close(next)
	<-stopped
	all.Wait()
	w.settled()
	ops := w.operations()
	mails, refunds := map[string]*pawl.Operation{}, map[string]*pawl.Operation{}
	for run, op := range ops {
		if op.Tool == "send_email" {
			mails[run] = op
		} else {
			refunds[run] = op
		}
	}
	w.truth("emails", mails)
	w.truth("refunds", refunds)
	if len(ops) < calls/2 {
		t.Errorf("operations: got %d of %d calls, want most", len(ops), calls)
	}
}

// TestWorkersKnowTheirTools leaves operations of two tools behind. A worker that knows one of
// them settles that one and never touches the other.
func TestWorkersKnowTheirTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Database(t), 4)
	a := w.start("a", time.Second)
	for _, service := range []string{"refunds", "emails"} {
		if _, err := w.box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Service: service}, Line: "hold after", Times: 2}); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			a.call(context.Background(), "issue_refund", fmt.Sprint("refund-", i), refund(i), 20*time.Second)
		})
		all.Go(func() { a.call(context.Background(), "send_email", fmt.Sprint("mail-", i), mail(i), 20*time.Second) })
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.box.AwaitHeld(ctx, 4); err != nil {
		t.Fatal(err)
	}
	a.kill()
	all.Wait()
	mailer := w.start("mailer", time.Second, "send_email")
	status := func(run string) pawl.Status { return w.operations()[run].Status }
	w.await("the mailer takes the mails over", func() bool {
		return status("mail-0") == pawl.Unknown && status("mail-1") == pawl.Unknown
	})
	for _, run := range []string{"refund-0", "refund-1"} {
		if op := w.operations()[run]; op.Status != pawl.Pending || op.Version != 1 {
			t.Errorf("%s: got %s at version %d, want it untouched", run, op.Status, op.Version)
		}
	}
	w.start("refunder", time.Second, "issue_refund")
	w.settled()
	mailer.drain()
	w.truth("refunds", map[string]*pawl.Operation{"refund-0": w.operations()["refund-0"], "refund-1": w.operations()["refund-1"]})
	for _, run := range []string{"refund-0", "refund-1"} {
		if got := status(run); got != pawl.Succeeded {
			t.Errorf("%s: got %s, want SUCCEEDED", run, got)
		}
	}
}

// TestDrain ends a worker under load. It exits in time and in order, and another one settles
// what it had to leave.
func TestDrain(t *testing.T) {
	t.Parallel()
	const calls = 60
	w := newWorld(t, pgtest.Database(t), calls)
	a := w.start("a", 2*time.Second)
	if _, err := w.box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Service: "refunds"}, Line: "hold before", Times: 10}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			a.call(context.Background(), "issue_refund", fmt.Sprint("refund-", i), refund(i), 30*time.Second)
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.box.AwaitHeld(ctx, 10); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		a.drain()
	}()
	w.start("b", 2*time.Second)
	<-drained
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("drain took %v", took)
	}
	all.Wait()
	w.box.Release(0)
	w.settled()
	w.truth("refunds", w.operations())
}
