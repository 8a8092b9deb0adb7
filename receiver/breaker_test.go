package receiver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/receiver"
)

// onPostgres is onEach for PostgreSQL alone.
func onPostgres(t *testing.T) *sql.DB {
	t.Helper()
	t.Parallel()
	db, err := sql.Open("pgx", pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := receiver.Migrate(t.Context(), db, receiver.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	execute(t, db, `CREATE TABLE moves (n INTEGER NOT NULL)`)
	return db
}

func execute(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// between is a transaction that calls then after its first query.
type between struct {
	receiver.DB
	then func()
}

func (b *between) QueryRow(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	found, err := b.DB.QueryRow(ctx, query, args, dest...)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return found, err
}

// At no point between the statements of a request is its own copy taken for another one.
func TestCopiesAreNoConflict(t *testing.T) {
	db := onPostgres(t)
	copied := func() {
		if _, err := once(t, db, receiver.PostgreSQL, request("k"), 201, nil); !errors.Is(err, receiver.ErrInFlight) {
			t.Errorf("got %v, want ErrInFlight", err)
		}
	}
	err := in(t, db, func(tx *sql.Tx) error {
		_, err := receiver.Once(t.Context(), &between{receiver.TxOf(tx, receiver.PostgreSQL), copied}, request("k"), func(ctx context.Context) (*receiver.Response, error) {
			copied()
			return move(tx, 201)(ctx)
		}, nil)
		return err
	})
	if n := moves(t, db); err != nil || n != 1 {
		t.Errorf("got %d moves, %v; want 1", n, err)
	}
}

// With effects outside, a failure after the handler is never told as no effect.
func TestOutsideFailsAfterTheHandler(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		r := receiver.New(db, d, receiver.OneCaller, &receiver.Options{Outside: true, Timeout: 2 * time.Second})
		url := serve(t, r.Wrap(http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
			<-hr.Context().Done() // the effect outside takes too long, and happens
			created(w)
		})))
		got := send(t, "POST", url+"/moves", "k", `{}`)
		if code, effect := got.problem(); code != "outcome_unknown" || effect != "unknown" {
			t.Errorf("got %d %s %s, want outcome_unknown, unknown", got.status, code, effect)
		}
		got = send(t, "POST", url+"/moves", "k", `{}`)
		if code, _ := got.problem(); got.status != 409 || code != "outcome_unknown" {
			t.Errorf("again: got %d %s, want 409 outcome_unknown", got.status, code)
		}
	})
}

// A request with effects outside whose handler was never called leaves no doubt behind.
func TestOutsideFailsBeforeTheHandler(t *testing.T) {
	db := onPostgres(t)
	execute(t, db, `CREATE SEQUENCE deletes`)
	execute(t, db, `CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF nextval('deletes') = 1 THEN RAISE 'planted'; END IF; RETURN OLD; END $$`)
	execute(t, db, `CREATE TRIGGER fail_once BEFORE DELETE ON pawl_receipts FOR EACH ROW EXECUTE FUNCTION fail_once()`)
	var calls atomic.Int32
	url := serve(t, receiver.New(db, receiver.PostgreSQL, receiver.OneCaller, &receiver.Options{Outside: true}).Wrap(moving(&calls, created)))
	got := send(t, "POST", url+"/moves", "k", `{}`)
	if code, effect := got.problem(); got.status != 503 || effect != "none" || calls.Load() != 0 {
		t.Fatalf("got %d %s %s after %d calls, want 503, none, no call", got.status, code, effect, calls.Load())
	}
	if got := send(t, "POST", url+"/moves", "k", `{}`); got.status != 201 || calls.Load() != 1 {
		t.Errorf("again: got %d %s after %d calls, want 201 after 1", got.status, got.body, calls.Load())
	}
}

// A handler that commits by itself is not told as rolled back.
func TestHandlerThatCommits(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		for _, status := range []int{201, 500} {
			url := serve(t, receiver.New(db, d, receiver.OneCaller, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
				tx := receiver.Tx(hr.Context())
				if _, err := tx.ExecContext(hr.Context(), `INSERT INTO moves (n) VALUES (1)`); err != nil {
					t.Error(err)
				}
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
				w.WriteHeader(status)
			})))
			got := send(t, "POST", url+"/moves", fmt.Sprint(status), `{}`)
			if _, effect := got.problem(); effect == "none" || got.header.Get("Pawl-Effect") == "none" {
				t.Errorf("%d: got %d with no effect, after a change", status, got.status)
			}
		}
	})
}

// Prune leaves a record alone whose life was made longer while Prune waited for it.
func TestPruneBesideUndo(t *testing.T) {
	db := onPostgres(t)
	if _, err := once(t, db, receiver.PostgreSQL, request("k"), 201, nil); err != nil {
		t.Fatal(err)
	}
	execute(t, db, `UPDATE pawl_receipts SET forget = 0`)
	pruned := make(chan error, 1)
	err := in(t, db, func(tx *sql.Tx) error {
		_, err := receiver.Undo(t.Context(), receiver.TxOf(tx, receiver.PostgreSQL), request("k"), func(context.Context, *receiver.Response) error { return nil }, nil)
		go func() {
			_, err := receiver.Prune(t.Context(), db, receiver.PostgreSQL, 10)
			pruned <- err
		}()
		for waiting := false; err == nil && !waiting; {
			err = db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'DELETE%')`).Scan(&waiting)
		}
		return err
	})
	if err := errors.Join(err, <-pruned); err != nil {
		t.Fatal(err)
	}
	if _, err := once(t, db, receiver.PostgreSQL, request("k"), 201, nil); !errors.Is(err, receiver.ErrUndone) {
		t.Errorf("got %v, want ErrUndone", err)
	}
}

// An answer that a key is refused from now on holds for a whole tombstone, also where the
// key was fenced or undone long before.
func TestFenceHoldsAnew(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		nothing := func(context.Context, *receiver.Response) error { return nil }
		undo := func(tx *sql.Tx) error {
			_, err := receiver.Undo(t.Context(), receiver.TxOf(tx, d), request("k"), nothing, nil)
			return err
		}
		fence := func(tx *sql.Tx) error {
			_, err := receiver.Fence(t.Context(), receiver.TxOf(tx, d), request("k"), nil)
			return err
		}
		for _, again := range []func(*sql.Tx) error{fence, undo} {
			if err := in(t, db, fence); err != nil {
				t.Fatal(err)
			}
			execute(t, db, `UPDATE pawl_receipts SET forget = 0`)
			if err := in(t, db, again); err != nil {
				t.Fatal(err)
			}
			if n, err := receiver.Prune(t.Context(), db, d, 10); n != 0 || err != nil {
				t.Errorf("got %d pruned, %v; want none", n, err)
			}
			if _, err := once(t, db, d, request("k"), 201, nil); !errors.Is(err, receiver.ErrFenced) {
				t.Errorf("got %v, want ErrFenced", err)
			}
		}
	})
}

// A slash at the end of a route and an escape that is not needed do not hide a request from
// who asks for it.
func TestSpellingsOfAPath(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		r := receiver.New(db, d, receiver.OneCaller, nil)
		url := serve(t, r.Wrap(moving(&calls, created)))
		record := serve(t, r.Record("POST"))
		for i, path := range []string{"/moves/", "/mo%76es", "/moves"} {
			key := fmt.Sprint(i)
			if got := send(t, "POST", url+path, key, `{}`); got.status != 201 {
				t.Fatalf("%s: got %d %s", path, got.status, got.body)
			}
			if got := send(t, "GET", record+"/moves/"+key+"?fence=1", "", ""); !strings.Contains(got.body, `"state":"done"`) {
				t.Errorf("%s: got %s, want done", path, got.body)
			}
		}
		if got := send(t, "POST", url+"/moves%2F", "0", `{}`); got.header.Get("Idempotent-Replayed") != "" {
			t.Error("an escaped slash is taken for another path")
		}
	})
}

// Headers of a session are not replayed, however a handler spells them.
func TestSessionHeadersAreNotKept(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		url := serve(t, receiver.New(db, d, receiver.OneCaller, nil).Wrap(moving(&calls, func(w http.ResponseWriter) {
			w.Header()["set-cookie"] = []string{"session=1"} //nolint:staticcheck // the spelling is what is tested
			created(w)
		})))
		if got := send(t, "POST", url+"/moves", "k", `{}`); got.header.Get("Set-Cookie") == "" {
			t.Errorf("got %v, want the cookie with the first answer", got.header)
		}
		if got := send(t, "POST", url+"/moves", "k", `{}`); got.status != 201 || got.header.Get("Set-Cookie") != "" {
			t.Errorf("got %d %v, want a replay without the cookie", got.status, got.header)
		}
	})
}

// Texts that differ only in what no text can hold are different requests.
func TestBrokenTexts(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		for i, pair := range [][2]string{{"{\"to\":\"M\xfcller\"}", "{\"to\":\"M\xf6ller\"}"}, {`{"to":"\ud800"}`, `{"to":"\ud801"}`}} {
			one, other := request(fmt.Sprint(i)), request(fmt.Sprint(i))
			one.Body, other.Body = []byte(pair[0]), []byte(pair[1])
			if _, err := once(t, db, d, one, 201, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := once(t, db, d, other, 201, nil); !errors.Is(err, receiver.ErrMismatch) {
				t.Errorf("%q: got %v, want ErrMismatch", pair, err)
			}
		}
	})
}

// A not-after that is there but cannot be read is never left out.
func TestNotAfterIsNeverDropped(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		h := receiver.New(db, d, receiver.OneCaller, nil).Wrap(moving(&calls, created))
		for _, values := range [][]string{{""}, {"2999-01-01T00:00:00Z", "2000-01-01T00:00:00Z"}} {
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
				hr.Header["Pawl-Not-After"] = values
				h.ServeHTTP(w, hr)
			}))
			if got := send(t, "POST", url+"/moves", "k", `{}`); got.status != 400 || calls.Load() != 0 {
				t.Errorf("%q: got %d after %d calls, want 400", values, got.status, calls.Load())
			}
		}
	})
}

// A status is read at READ COMMITTED, whatever the database's default: a snapshot as old as
// the transaction could be older than the key's lock, and show no record where one is.
func TestStatusIsolation(t *testing.T) {
	db := onPostgres(t)
	var calls atomic.Int32
	r := receiver.New(db, receiver.PostgreSQL, receiver.OneCaller, nil)
	if got := send(t, "POST", serve(t, r.Wrap(moving(&calls, created)))+"/moves", "k", `{}`); got.status != 201 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	execute(t, db, `ALTER TABLE pawl_receipts RENAME TO receipts`)
	execute(t, db, `CREATE VIEW pawl_receipts AS SELECT id, fingerprint, current_setting('transaction_isolation') AS state,
		status, header, body, size, digest, created, expires, forget FROM receipts`)
	execute(t, db, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$`)
	db.SetMaxIdleConns(0) // the default holds for new connections
	if got := send(t, "GET", serve(t, r.Record("POST"))+"/moves/k", "", ""); !strings.Contains(got.body, `"state":"read committed"`) {
		t.Errorf("got %s, want a status at read committed", got.body)
	}
}
