package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/storetest"
)

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

// waitsForStandby counts the sessions that wait for a standby.
const waitsForStandby = `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`

func TestCancelledWaitForStandby(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			primary := pgtest.Start(t, nil)
			standby := primary.Standby(t)
			s := openTest(t, primary.URL("postgres"), &Options{Writers: 1})
			impatient := openTest(t, primary.URL("postgres"), &Options{Schema: s.opts.Schema, Writers: 1, ConfirmTimeout: time.Second})
			standby.Freeze(t)

			// A commit that nobody lets through is undecided, however it ends.
			op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
			if _, err := impatient.Begin(t.Context(), op, first); !errors.Is(err, pawl.ErrStoreFailed) {
				t.Errorf("begin without a standby: got %v, want %v", err, pawl.ErrStoreFailed)
			}

			// One that the server calls done, because its wait was cancelled, is not.
			other, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "B"})
			answer := make(chan error, 1)
			go func() { _, err := s.Begin(context.WithoutCancel(t.Context()), other, first); answer <- err }()
			ended := 0
			for ended < 3 {
				primary.Await(t, waitsForStandby, 1)
				if run(t, primary.URL("postgres"), `SELECT count(`+end+`(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`) > 0 {
					ended++
				}
				select {
				case err := <-answer:
					t.Fatalf("begin: got %v after its wait was cancelled %d times, want it to wait on", err, ended)
				default:
				}
			}
			// The row is there for everybody to read, and might be lost all the same.
			if got, err := impatient.Get(t.Context(), "", other.ID); err != nil || got.ID != other.ID {
				t.Errorf("get: got %v, %v; want the row that is not durable yet", got, err)
			}
			standby.Thaw(t)
			if err := <-answer; err != nil {
				t.Errorf("begin when the standby is back: %v", err)
			}
			primary.Kill(t)
			standby.Promote(t)
			after := openTest(t, standby.URL("postgres"), &Options{Schema: s.opts.Schema})
			if _, err := after.Get(t.Context(), "", other.ID); err != nil {
				t.Errorf("after the failover: %v", err)
			}
		})
	}
}

// begun are operations that a store has acknowledged.
func begun(t *testing.T, s *DB, run string, n int) (ops []*pawl.Operation) {
	t.Helper()
	for i := range n {
		op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: run, Step: fmt.Sprint(i), Identity: fmt.Sprint(i)})
		if _, err := s.Begin(t.Context(), op, first); err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	return ops
}

// TestFailoverToSynchronousStandby: nothing that was acknowledged is lost, the store goes on
// by itself, and one that is opened later finds it confirmed.
func TestFailoverToSynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, nil)
	standby := primary.Standby(t)
	at := either(t, primary, standby)
	s := openTest(t, at, nil)
	twin := openTest(t, at, &Options{Schema: s.opts.Schema})
	before := append(begun(t, s, "s", 20), begun(t, twin, "twin", 20)...)

	// Writers are under way when the primary dies.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var told []*pawl.Operation
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: fmt.Sprint("w", worker), Step: fmt.Sprint(i), Identity: fmt.Sprint(i)})
				if _, err := []*DB{s, twin}[worker%2].Begin(context.WithoutCancel(ctx), op, first); err == nil {
					mu.Lock()
					told = append(told, op)
					mu.Unlock()
				}
			}
		})
	}
	awaitTold := func(n int) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			mu.Lock()
			got := len(told)
			mu.Unlock()
			if got >= n {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("got %d acknowledged, want %d", got, n)
			}
		}
	}
	awaitTold(100)
	primary.Kill(t)
	standby.Promote(t)
	mu.Lock()
	n := len(told)
	mu.Unlock()
	awaitTold(n + 100)
	stop()
	all.Wait()
	for _, store := range []*DB{s, twin, openTest(t, standby.URL("postgres"), &Options{Schema: s.opts.Schema})} {
		if err := store.Recovery(); err != nil {
			t.Errorf("recovery: got %v, want nil", err)
		}
	}
	for _, op := range append(before, told...) {
		if _, err := s.Get(t.Context(), "", op.ID); err != nil {
			t.Errorf("acknowledged: %v", err)
		}
	}
	if t.Failed() {
		return
	}
	for _, op := range before {
		if err := s.Apply(t.Context(), storetest.Move(op, pawl.Succeeded, nil)); err != nil {
			t.Error(err)
		}
	}
}

// TestFailoverToAsynchronousStandby: what was acknowledged may be missing, so nothing is
// written, and so nothing sent, before a person has spoken. The running store goes on then.
func TestFailoverToAsynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, nil)
	standby := primary.Standby(t)
	primary.Set(t, "synchronous_standby_names", "")
	s := openTest(t, either(t, primary, standby), nil)
	ops := begun(t, s, "run", 5)
	primary.Await(t, `SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_flush_lsn()`, 1)
	primary.Kill(t)
	standby.Promote(t)

	lost, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "lost"})
	for range 3 {
		if _, err := s.Begin(t.Context(), lost, first); !errors.Is(err, pawl.ErrStoreFailed) || !errors.Is(err, ErrOtherTimeline) {
			t.Fatalf("begin: got %v, want %v and %v", err, pawl.ErrStoreFailed, ErrOtherTimeline)
		}
	}
	if err := s.Apply(t.Context(), storetest.Move(ops[0], pawl.Succeeded, nil)); !errors.Is(err, ErrOtherTimeline) {
		t.Errorf("apply: got %v, want %v", err, ErrOtherTimeline)
	}
	if _, err := s.Claim(t.Context(), pawl.Claim{Tools: []string{"refund"}, Limit: 9, Token: 9, Lease: time.Minute}); !errors.Is(err, ErrOtherTimeline) {
		t.Errorf("claim: got %v, want %v", err, ErrOtherTimeline)
	}
	if got, err := s.Get(t.Context(), "", ops[0].ID); err != nil || got.Status != pawl.Pending {
		t.Errorf("get: got %v, %v; want PENDING", got, err)
	}
	if n := run(t, standby.URL("postgres"), `SELECT count(*) FROM `+s.opts.Schema+`.intents`); n != 5 {
		t.Errorf("intents: got %d, want the 5 of before", n)
	}
	person := openTest(t, standby.URL("postgres"), &Options{Schema: s.opts.Schema})
	if err := person.Recovery(); !errors.Is(err, ErrOtherTimeline) {
		t.Fatalf("recovery: got %v, want %v", err, ErrOtherTimeline)
	}
	if err := person.Confirm(t.Context(), &pawl.Restore{At: time.Now(), Until: time.Now(), By: "ana"}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := s.Begin(t.Context(), lost, first); errors.Is(err, ErrRestored) {
			break
		} else if err == nil || time.Now().After(end) {
			t.Fatalf("begin after the confirmation: got %v, want %v", err, ErrRestored)
		}
	}
	again := openTest(t, standby.URL("postgres"), &Options{Schema: s.opts.Schema})
	if err := again.Recovery(); err != nil || again.Restored() == nil || again.Restored().By != "ana" {
		t.Errorf("after the confirmation: got %v and %+v, want it to know of it", err, again.Restored())
	}
	if _, err := again.Begin(t.Context(), lost, first); err != nil {
		t.Errorf("begin in a store that was opened after the confirmation: %v", err)
	}
}

// TestOldPrimary: a store that has seen the new primary writes nothing at the old one, should
// it be led there again.
func TestOldPrimary(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, nil)
	standby := primary.Standby(t)
	through := newProxy(t, primary.Socket())
	s := openTest(t, through.url("postgres"), nil)
	begun(t, s, "run", 1)
	standby.Promote(t) // nobody has stopped the primary
	primary.Set(t, "synchronous_standby_names", "")
	through.down()
	through.to(standby.Socket())
	through.up()
	begun(t, s, "new", 1)
	through.down()
	through.to(primary.Socket())
	through.up()
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "split"})
	if _, err := s.Begin(t.Context(), op, first); !errors.Is(err, pawl.ErrStoreFailed) || !strings.Contains(fmt.Sprint(err), "timeline") {
		t.Errorf("begin at the old primary: got %v, want %v", err, pawl.ErrStoreFailed)
	}
	if n := run(t, primary.URL("postgres"), `SELECT count(*) FROM `+s.opts.Schema+`.intents`); n != 1 {
		t.Errorf("intents at the old primary: got %d, want 1", n)
	}
}
