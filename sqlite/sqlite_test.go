package sqlite

import (
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

// work counts the steps of the statements that Claim runs.
func work(s pawl.Store) (steps int64) {
	w := s.(*DB).writer
	for _, stmt := range []*sqlite3.Stmt{w.stmt.nextLane, w.stmt.tool, w.stmt.head, w.stmt.byOp, w.stmt.claim} {
		steps += int64(stmt.Status(sqlite3.STMTSTATUS_VM_STEP, false))
	}
	return steps
}
