package receiver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/receiver"
)

func openPostgres(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(20)
	t.Cleanup(func() { db.Close() })
	return db
}

func postgres(t *testing.T) *sql.DB {
	t.Helper()
	db := openPostgres(t, pgtest.Database(t))
	if err := receiver.Migrate(t.Context(), db, receiver.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	return db
}

// createdOnly is work without a change.
func createdOnly(context.Context) (*receiver.Response, error) {
	return &receiver.Response{Status: 201}, nil
}

// While a request is worked on, every other transaction is told so, and told another payload.
func TestInFlightAcrossProcesses(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, err = receiver.Once(t.Context(), receiver.TxOf(tx, receiver.PostgreSQL), request("k"), func(ctx context.Context) (*receiver.Response, error) {
		ask := func(req *receiver.Request) error {
			return in(t, db, func(other *sql.Tx) error {
				_, err := receiver.Once(ctx, receiver.TxOf(other, receiver.PostgreSQL), req, nil, nil)
				return err
			})
		}
		if err := ask(request("k")); !errors.Is(err, receiver.ErrInFlight) {
			t.Errorf("the same request: got %v, want ErrInFlight", err)
		}
		another := request("k")
		another.Body = []byte(`{"n": 2}`)
		if err := ask(another); !errors.Is(err, receiver.ErrMismatch) {
			t.Errorf("another payload: got %v, want ErrMismatch", err)
		}
		for name, f := range map[string]func(tx receiver.DB) (*receiver.Status, error){
			"a look":  func(tx receiver.DB) (*receiver.Status, error) { return receiver.Look(ctx, tx, request("k")) },
			"a fence": func(tx receiver.DB) (*receiver.Status, error) { return receiver.Fence(ctx, tx, request("k"), nil) },
		} {
			var s *receiver.Status
			err := in(t, db, func(other *sql.Tx) (err error) {
				s, err = f(receiver.TxOf(other, receiver.PostgreSQL))
				return err
			})
			if err != nil || s.State != receiver.InFlight {
				t.Errorf("%s: got %+v, %v; want in_flight", name, s, err)
			}
		}
		err := in(t, db, func(other *sql.Tx) error {
			_, err := receiver.Undo(ctx, receiver.TxOf(other, receiver.PostgreSQL), request("k"), nil, nil)
			return err
		})
		if !errors.Is(err, receiver.ErrInFlight) {
			t.Errorf("an undo: got %v, want ErrInFlight", err)
		}
		return createdOnly(ctx)
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

// A request that meets a fence or an undoing which is not committed yet is in flight, never a
// mismatch; and one that meets somebody who only looks is carried out.
func TestMeetsFenceOrLook(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	for name, c := range map[string]struct {
		first func(tx receiver.DB) error
		want  error
	}{
		"fence": {func(tx receiver.DB) error {
			_, err := receiver.Fence(t.Context(), tx, request("fence"), nil)
			return err
		}, receiver.ErrInFlight},
		"undo": {func(tx receiver.DB) error {
			_, err := receiver.Undo(t.Context(), tx, request("undo"), nil, nil)
			return err
		}, receiver.ErrInFlight},
		"look": {func(tx receiver.DB) error {
			_, err := receiver.Look(t.Context(), tx, request("look"))
			return err
		}, nil},
	} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.first(receiver.TxOf(tx, receiver.PostgreSQL)); err != nil {
			t.Fatal(err)
		}
		err = in(t, db, func(other *sql.Tx) error {
			_, err := receiver.Once(t.Context(), receiver.TxOf(other, receiver.PostgreSQL), request(name), createdOnly, nil)
			return err
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

// Copies of one request at the same moment are carried out once, and none of them is taken
// for another request.
func TestCopiesAtOnce(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	const copies, rounds = 12, 40
	for round := range rounds {
		req := request(fmt.Sprint("k-", round))
		var done atomic.Int32
		var wg sync.WaitGroup
		gate := make(chan struct{})
		for range copies {
			wg.Go(func() {
				<-gate
				err := in(t, db, func(tx *sql.Tx) error {
					_, err := receiver.Once(t.Context(), receiver.TxOf(tx, receiver.PostgreSQL), req, func(ctx context.Context) (*receiver.Response, error) {
						done.Add(1)
						return createdOnly(ctx)
					}, nil)
					return err
				})
				if err != nil && !errors.Is(err, receiver.ErrInFlight) {
					t.Errorf("round %d: got %v, want ErrInFlight or the answer", round, err)
				}
			})
		}
		close(gate)
		wg.Wait()
		if n := done.Load(); n != 1 {
			t.Errorf("round %d: carried out %d times, want once", round, n)
		}
	}
}

// Several processes make the table at once when a service starts.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	db := openPostgres(t, pgtest.Database(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := receiver.Migrate(t.Context(), db, receiver.PostgreSQL); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A replica that lags is never a reason to carry a request out: without a record it says
// nothing, and nothing can be carried out or fenced there (trial I11).
func TestReplica(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, nil)
	url := primary.Database(t)
	db := openPostgres(t, url)
	if err := receiver.Migrate(t.Context(), db, receiver.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	standby := primary.Standby(t)
	replica := openPostgres(t, standby.URL(regexp.MustCompile(`test_[0-9]+`).FindString(url)))
	calls := 0
	carryOut := func(db *sql.DB) (res *receiver.Response, err error) {
		err = in(t, db, func(tx *sql.Tx) error {
			res, err = receiver.Once(t.Context(), receiver.TxOf(tx, receiver.PostgreSQL), request("k"), func(ctx context.Context) (*receiver.Response, error) {
				calls++
				return createdOnly(ctx)
			}, nil)
			return err
		})
		return res, err
	}
	look := func() (s *receiver.Status, err error) {
		err = in(t, replica, func(tx *sql.Tx) error {
			s, err = receiver.Look(t.Context(), receiver.TxOf(tx, receiver.PostgreSQL), request("k"))
			return err
		})
		return s, err
	}
	standby.Exec(t, `SELECT pg_wal_replay_pause()`) // it lags from here on
	if _, err := carryOut(db); err != nil {
		t.Fatal(err)
	}
	if _, err := look(); !errors.Is(err, receiver.ErrReplica) {
		t.Errorf("a look at the replica that lags: got %v, want ErrReplica", err)
	}
	if _, err := carryOut(replica); !errors.Is(err, receiver.ErrReplica) {
		t.Errorf("the repeat at the replica: got %v, want ErrReplica", err)
	}
	err := in(t, replica, func(tx *sql.Tx) error {
		_, err := receiver.Fence(t.Context(), receiver.TxOf(tx, receiver.PostgreSQL), request("k"), nil)
		return err
	})
	if !errors.Is(err, receiver.ErrReplica) {
		t.Errorf("a fence at the replica: got %v, want ErrReplica", err)
	}
	if res, err := carryOut(db); err != nil || !res.Replayed || calls != 1 {
		t.Errorf("the repeat at the primary: got %+v, %v after %d calls; want a replay after one", res, err, calls)
	}
	standby.Exec(t, `SELECT pg_wal_replay_resume()`)
	var s *receiver.Status
	for until := time.Now().Add(30 * time.Second); s == nil && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		s, err = look()
	}
	if s == nil || s.State != receiver.Done {
		t.Errorf("the replica that has caught up: got %+v, %v; want done", s, err)
	}
}

// A look in a transaction whose snapshot may be older than the lock is refused.
func TestLookNeedsReadCommitted(t *testing.T) {
	t.Parallel()
	db := postgres(t)
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if s, err := receiver.Look(t.Context(), receiver.TxOf(tx, receiver.PostgreSQL), request("k")); err == nil {
		t.Errorf("got %+v, want an error", s)
	}
}
