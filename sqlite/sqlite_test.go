package sqlite

import (
	"context"
	"fmt"
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

// fill begins operations in few large transactions.
func fill(t *testing.T, s pawl.Store, ops []*pawl.Operation, firsts [][]byte) {
	t.Helper()
	db := s.(*DB)
	for len(ops) > 0 {
		n := min(len(ops), 20_000)
		begin := make([]*beginning, n)
		for i := range begin {
			var err error
			if begin[i], err = db.newBeginning(ops[i], firsts[i]); err != nil {
				t.Fatal(err)
			}
		}
		err := db.submit(t.Context(), &within{do: func(w *writer) error {
			for _, b := range begin {
				if err := b.apply(w); err != nil {
					return err
				}
				if b.standing != nil || b.foreign {
					return fmt.Errorf("%s has something in its way", b.row.id)
				}
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ops, firsts = ops[n:], firsts[n:]
	}
}

// within is a write that does what a test wants done in the writer's transaction.
type within struct {
	header
	do func(w *writer) error
}

func (x *within) apply(w *writer) error { return x.do(w) }

// work counts the steps of the query machine in the statements that Claim runs.
func work(s pawl.Store) (steps int64) {
	count := func(w *writer) error {
		for _, s := range []*sqlite3.Stmt{w.stmt.nextLane, w.stmt.tool, w.stmt.head, w.stmt.byOp, w.stmt.claim} {
			steps += int64(s.Status(sqlite3.STMTSTATUS_VM_STEP, false))
		}
		return nil
	}
	if err := s.(*DB).submit(context.Background(), &within{do: count}); err != nil {
		panic(err)
	}
	return steps
}
