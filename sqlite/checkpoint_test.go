package sqlite

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestWALBound has readers come without a pause, so that one is always using the WAL.
func TestWALBound(t *testing.T) {
	t.Parallel()
	db := openTest(t, newPath(t), small())
	longest := beginUnderReads(t, db, 400)
	if most := 6 * db.opts.WALSize; longest > most {
		t.Errorf("WAL: got %d bytes, want at most %d", longest, most)
	}
}

// TestWALGrowsForLongReader has one reader that outlasts every wait: writes go on, and
// the WAL is bounded again when it has left.
func TestWALGrowsForLongReader(t *testing.T) {
	t.Parallel()
	db := openTest(t, newPath(t), small())
	inside, leave := make(chan struct{}), make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		if err := db.read(t.Context(), func(r *reader) error {
			_, err := r.operation("", pawl.ID{1})
			close(inside)
			<-leave
			return err
		}); err != nil {
			t.Errorf("read: %v", err)
		}
	})
	<-inside
	if longest := beginUnderReads(t, db, 100); longest < 2*db.opts.WALSize {
		t.Errorf("WAL: got %d bytes, want it to grow while it is read", longest)
	}
	close(leave)
	reading.Wait()
	if err := db.submit(t.Context(), &within{do: func(w *writer) error { w.patience = time.Time{}; return nil }}); err != nil {
		t.Fatal(err)
	}
	beginUnderReads(t, db, 100)
	fi, err := os.Stat(db.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if most := 6 * db.opts.WALSize; fi.Size() > most {
		t.Errorf("WAL: got %d bytes, want at most %d", fi.Size(), most)
	}
}

// beginUnderReads begins operations while others are read without a pause, and returns
// the greatest length that the WAL had.
func beginUnderReads(t *testing.T, db *DB, operations int) (longest int64) {
	t.Helper()
	const begins, reads = 4, 8
	const view = 5 * time.Millisecond // that one read takes
	var mu sync.Mutex
	var begun atomic.Bool
	var writers, readers sync.WaitGroup
	for range reads {
		readers.Go(func() {
			for !begun.Load() {
				if err := db.read(t.Context(), func(r *reader) error {
					_, err := r.operation("", pawl.ID{1})
					<-time.After(view)
					return err
				}); err != nil {
					t.Errorf("read: %v", err)
					return
				}
			}
		})
	}
	for range begins {
		writers.Go(func() {
			for range operations / begins {
				op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: fmt.Sprint(fileSystems.Add(1))})
				op.Effect = strings.Repeat("many pages ", 6000)
				if _, err := db.Begin(t.Context(), op, first); err != nil {
					t.Errorf("begin: %v", err)
					return
				}
				fi, err := os.Stat(db.path + "-wal")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				longest = max(longest, fi.Size())
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	begun.Store(true)
	readers.Wait()
	return longest
}
