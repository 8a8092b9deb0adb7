package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/pawl-dev/pawl/receiver"
)

// TestDrillReceiver tries a service that keeps what it owes and one that does not.
func TestDrillReceiver(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "service.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := receiver.Migrate(t.Context(), db, receiver.SQLite); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE moves (n INTEGER)`); err != nil {
		t.Fatal(err)
	}
	work := func(ex interface {
		Exec(string, ...any) (sql.Result, error)
	}, w http.ResponseWriter) {
		if _, err := ex.Exec(`INSERT INTO moves (n) VALUES (1)`); err != nil {
			http.Error(w, "no", 500)
			return
		}
		w.WriteHeader(201)
	}
	caller := func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }
	mux := http.NewServeMux()
	mux.Handle("POST /kept", receiver.New(db, receiver.SQLite, caller, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		work(receiver.Tx(r.Context()), w)
	})))
	mux.HandleFunc("POST /broken", func(w http.ResponseWriter, _ *http.Request) { work(db, w) })
	mux.HandleFunc("GET /effects", func(w http.ResponseWriter, _ *http.Request) {
		var n int
		if err := db.QueryRow(`SELECT count(*) FROM moves`).Scan(&n); err != nil {
			http.Error(w, "no", 500)
			return
		}
		fmt.Fprintf(w, `{"count": %d}`, n)
	})
	service := httptest.NewServer(mux)
	defer service.Close()
	for _, c := range []struct {
		route, shows string
		fails        bool
	}{
		{"/kept", "0 failed", false},
		{"/broken", "V02   failed", true},
	} {
		cmd := exec.CommandContext(t.Context(), "pawl", "drill", "receiver", service.URL+c.route, "--effects", service.URL+"/effects", "--other-authorization", "Bearer bob")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if _, exited := err.(*exec.ExitError); exited != c.fails || !strings.Contains(out.String(), c.shows) {
			t.Errorf("%s: got %v, want failure: %v, and %q in\n%s%s", c.route, err, c.fails, c.shows, out.String(), errs.String())
		}
	}
}
