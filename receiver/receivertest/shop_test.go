package receivertest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/receiver"
)

// shop is a sample service: POST /pay and /refund write a row, POST /pay/{key}/undo undoes
// one, POST /wire also writes a line elsewhere, GET /effects counts rows. It runs in a
// process of its own, so that it can be killed.
type shop struct {
	db      *sql.DB
	dialect receiver.Dialect
	fault   string
	wires   string // the file of what is elsewhere

	mu     sync.Mutex
	claims map[string]claim // of the faulty ones
}

// serveShop is the process: it listens at an address until it is killed.
func serveShop(address, driver, source, fault, wires string) error {
	s := &shop{fault: fault, wires: wires, claims: map[string]claim{}}
	var err error
	if s.db, err = sql.Open("dying-"+driver, source); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(32) // PostgreSQL takes 100
	if driver == "pgx" {
		s.dialect = receiver.PostgreSQL
	}
	if err := s.migrate(context.Background()); err != nil {
		return err
	}
	o := receiver.Options{Terms: receiver.Terms{Retention: 2 * time.Second, Tombstone: time.Hour}, Timeout: 3 * time.Second, Log: slog.New(slog.DiscardHandler)}
	rec := receiver.New(s.db, s.dialect, caller, &o)
	o.Outside = true
	outside := receiver.New(s.db, s.dialect, caller, &o)
	wrap := rec.Wrap
	if fault != "" {
		wrap = s.sloppy
	}
	mux := http.NewServeMux()
	for _, path := range []string{"/pay", "/refund"} {
		mux.Handle("POST "+path, dying(wrap(http.HandlerFunc(s.work))))
		mux.Handle("GET "+path+"/{key}", rec.Record(http.MethodPost))
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "[]") })
	}
	mux.Handle("POST /pay/{key}/undo", rec.Wrap(http.HandlerFunc(s.undo)))
	mux.Handle("POST /wire", dying(outside.Wrap(http.HandlerFunc(s.wire))))
	mux.Handle("GET /wire/{key}", outside.Record(http.MethodPost))
	mux.HandleFunc("GET /effects", s.count)
	mux.HandleFunc("POST /store/{is}", func(_ http.ResponseWriter, r *http.Request) { storeAway.Store(r.PathValue("is") == "away") })
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return http.Serve(l, mux)
}

func (s *shop) migrate(ctx context.Context) error {
	if err := receiver.Migrate(ctx, s.db, s.dialect); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if s.dialect == receiver.PostgreSQL { // two processes may begin at once
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(1)`); err != nil {
			return err
		}
	}
	for _, q := range []string{
		`CREATE TABLE IF NOT EXISTS payments (at TEXT NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS undone (key TEXT NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS sloppy (id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL, expires BIGINT NOT NULL)`,
	} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// caller is who asks: in this service a token is an account.
func caller(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }

// dying is around the receiver: it names the point at which the process is to die, and is
// the first and the last of them.
func dying(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb, point, _ := strings.Cut(r.Header.Get("Receiver-Drill"), "=")
		if verb != "die" {
			next.ServeHTTP(w, r)
			return
		}
		ctx := context.WithValue(r.Context(), pointKey{}, point)
		dieAt(ctx, "received")
		next.ServeHTTP(dyingWriter{w, ctx}, r.WithContext(ctx))
	})
}

type dyingWriter struct {
	http.ResponseWriter
	ctx context.Context
}

func (w dyingWriter) WriteHeader(status int) {
	dieAt(w.ctx, "answering")
	w.ResponseWriter.WriteHeader(status)
}

// undo undoes a payment, once, and a payment that never came for good.
func (s *shop) undo(w http.ResponseWriter, r *http.Request) {
	tx := receiver.Tx(r.Context())
	principal, _ := caller(r)
	original := &receiver.Request{Principal: principal, Method: http.MethodPost, Path: "/pay", Key: r.PathValue("key")}
	state, err := receiver.Undo(r.Context(), receiver.TxOf(tx, s.dialect), original, func(ctx context.Context, _ *receiver.Response) error {
		_, err := tx.ExecContext(ctx, s.q(`INSERT INTO undone (key) VALUES ($1)`), r.PathValue("key"))
		return err
	}, nil)
	if err != nil {
		receiver.Rollback(r.Context(), err)
		return
	}
	fmt.Fprintf(w, `{"was": %q}`, state)
}

// wire has an effect outside the database.
func (s *shop) wire(w http.ResponseWriter, r *http.Request) {
	f, err := os.OpenFile(s.wires, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString("wired\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	dieAt(r.Context(), "outside")
	s.work(w, r)
}

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
	case "record":
		if tx := receiver.Tx(r.Context()); tx != nil {
			_ = tx.Rollback() // so that the record cannot be written; sloppy fails by itself
		}
	case "crash":
		os.Exit(3)
	case "size":
		n, _ := strconv.Atoi(value)
		fmt.Fprintf(w, `{"id": %q}`, strings.Repeat("x", n))
		return
	}
	fmt.Fprintf(w, `{"id": "p-%d"}`, time.Now().UnixNano())
}

func (s *shop) q(query string) string {
	if s.dialect == receiver.PostgreSQL {
		return query
	}
	return strings.ReplaceAll(query, "$", "?")
}
