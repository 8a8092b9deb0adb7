package receiver_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/receiver"
)

// onEach runs a test on both databases.
func onEach(t *testing.T, f func(t *testing.T, d receiver.Dialect, db *sql.DB)) {
	t.Parallel()
	open := func(t *testing.T, driver, source string, d receiver.Dialect) *sql.DB {
		t.Helper()
		db, err := sql.Open(driver, source)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		if err := receiver.Migrate(t.Context(), db, d); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), `CREATE TABLE moves (n INTEGER NOT NULL)`); err != nil {
			t.Fatal(err)
		}
		return db
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := "file:" + filepath.Join(t.TempDir(), "moves.db") + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate"
		f(t, receiver.SQLite, open(t, "sqlite3", file, receiver.SQLite))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		f(t, receiver.PostgreSQL, open(t, "pgx", pgtest.Database(t), receiver.PostgreSQL))
	})
}

// in runs f in a transaction and commits it if f returns nil.
func in(t *testing.T, db *sql.DB, f func(tx *sql.Tx) error) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func moves(t *testing.T, db *sql.DB) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM moves`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func request(key string) *receiver.Request {
	return &receiver.Request{Principal: "alice", Method: "POST", Path: "/moves", Key: key, Body: []byte(`{"n": 1}`)}
}

// move makes one change in tx and answers.
func move(tx *sql.Tx, status int) func(context.Context) (*receiver.Response, error) {
	return func(ctx context.Context) (*receiver.Response, error) {
		if _, err := tx.ExecContext(ctx, `INSERT INTO moves (n) VALUES (1)`); err != nil {
			return nil, err
		}
		return &receiver.Response{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"id":"m-1"}`)}, nil
	}
}

// once is Once with its transaction.
func once(t *testing.T, db *sql.DB, d receiver.Dialect, req *receiver.Request, status int, terms *receiver.Terms) (res *receiver.Response, err error) {
	t.Helper()
	err = in(t, db, func(tx *sql.Tx) error {
		res, err = receiver.Once(t.Context(), receiver.TxOf(tx, d), req, move(tx, status), terms)
		return err
	})
	return res, err
}

func TestOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		first, err := once(t, db, d, request("k"), 201, nil)
		if err != nil || first.Replayed {
			t.Fatalf("got %+v, %v; want a first answer", first, err)
		}
		again, err := once(t, db, d, request("k"), 201, nil)
		if err != nil || !again.Replayed || again.Status != 201 || string(again.Body) != string(first.Body) {
			t.Errorf("got %+v, %v; want the first answer replayed", again, err)
		}
		other := request("k")
		other.Body = []byte(`{"n": 2}`)
		if _, err := once(t, db, d, other, 201, nil); !errors.Is(err, receiver.ErrMismatch) {
			t.Errorf("got %v, want ErrMismatch", err)
		}
		if n := moves(t, db); n != 1 {
			t.Errorf("got %d moves, want 1", n)
		}
	})
}

// An answer of 500 is rolled back with its change, and the key may come again.
func TestFailureIsRolledBack(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var failure *receiver.Failure
		if _, err := once(t, db, d, request("k"), 500, nil); !errors.As(err, &failure) {
			t.Fatalf("got %v, want a Failure", err)
		}
		if n := moves(t, db); n != 0 {
			t.Errorf("got %d moves after the failure, want 0", n)
		}
		if _, err := once(t, db, d, request("k"), 201, nil); err != nil {
			t.Error(err)
		}
		if n := moves(t, db); n != 1 {
			t.Errorf("got %d moves, want 1", n)
		}
	})
}

// Not-after is judged by the database's clock, and only where nothing is recorded.
func TestNotAfter(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		late := request("late")
		late.NotAfter = time.Now().Add(-time.Minute)
		if _, err := once(t, db, d, late, 201, nil); !errors.Is(err, receiver.ErrTooLate) {
			t.Errorf("got %v, want ErrTooLate", err)
		}
		if n := moves(t, db); n != 0 {
			t.Errorf("got %d moves, want 0", n)
		}
		early := request("early")
		early.NotAfter = time.Now().Add(time.Minute)
		if _, err := once(t, db, d, early, 201, nil); err != nil {
			t.Error(err)
		}
		early.NotAfter = time.Now().Add(-time.Minute)
		if res, err := once(t, db, d, early, 201, nil); err != nil || !res.Replayed {
			t.Errorf("got %+v, %v; want what was done in time replayed", res, err)
		}
	})
}

// The barrier: undo before do, late do after undo, duplicates of each.
func TestUndo(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		undone := 0
		undo := func(key string) receiver.State {
			t.Helper()
			var state receiver.State
			err := in(t, db, func(tx *sql.Tx) (err error) {
				state, err = receiver.Undo(t.Context(), receiver.TxOf(tx, d), request(key), func(context.Context, *receiver.Response) error {
					undone++
					return nil
				}, nil)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return state
		}
		if got := undo("never"); got != receiver.Absent || undone != 0 {
			t.Errorf("undo first: got %s and %d undoings, want absent and none", got, undone)
		}
		if got := undo("never"); got != receiver.Fenced || undone != 0 {
			t.Errorf("undo first, again: got %s and %d undoings, want fenced and none", got, undone)
		}
		if _, err := once(t, db, d, request("never"), 201, nil); !errors.Is(err, receiver.ErrFenced) {
			t.Errorf("the late do: got %v, want ErrFenced", err)
		}
		if _, err := once(t, db, d, request("k"), 201, nil); err != nil {
			t.Fatal(err)
		}
		if got := undo("k"); got != receiver.Done || undone != 1 {
			t.Errorf("got %s and %d undoings, want done and one", got, undone)
		}
		if got := undo("k"); got != receiver.Undone || undone != 1 {
			t.Errorf("again: got %s and %d undoings, want undone and one", got, undone)
		}
		if _, err := once(t, db, d, request("k"), 201, nil); !errors.Is(err, receiver.ErrUndone) {
			t.Errorf("do after undo: got %v, want ErrUndone", err)
		}
		if n := moves(t, db); n != 1 {
			t.Errorf("got %d moves, want 1", n)
		}
	})
}

// TestFence: absence is final behind a fence, and what was done is told.
func TestFence(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		fence := func(key string) (receiver.State, *receiver.Response) {
			t.Helper()
			var s *receiver.Status
			err := in(t, db, func(tx *sql.Tx) (err error) {
				s, err = receiver.Fence(t.Context(), receiver.TxOf(tx, d), request(key), nil)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return s.State, s.Response
		}
		if state, _ := fence("never"); state != receiver.Fenced {
			t.Errorf("got %s, want fenced", state)
		}
		if _, err := once(t, db, d, request("never"), 201, nil); !errors.Is(err, receiver.ErrFenced) {
			t.Errorf("got %v, want ErrFenced", err)
		}
		if _, err := once(t, db, d, request("k"), 201, nil); err != nil {
			t.Fatal(err)
		}
		if state, res := fence("k"); state != receiver.Done || res == nil || string(res.Body) != `{"id":"m-1"}` {
			t.Errorf("got %s, %+v; want done with its answer", state, res)
		}
		if n := moves(t, db); n != 1 {
			t.Errorf("got %d moves, want 1", n)
		}
	})
}

// Records end by the database's clock: replayed, then refused, then forgotten.
func TestRetention(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		age := func(by time.Duration) {
			t.Helper()
			q := `UPDATE pawl_receipts SET expires = expires - $1, forget = forget - $1`
			if d == receiver.SQLite {
				q = `UPDATE pawl_receipts SET expires = expires - ?1, forget = forget - ?1`
			}
			if _, err := db.ExecContext(t.Context(), q, by.Milliseconds()); err != nil {
				t.Fatal(err)
			}
		}
		terms := &receiver.Terms{Retention: time.Hour, Tombstone: 10 * time.Hour}
		if _, err := once(t, db, d, request("k"), 201, terms); err != nil {
			t.Fatal(err)
		}
		age(2 * time.Hour)
		if _, err := once(t, db, d, request("k"), 201, terms); !errors.Is(err, receiver.ErrExpired) {
			t.Errorf("past the retention: got %v, want ErrExpired", err)
		}
		if n, err := receiver.Prune(t.Context(), db, d, 100); err != nil || n != 0 {
			t.Errorf("a tombstone: pruned %d, %v; want none", n, err)
		}
		age(10 * time.Hour)
		if n, err := receiver.Prune(t.Context(), db, d, 100); err != nil || n != 1 {
			t.Errorf("past the tombstone: pruned %d, %v; want 1", n, err)
		}
	})
}

// Two paths that lead to one change, an API and a webhook, meet at the key of the change
// (trial I13).
func TestTwoPaths(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		order := func() *receiver.Request {
			return &receiver.Request{Principal: "shop", Path: "orders", Key: "cart-7"}
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for { // as both of them are sent again
					_, err := once(t, db, d, order(), 201, nil)
					if !errors.Is(err, receiver.ErrInFlight) {
						if err != nil {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		wg.Wait()
		if n := moves(t, db); n != 1 {
			t.Errorf("got %d moves, want 1", n)
		}
	})
}

// What is unknown is told so, is never forgotten, and ends when somebody settles it.
func TestSettle(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		claim := func(key string) (c *receiver.Claim, err error) {
			err = in(t, db, func(tx *sql.Tx) error {
				c, _, err = receiver.Begin(t.Context(), receiver.TxOf(tx, d), request(key), nil)
				return err
			})
			return c, err
		}
		settle := func(key string, found *receiver.Response) (settled bool) {
			t.Helper()
			err := in(t, db, func(tx *sql.Tx) (err error) {
				settled, err = receiver.Settle(t.Context(), receiver.TxOf(tx, d), request(key), found, nil)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return settled
		}
		for _, key := range []string{"done", "not", "late"} {
			if _, err := claim(key); err != nil {
				t.Fatal(err)
			}
			if _, err := claim(key); !errors.Is(err, receiver.ErrUnknown) {
				t.Errorf("a second claim of %q: got %v, want ErrUnknown", key, err)
			}
		}
		if !settle("done", &receiver.Response{Status: 201, Body: []byte("x")}) || settle("done", nil) || !settle("not", nil) || settle("never", nil) {
			t.Error("want what is unknown settled, once, and nothing else")
		}
		if res, err := once(t, db, d, request("done"), 500, nil); err != nil || !res.Replayed || string(res.Body) != "x" {
			t.Errorf("settled as done: got %+v, %v; want the answer", res, err)
		}
		if _, err := once(t, db, d, request("not"), 201, nil); !errors.Is(err, receiver.ErrFenced) {
			t.Errorf("settled as not done: got %v, want ErrFenced", err)
		}
		if _, err := db.ExecContext(t.Context(), `UPDATE pawl_receipts SET forget = 0`); err != nil {
			t.Fatal(err)
		}
		if n, err := receiver.Prune(t.Context(), db, d, 100); err != nil || n != 2 {
			t.Errorf("pruned %d, %v; want the settled two", n, err)
		}
		if _, err := claim("late"); !errors.Is(err, receiver.ErrUnknown) {
			t.Errorf("past every term: got %v, want ErrUnknown", err)
		}
	})
}

// A claim that somebody settled gives no right any more.
func TestClaimIsFencedOff(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var c *receiver.Claim
		steps := []func(tx receiver.DB) error{
			func(tx receiver.DB) (err error) {
				c, _, err = receiver.Begin(t.Context(), tx, request("k"), nil)
				return err
			},
			func(tx receiver.DB) error {
				_, err := receiver.Settle(t.Context(), tx, request("k"), nil, nil)
				return err
			},
		}
		for _, step := range steps {
			if err := in(t, db, func(tx *sql.Tx) error { return step(receiver.TxOf(tx, d)) }); err != nil {
				t.Fatal(err)
			}
		}
		err := in(t, db, func(tx *sql.Tx) error { return c.Finish(t.Context(), receiver.TxOf(tx, d)) })
		if !errors.Is(err, receiver.ErrUnknown) {
			t.Errorf("got %v, want ErrUnknown", err)
		}
	})
}
