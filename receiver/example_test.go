package receiver_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/pawl-dev/pawl/receiver"
)

// openExample is a database of a service that moves stock. A service opens its own.
func openExample() (*sql.DB, func(), error) {
	dir, err := os.MkdirTemp("", "receiver-example-")
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "stock.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err == nil {
		_, err = db.Exec(`CREATE TABLE moves (n INTEGER)`)
	}
	if err == nil {
		err = receiver.Migrate(context.Background(), db, receiver.SQLite)
	}
	return db, func() { db.Close(); os.RemoveAll(dir) }, err
}

// A service that carries each request out once, and tells what became of a key.
func Example() {
	db, end, err := openExample()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	move := func(w http.ResponseWriter, r *http.Request) {
		if _, err := receiver.Tx(r.Context()).Exec(`INSERT INTO moves (n) VALUES (1)`); err != nil {
			receiver.Rollback(r.Context(), err)
			return
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"id": "m-1"}`)
	}

	r := receiver.New(db, receiver.SQLite, receiver.OneCaller, nil)
	mux := http.NewServeMux()
	mux.Handle("POST /moves", r.Wrap(http.HandlerFunc(move)))
	mux.Handle("GET /moves/{key}", r.Record("POST"))

	ask := func(method, path, key string) {
		hr := httptest.NewRequest(method, path, strings.NewReader(`{"sku": "cup", "n": 1}`))
		if key != "" {
			hr.Header.Set("Idempotency-Key", `"`+key+`"`)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, hr)
		body, _, _ := strings.Cut(w.Body.String(), `,"at"`)
		fmt.Println(w.Code, w.Header().Get("Idempotent-Replayed"), body)
	}
	ask("POST", "/moves", "k1")
	ask("POST", "/moves", "k1")
	ask("GET", "/moves/k2?fence=1", "")
	ask("POST", "/moves", "k2")
	var n int
	fmt.Println(db.QueryRow(`SELECT count(*) FROM moves`).Scan(&n), n)
	// Output:
	// 201  {"id": "m-1"}
	// 201 true {"id": "m-1"}
	// 200  {"state":"fenced"
	// 409  {"type":"about:blank","title":"the key is fenced: it was not carried out and will not be","status":409,"code":"key_fenced","effect":"none"}
	// <nil> 1
}

// The record in a transaction of one's own, without HTTP.
func ExampleOnce() {
	db, end, err := openExample()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	ctx := context.Background()
	moveOnce := func(key string) (*receiver.Response, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer tx.Rollback()
		req := &receiver.Request{Principal: "shop", Path: "moves", Key: key}
		res, err := receiver.Once(ctx, receiver.TxOf(tx, receiver.SQLite), req, func(ctx context.Context) (*receiver.Response, error) {
			_, err := tx.ExecContext(ctx, `INSERT INTO moves (n) VALUES (1)`)
			return &receiver.Response{Status: 201, Body: []byte("m-1")}, err
		}, nil)
		if err != nil {
			return nil, err
		}
		return res, tx.Commit()
	}
	for range 2 {
		res, err := moveOnce("k1")
		fmt.Println(string(res.Body), res.Replayed, err)
	}
	// Output:
	// m-1 false <nil>
	// m-1 true <nil>
}

// The barrier: an undoing that comes before what it undoes.
func ExampleUndo() {
	db, end, err := openExample()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	ctx := context.Background()
	original := &receiver.Request{Principal: "shop", Path: "moves", Key: "k1"}
	in := func(f func(tx receiver.DB) error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := f(receiver.TxOf(tx, receiver.SQLite)); err != nil {
			return err
		}
		return tx.Commit()
	}
	err = in(func(tx receiver.DB) error {
		found, err := receiver.Undo(ctx, tx, original, func(context.Context, *receiver.Response) error {
			fmt.Println("undone") // not printed: there is nothing to undo
			return nil
		}, nil)
		fmt.Println("undo found", found)
		return err
	})
	fmt.Println(err)
	err = in(func(tx receiver.DB) error { // it comes late
		_, err := receiver.Once(ctx, tx, original, nil, nil)
		return err
	})
	fmt.Println(err)
	// Output:
	// undo found absent
	// <nil>
	// the key is fenced: it was not carried out and will not be
}
