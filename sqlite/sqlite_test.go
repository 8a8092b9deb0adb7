package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// small keeps the files of a test small.
func small() *Options { return &Options{WALSize: 1 << 20, Reserve: 64 << 10} }

// openTest opens a store that is closed when the test ends.
func openTest(t testing.TB, path string, o *Options) *DB {
	t.Helper()
	db, err := Open(path, o)
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

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "pawl.db") }

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) pawl.Store { return openTest(t, newPath(t), small()) }, &storetest.Options{Fill: fill, Work: work})
}

// fill begins operations in large batches.
func fill(t *testing.T, s pawl.Store, ops []*pawl.Operation, firsts [][]byte) {
	const callers = 512
	errs := make(chan error, callers)
	for c := range callers {
		go func() {
			for i := c; i < len(ops); i += callers {
				if _, err := s.Begin(t.Context(), ops[i], firsts[i]); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

// counting is a write that reads the counters of the statements that Claim runs.
type counting struct {
	header
	steps int64
}

func (c *counting) apply(w *writer) error {
	for _, s := range []*sqlite3.Stmt{w.stmt.nextLane, w.stmt.tool, w.stmt.head, w.stmt.byOp, w.stmt.claim} {
		c.steps += int64(s.Status(sqlite3.STMTSTATUS_VM_STEP, false))
	}
	return nil
}

// work counts the steps of the query machine.
func work(s pawl.Store) int64 {
	c := &counting{}
	if err := s.(*DB).submit(context.Background(), c); err != nil {
		panic(err)
	}
	return c.steps
}
