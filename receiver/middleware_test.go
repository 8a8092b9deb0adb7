package receiver_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/receiver"
	"github.com/pawl-dev/pawl/receiver/receiverpgx"
)

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) problem() (code, effect string) {
	var p struct{ Code, Effect string }
	_ = json.Unmarshal([]byte(a.body), &p)
	return p.Code, p.Effect
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", h)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func send(t *testing.T, method, url, key, body string, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return answer{}
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(raw)}
}

// moving is a handler that makes one change and counts its calls.
func moving(calls *atomic.Int32, then func(w http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if _, err := receiver.Tx(r.Context()).ExecContext(r.Context(), `INSERT INTO moves (n) VALUES (1)`); err != nil {
			http.Error(w, "no", 500)
			return
		}
		then(w)
	})
}

func created(w http.ResponseWriter) { w.WriteHeader(201); io.WriteString(w, `{"id":"m-1"}`) }

// A database that is not there means 503 and no effect (V14).
func TestStoreDown(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		url := serve(t, receiver.New(db, d, receiver.OneCaller, nil).Wrap(moving(&calls, created)))
		db.Close()
		got := send(t, "POST", url+"/moves", "k", `{}`)
		if code, effect := got.problem(); got.status != 503 || code != "store_unavailable" || effect != "none" || calls.Load() != 0 {
			t.Errorf("got %d %s %s after %d calls, want 503 store_unavailable none and no call", got.status, code, effect, calls.Load())
		}
	})
}

// A record that cannot be written at the end undoes the change, and nobody is told that it
// was made (V15).
func TestRecordFails(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		url := serve(t, receiver.New(db, d, receiver.OneCaller, nil).Wrap(moving(&calls, created)))
		if _, err := db.ExecContext(t.Context(), `ALTER TABLE pawl_receipts RENAME COLUMN digest TO gone`); err != nil {
			t.Fatal(err)
		}
		if got := send(t, "POST", url+"/moves", "k", `{}`); got.status != 503 {
			t.Errorf("got %d, want 503", got.status)
		}
		if _, err := db.ExecContext(t.Context(), `ALTER TABLE pawl_receipts RENAME COLUMN gone TO digest`); err != nil {
			t.Fatal(err)
		}
		if n := moves(t, db); n != 0 {
			t.Errorf("got %d moves, want 0", n)
		}
		if got := send(t, "POST", url+"/moves", "k", `{}`); got.status != 201 || moves(t, db) != 1 {
			t.Errorf("again: got %d and %d moves, want 201 and 1", got.status, moves(t, db))
		}
	})
}

// Handlers with effects outside the transaction are never called twice: what did not end is
// unknown (V16, trial I7).
func TestOutside(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		broken := true
		r := receiver.New(db, d, receiver.OneCaller, &receiver.Options{Outside: true})
		url := serve(t, r.Wrap(moving(&calls, func(w http.ResponseWriter) {
			if broken {
				panic(http.ErrAbortHandler)
			}
			created(w)
		})))
		status := serve(t, r.Record("POST"))
		send(t, "POST", url+"/moves", "k", `{}`)
		for range 2 {
			got := send(t, "POST", url+"/moves", "k", `{}`)
			if code, _ := got.problem(); got.status != 409 || code != "outcome_unknown" {
				t.Errorf("got %d %s, want 409 outcome_unknown", got.status, code)
			}
		}
		if got := send(t, "GET", status+"/moves/k?fence=1", "", ""); !strings.Contains(got.body, `"state":"unknown"`) {
			t.Errorf("the fence: got %s, want unknown", got.body)
		}
		broken = false
		if got := send(t, "POST", url+"/moves", "k2", `{}`); got.status != 201 {
			t.Errorf("another key: got %d, want 201", got.status)
		}
		if got := send(t, "POST", url+"/moves", "k2", `{}`); got.status != 201 || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("again: got %d, want the replay", got.status)
		}
		if n := calls.Load(); n != 2 {
			t.Errorf("got %d calls, want 2", n)
		}
	})
}

// Answers carry nothing of another session, and a request that is too large, malformed or
// late is refused with nothing done.
func TestRefusals(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		r := receiver.New(db, d, receiver.OneCaller, &receiver.Options{MaxBody: 100})
		url := serve(t, r.Wrap(moving(&calls, func(w http.ResponseWriter) {
			w.Header().Set("Set-Cookie", "session=1")
			w.Header().Set("Content-Type", "application/json")
			created(w)
		})))
		for _, c := range []struct {
			name, body, notAfter, code string
			status                     int
		}{
			{"large", strings.Repeat("x", 101), "", "body_too_large", 413},
			{"late", `{}`, time.Now().Add(-time.Second).Format(time.RFC3339Nano), "not_after_passed", 412},
			{"no instant", `{}`, "soon", "not_after_invalid", 400},
			{"an empty one", `{}`, " ", "not_after_invalid", 400},
			{"further than a fence", `{}`, time.Now().Add(31 * 24 * time.Hour).Format(time.RFC3339Nano), "not_after_invalid", 400},
		} {
			header := []string{"Pawl-Not-After", c.notAfter}
			if c.notAfter == "" {
				header = nil
			}
			got := send(t, "POST", url+"/moves", c.name, c.body, header...)
			if code, effect := got.problem(); got.status != c.status || code != c.code || effect != "none" {
				t.Errorf("%s: got %d %s %s, want %d %s none", c.name, got.status, code, effect, c.status, c.code)
			}
		}
		if n := calls.Load(); n != 0 {
			t.Errorf("got %d calls, want none", n)
		}
		first := send(t, "POST", url+"/moves", "k", `{}`)
		again := send(t, "POST", url+"/moves", "k", `{}`)
		if first.header.Get("Set-Cookie") == "" || again.header.Get("Set-Cookie") != "" {
			t.Errorf("got cookies %q and %q, want one for the first answer alone", first.header.Get("Set-Cookie"), again.header.Get("Set-Cookie"))
		}
		if again.header.Get("Content-Type") != "application/json" {
			t.Errorf("got Content-Type %q, want that of the first answer", again.header.Get("Content-Type"))
		}
	})
}

// A key is found under the path of its request however it is written there, and a query is a
// part of what was asked for.
func TestKeyInPath(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		r := receiver.New(db, d, receiver.OneCaller, nil)
		url := serve(t, r.Wrap(moving(&calls, created)))
		record := serve(t, r.Record("POST"))
		for key, segment := range map[string]string{"a/b": "a%2Fb", "a b": "a%20b", "q": "%22q%22", "%": "%25"} {
			if got := send(t, "POST", url+"/shops/7%2F8/moves", key, `{}`); got.status != 201 {
				t.Fatalf("%s: got %d %s", key, got.status, got.body)
			}
			if got := send(t, "GET", record+"/shops/7%2F8/moves/"+segment+"?fence=1", "", ""); !strings.Contains(got.body, `"state":"done"`) {
				t.Errorf("%s as %s: got %s, want done", key, segment, got.body)
			}
		}
		if got := send(t, "POST", url+"/shops/7%2F8/moves?dry=1", "q", `{}`); got.status != 422 {
			t.Errorf("another query: got %d, want 422", got.status)
		}
		if got := send(t, "GET", record+"/shops/7/moves/?fence=1", "", ""); got.status != 400 {
			t.Errorf("no key: got %d, want 400", got.status)
		}
	})
}

// Of an answer that is too large to keep a repeat is told what there is (V21, trial I10).
func TestLargeAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		r := receiver.New(db, d, receiver.OneCaller, &receiver.Options{MaxAnswer: 6 << 20})
		size := 5 << 20
		url := serve(t, r.Wrap(moving(&calls, func(w http.ResponseWriter) {
			w.Header().Set("Location", "/moves/m-1")
			w.WriteHeader(201)
			io.WriteString(w, strings.Repeat("x", size))
		})))
		if got := send(t, "POST", url+"/moves", "k", `{}`); got.status != 201 || len(got.body) != size {
			t.Fatalf("got %d and %d bytes, want all of it", got.status, len(got.body))
		}
		got := send(t, "POST", url+"/moves", "k", `{}`)
		if code, _ := got.problem(); got.status != 409 || code != "result_not_kept" || got.header.Get("Location") != "/moves/m-1" || !strings.Contains(got.body, `"size":5242880`) {
			t.Errorf("again: got %d %s, Location %q; want 409 result_not_kept with size and Location", got.status, got.body, got.header.Get("Location"))
		}
		if got := send(t, "GET", serve(t, r.Record("POST"))+"/moves/k", "", ""); !strings.Contains(got.body, `"state":"done"`) || !strings.Contains(got.body, `"digest":"`) {
			t.Errorf("the record: got %s, want done with a digest", got.body)
		}
		size = 7 << 20
		got = send(t, "POST", url+"/moves", "k2", `{}`)
		if code, effect := got.problem(); got.status != 500 || code != "answer_too_large" || effect != "none" {
			t.Errorf("too large to hold: got %d %s %s, want 500 answer_too_large none", got.status, code, effect)
		}
		if n := moves(t, db); n != 1 {
			t.Errorf("got %d moves, want 1", n)
		}
	})
}

// Nothing of a key, a body or a caller is in the log, in an answer or in the table (V22).
func TestNothingOfTheKey(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		var log bytes.Buffer
		caller := func(*http.Request) (string, error) { return "secret-caller", nil }
		r := receiver.New(db, d, caller, &receiver.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		url := serve(t, r.Wrap(moving(&calls, created)))
		send(t, "POST", url+"/moves", "secret-key", `{"n":"secret-body"}`)
		all := send(t, "POST", url+"/moves", "secret-key", `{}`).body
		rows, err := db.QueryContext(t.Context(), `SELECT id, fingerprint, header, digest FROM pawl_receipts`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var row [4]string
			if err := rows.Scan(&row[0], &row[1], &row[2], &row[3]); err != nil {
				t.Fatal(err)
			}
			all += strings.Join(row[:], " ")
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		rows.Close()
		if _, err := db.ExecContext(t.Context(), `DROP TABLE pawl_receipts`); err != nil {
			t.Fatal(err)
		}
		all += send(t, "POST", url+"/moves", "secret-key-2", `{"n":"secret-body"}`).body
		if log.Len() == 0 {
			t.Error("the database's failure is not in the log")
		}
		if all += log.String(); strings.Contains(all, "secret") {
			t.Errorf("got something of the key, the body or the caller in %s", all)
		}
	})
}

// A handler that gives up leaves nothing, and its key may come again.
func TestRollback(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		giveUp := true
		r := receiver.New(db, d, receiver.OneCaller, nil)
		work := moving(&calls, created)
		url := serve(t, r.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			work.ServeHTTP(w, r)
			if giveUp {
				receiver.Rollback(r.Context(), receiver.ErrInFlight)
			}
		})))
		got := send(t, "POST", url+"/moves", "k", `{}`)
		if code, effect := got.problem(); got.status != 409 || code != "idempotency_in_flight" || effect != "none" || moves(t, db) != 0 {
			t.Errorf("got %d %s %s and %d moves, want 409 idempotency_in_flight none and none", got.status, code, effect, moves(t, db))
		}
		giveUp = false
		if got := send(t, "POST", url+"/moves", "k", `{}`); got.status != 201 || moves(t, db) != 1 {
			t.Errorf("again: got %d and %d moves, want 201 and 1", got.status, moves(t, db))
		}
	})
}

// What outlasts the time-out can no longer commit.
func TestTimeout(t *testing.T) {
	onEach(t, func(t *testing.T, d receiver.Dialect, db *sql.DB) {
		var calls atomic.Int32
		slow := true
		r := receiver.New(db, d, receiver.OneCaller, &receiver.Options{Timeout: 300 * time.Millisecond})
		work := moving(&calls, created)
		url := serve(t, r.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			work.ServeHTTP(w, r)
			if slow {
				<-r.Context().Done()
			}
		})))
		if got := send(t, "POST", url+"/moves", "k", `{}`); got.status != 503 || moves(t, db) != 0 {
			t.Errorf("got %d and %d moves, want 503 and none", got.status, moves(t, db))
		}
		slow = false
		if got := send(t, "POST", url+"/moves", "k", `{}`); got.status != 201 || moves(t, db) != 1 {
			t.Errorf("again: got %d and %d moves, want 201 and 1", got.status, moves(t, db))
		}
	})
}

// The record is the same through pgx.
func TestThroughPgx(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := receiver.Migrate(t.Context(), db, receiver.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	calls := 0
	for i := range 2 {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			res, err := receiver.Once(t.Context(), receiverpgx.TxOf(tx), request("k"), func(context.Context) (*receiver.Response, error) {
				calls++
				return &receiver.Response{Status: 201, Body: []byte("{}")}, nil
			}, nil)
			if err == nil && res.Replayed != (i == 1) {
				t.Errorf("call %d: replayed %v", i+1, res.Replayed)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls != 1 {
		t.Errorf("got %d calls, want 1", calls)
	}
}
