package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var schemas atomic.Int64

// newSchema names a schema that no other test uses.
func newSchema() string { return fmt.Sprintf("s%d", schemas.Add(1)) }

// openTest opens a store that is closed when the test ends. Without a schema in its
// options it is in one of its own.
func openTest(t testing.TB, url string, o *Options) *DB {
	t.Helper()
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Schema == "" {
		opts.Schema = newSchema()
	}
	db, err := Open(context.Background(), url, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestStore(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	storetest.Run(t, func(t *testing.T) pawl.Store { return openTest(t, url, nil) }, &storetest.Options{Fill: fill})
}

// The suite again, behind a pooler that gives every transaction another session.
func TestStoreBehindPooler(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t, nil)
	url := c.Pooler(t, 8).URL("postgres")
	storetest.Run(t, func(t *testing.T) pawl.Store { return openTest(t, url, nil) }, &storetest.Options{Rows: 2000, Fill: fill})
}

// The suite again, through a host's pool of a single connection: whatever the store does, it
// holds no connection while it waits for another.
func TestStoreInHostsPool(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	storetest.Run(t, func(t *testing.T) pawl.Store {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		Hook(config.ConnConfig)
		config.MaxConns = 1
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		db, err := OpenPool(t.Context(), pool, &Options{Schema: newSchema()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}, &storetest.Options{Rows: 2000, Fill: fill})
}

// fill begins operations in few large transactions.
func fill(t *testing.T, s pawl.Store, ops []*pawl.Operation, firsts [][]byte) {
	t.Helper()
	db := s.(*DB)
	for len(ops) > 0 {
		n := min(len(ops), 5_000)
		batch := make([]write, n)
		for i := range batch {
			b, err := db.newBeginning(ops[i], firsts[i])
			if err != nil {
				t.Fatal(err)
			}
			b.done = make(chan struct{})
			batch[i] = b
		}
		db.settle(nil, batch)
		for _, w := range batch {
			if h := w.head(); h.err != nil || !h.decided {
				t.Fatalf("fill: got %v, decided %t", h.err, h.decided)
			}
		}
		ops, firsts = ops[n:], firsts[n:]
	}
}
