package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// sole is an executor's view of one operation: it was begun once, it has so many entries,
// and its history verifies.
func sole(t *testing.T, s *DB, op *pawl.Operation, entries int) {
	t.Helper()
	got, err := s.History(t.Context(), op.Tenant, op.ID)
	if err != nil || len(got) != entries {
		t.Errorf("history of %s: got %d entries, %v; want %d", op.ID, len(got), err, entries)
	}
	found, err := s.Find(t.Context(), pawl.Query{Tenant: op.Tenant, IdentityClaim: op.IdentityClaim})
	if err != nil || len(found) != 1 || found[0].ID != op.ID {
		t.Errorf("find: got %d operations, %v; want %s alone", len(found), err, op.ID)
	}
}

// TestCutAtEveryMessage cuts the connection before each message of a Begin, an Apply and a
// Renew, on its way to the server and on its way back. The store connects again, finds out
// what became of the write, and answers that it was written, once.
func TestCutAtEveryMessage(t *testing.T) {
	t.Parallel()
	for _, toServer := range []bool{true, false} {
		for _, pooled := range []string{"first", "later"} {
			t.Run(fmt.Sprintf("to server %t on %s use", toServer, pooled), func(t *testing.T) {
				t.Parallel()
				p, through, direct := proxied(t)
				look := openTest(t, direct, &Options{Schema: "cut"})
				for n := 0; ; n++ {
					// A new store for each cut: otherwise connections would be in any state.
					s, err := Open(t.Context(), through, &Options{Schema: "cut", Writers: 1})
					if err != nil {
						t.Fatal(err)
					}
					if pooled == "later" { // statements are prepared, or known to be unnamed
						op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: fmt.Sprint("before ", n)})
						if _, err := s.Begin(t.Context(), op, first); err != nil {
							t.Fatal(err)
						}
						if err := s.Apply(t.Context(), storetest.Move(op, pawl.Succeeded, nil)); err != nil {
							t.Fatal(err)
						}
					}
					op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: "run", Step: fmt.Sprint(n), Identity: fmt.Sprint(n), Subject: fmt.Sprint(n)})
					happened := 0
					within := func(what string, do func(ctx context.Context) error) {
						t.Helper()
						c := p.next(cut{toServer: toServer, after: n})
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						if err := do(ctx); err != nil {
							t.Errorf("cut after %d messages: %s: %v", n, what, err)
						}
						p.off()
						select {
						case <-c.happened:
							happened++
						default:
						}
					}
					within("begin", func(ctx context.Context) error {
						standing, err := s.Begin(ctx, op, first)
						if standing != nil {
							t.Errorf("cut after %d messages: got %s in the way", n, standing.Op.ID)
						}
						return err
					})
					sole(t, look, op, 1)
					within("renew", func(ctx context.Context) error {
						renewed, err := s.Renew(ctx, op.ID, op.Token, op.Lease, op.Due)
						if !renewed && err == nil {
							err = errors.New("not renewed")
						}
						return err
					})
					within("apply", func(ctx context.Context) error { return s.Apply(ctx, storetest.Move(op, pawl.Succeeded, nil)) })
					sole(t, look, op, 2)
					if err := s.Close(); err != nil {
						t.Error(err)
					}
					if t.Failed() {
						return
					}
					if happened == 0 {
						if n < 8 {
							t.Errorf("the last cut was after %d messages, want more", n)
						}
						return // every message has been cut at
					}
				}
			})
		}
	}
}

// TestLateTransaction lets the transaction that was given up arrive at the server after the
// store has written the same by another connection: it must find nothing left to do.
func TestLateTransaction(t *testing.T) {
	t.Parallel()
	p, through, direct := proxied(t)
	look := openTest(t, direct, &Options{Schema: "late"})
	s := openTest(t, through, &Options{Schema: "late", Writers: 1})
	warm, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "warm"})
	if _, err := s.Begin(t.Context(), warm, first); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), storetest.Move(warm, pawl.Succeeded, nil)); err != nil {
		t.Fatal(err)
	}
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
	late := func(do func() error) {
		t.Helper()
		c := p.next(cut{toServer: true, late: make(chan struct{})})
		if err := do(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-c.happened:
		default:
			t.Fatal("nothing was cut")
		}
		close(c.late)
		<-c.landed
	}
	late(func() error { _, err := s.Begin(t.Context(), op, first); return err })
	sole(t, look, op, 1)
	c := storetest.Move(op, pawl.Unknown, nil)
	late(func() error { return s.Apply(t.Context(), c) })
	op.State = *c.State
	sole(t, look, op, 2)
	// The operation moves on, and the late change is older than what there is.
	c = storetest.Move(op, pawl.Succeeded, func(s *pawl.State) { s.Ref = "re_1" })
	late(func() error { return s.Apply(t.Context(), c) })
	sole(t, look, op, 3)
	if got, err := look.Get(t.Context(), "", op.ID); err != nil || got.Status != pawl.Succeeded || got.Ref != "re_1" {
		t.Errorf("get: got %v, %v; want SUCCEEDED with re_1", got, err)
	}
}

// TestUndecided: a server that is gone for longer than ConfirmTimeout leaves a begun write
// undecided, and one that has not begun refused.
func TestUndecided(t *testing.T) {
	t.Parallel()
	p, through, direct := proxied(t)
	look := openTest(t, direct, &Options{Schema: "undecided"})
	s := openTest(t, through, &Options{Schema: "undecided", Writers: 1, ConfirmTimeout: 500 * time.Millisecond, BusyTimeout: 200 * time.Millisecond})
	warm, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "warm"})
	if _, err := s.Begin(t.Context(), warm, first); err != nil {
		t.Fatal(err)
	}
	c := p.next(cut{toServer: true, late: make(chan struct{})})
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
	answer := make(chan error, 1)
	go func() { _, err := s.Begin(t.Context(), op, first); answer <- err }()
	<-c.happened
	p.down()
	if err := <-answer; !errors.Is(err, pawl.ErrStoreFailed) {
		t.Errorf("begin: got %v, want %v: it may be written yet", err, pawl.ErrStoreFailed)
	}
	other, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "B"})
	_, err := s.Begin(t.Context(), other, first)
	if !errors.Is(err, pawl.ErrBusy) || errors.Is(err, pawl.ErrStoreFailed) {
		t.Errorf("begin while the server is gone: got %v, want %v: nothing was written", err, pawl.ErrBusy)
	}
	if _, err := s.Get(t.Context(), "", warm.ID); !errors.Is(err, pawl.ErrBusy) {
		t.Errorf("get: got %v, want %v", err, pawl.ErrBusy)
	}
	// What was undecided: here it happens after all.
	close(c.late)
	<-c.landed
	sole(t, look, op, 1)
	p.up()
	if _, err := s.Begin(t.Context(), other, first); err != nil {
		t.Errorf("begin when the server is back: %v", err)
	}
	if _, err := look.Get(t.Context(), "", other.ID); err != nil {
		t.Error(err)
	}
}

// run runs a statement on a database and returns the number that it selects, or 0.
func run(t *testing.T, url, sql string, args ...any) (n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	rows, err := c.Query(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	for rows.Next() {
		if v, err := rows.Values(); err == nil && len(v) > 0 {
			n, _ = v[0].(int64)
		}
	}
	if rows.Err() != nil {
		t.Fatalf("%s: %v", sql, rows.Err())
	}
	return n
}
