package receivertest_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/pawl-dev/pawl/receiver"
)

// shop is a sample service: POST /pay and /refund write a row, GET /effects counts them. It
// runs in a process of its own, so that it can be killed.
type shop struct {
	db      *sql.DB
	dialect receiver.Dialect
	fault   string

	mu     sync.Mutex
	claims map[string]*http.Response // of the faulty ones
}

// serveShop is the process: it listens at an address until it is killed.
func serveShop(address, driver, source, fault string) error {
	s := &shop{fault: fault, claims: map[string]*http.Response{}}
	var err error
	if s.db, err = sql.Open(driver, source); err != nil {
		return err
	}
	if driver == "pgx" {
		s.dialect = receiver.PostgreSQL
	}
	ctx := context.Background()
	if err := receiver.Migrate(ctx, s.db, s.dialect); err != nil {
		return err
	}
	for _, q := range []string{
		`CREATE TABLE IF NOT EXISTS payments (at TEXT NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS sloppy (id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL, expires BIGINT NOT NULL)`,
	} {
		if _, err := s.db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	rec := receiver.New(s.db, s.dialect, &receiver.Options{Terms: receiver.Terms{Retention: 2 * time.Second, Tombstone: time.Hour}})
	mux := http.NewServeMux()
	for _, path := range []string{"/pay", "/refund"} {
		h := http.Handler(http.HandlerFunc(s.work))
		if fault == "" {
			h = rec.Wrap(h)
		} else {
			h = s.sloppy(h)
		}
		mux.Handle("POST "+path, dying(h))
		mux.Handle("GET "+path+"/{key}", rec.Record(http.MethodPost))
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "[]") })
	}
	mux.HandleFunc("GET /effects", s.count)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return http.Serve(l, mux)
}

// dying is around the receiver: the process dies before a request gets there, or when its
// answer, which is committed, begins to leave.
func dying(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Receiver-Drill") {
		case "crash=before":
			os.Exit(3)
		case "crash=answer":
			w = dyingWriter{w}
		}
		next.ServeHTTP(w, r)
	})
}

type dyingWriter struct{ http.ResponseWriter }

func (dyingWriter) WriteHeader(int) { os.Exit(3) }

func (s *shop) count(w http.ResponseWriter, r *http.Request) {
	var n int
	if err := s.db.QueryRowContext(r.Context(), `SELECT count(*) FROM payments`).Scan(&n); err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	fmt.Fprintf(w, `{"count": %d}`, n)
}

// execer is what the work needs: the request's transaction, or in the faulty ones none.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// work makes the change and obeys Receiver-Drill.
func (s *shop) work(w http.ResponseWriter, r *http.Request) {
	var db execer = s.db
	if tx := receiver.Tx(r.Context()); tx != nil {
		db = tx
	}
	verb, value, _ := strings.Cut(r.Header.Get("Receiver-Drill"), "=")
	if verb == "crash" && value == "work" {
		os.Exit(3)
	}
	if verb == "wait" {
		d, _ := time.ParseDuration(value)
		time.Sleep(d)
	}
	if _, err := db.ExecContext(r.Context(), `INSERT INTO payments (at) VALUES ('now')`); err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Set-Cookie", "session=1")
	switch verb {
	case "status":
		status, _ := strconv.Atoi(value)
		w.WriteHeader(status)
	case "panic":
		panic(http.ErrAbortHandler)
	case "crash":
		os.Exit(3)
	case "size":
		n, _ := strconv.Atoi(value)
		fmt.Fprintf(w, `{"id": %q}`, strings.Repeat("x", n))
		return
	}
	fmt.Fprintf(w, `{"id": "p-%d"}`, time.Now().UnixNano())
}

// sloppy is middleware as it is often written, with one of six faults.
func (s *shop) sloppy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := receiver.ParseKey(r.Header, false)
		if err != nil {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(400)
			return
		}
		body, _ := io.ReadAll(r.Body)
		var v any
		_ = json.Unmarshal(body, &v)
		canonical, _ := json.Marshal(v)
		sum := sha256.Sum256(canonical)
		fingerprint := hex.EncodeToString(sum[:])
		id := r.URL.Path + " " + key
		if s.fault != "unscoped" {
			id = r.Header.Get("Authorization") + " " + id
		}
		s.mu.Lock() // one at a time is enough here
		defer s.mu.Unlock()
		found, err := s.known(w, id, fingerprint)
		if found || err != nil {
			return
		}
		out := &held{header: http.Header{}, status: 200}
		next.ServeHTTP(out, r)
		if s.fault == "reexecute_5xx" && out.status >= 500 {
			out.send(w)
			return
		}
		if s.fault == "memory_claims" {
			s.claims[id] = &http.Response{StatusCode: out.status, Header: out.header, Status: fingerprint, Body: io.NopCloser(strings.NewReader(out.body.String()))}
			s.claims[id].Trailer = http.Header{"Body": {out.body.String()}}
		} else if _, err := s.db.ExecContext(r.Context(), s.q(`INSERT INTO sloppy (id, fingerprint, status, body, expires) VALUES ($1, $2, $3, $4, $5)`),
			id, fingerprint, out.status, out.body.String(), time.Now().Add(2*time.Second).UnixMilli()); err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		out.send(w)
	})
}

// known answers from an earlier request.
func (s *shop) known(w http.ResponseWriter, id, fingerprint string) (bool, error) {
	var was, body string
	var status int
	var expires int64
	if s.fault == "memory_claims" {
		c, ok := s.claims[id]
		if !ok {
			return false, nil
		}
		was, body, status, expires = c.Status, c.Trailer.Get("Body"), c.StatusCode, time.Now().Add(time.Hour).UnixMilli()
	} else if err := s.db.QueryRow(s.q(`SELECT fingerprint, body, status, expires FROM sloppy WHERE id = $1`), id).Scan(&was, &body, &status, &expires); err != nil {
		return false, nil
	}
	if time.Now().UnixMilli() > expires {
		if s.fault == "no_tombstone" {
			_, err := s.db.Exec(s.q(`DELETE FROM sloppy WHERE id = $1`), id)
			return false, err
		}
		w.WriteHeader(409)
		return true, nil
	}
	if was != fingerprint && s.fault != "ignore_mismatch" {
		w.WriteHeader(422)
		return true, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Idempotent-Replayed", "true")
	w.WriteHeader(status)
	io.WriteString(w, body)
	return true, nil
}

func (s *shop) q(query string) string {
	if s.dialect == receiver.PostgreSQL {
		return query
	}
	return strings.NewReplacer("$1", "?1", "$2", "?2", "$3", "?3", "$4", "?4", "$5", "?5").Replace(query)
}

// held is an answer that waits for its record.
type held struct {
	header http.Header
	status int
	body   strings.Builder
}

func (h *held) Header() http.Header         { return h.header }
func (h *held) WriteHeader(status int)      { h.status = status }
func (h *held) Write(b []byte) (int, error) { return h.body.Write(b) }

func (h *held) send(w http.ResponseWriter) {
	for name, values := range h.header {
		w.Header()[name] = values
	}
	w.WriteHeader(h.status)
	io.WriteString(w, h.body.String())
}
