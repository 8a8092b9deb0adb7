package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/storetest"
)

// TestBackup copies a store while others write to it.
func TestBackup(t *testing.T) {
	t.Parallel()
	db := openTest(t, newPath(t), small())
	ops, err := begun(t, db, 50)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			op, first := storetest.Op(storetest.Seed{Tool: "mail", Run: "meanwhile", Step: fmt.Sprint(i), Identity: fmt.Sprint(i)})
			if _, err := db.Begin(t.Context(), op, first); err != nil {
				t.Error(err)
			}
		}
	})
	to := filepath.Join(t.TempDir(), "copy.db")
	err = db.Backup(t.Context(), to)
	stop()
	writer.Wait()
	if err != nil {
		t.Fatal(err)
	}
	twin := openTest(t, to, small())
	if err := twin.Recovery(); !errors.Is(err, ErrOtherFile) {
		t.Errorf("recovery of the copy: got %v, want %v", err, ErrOtherFile)
	}
	kept(t, twin, ops)
	if err := twin.Check(t.Context()); err != nil {
		t.Errorf("check of the copy: %v", err)
	}

	if err := db.Backup(t.Context(), to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("into a file that is there: got %v, want %v", err, fs.ErrExist)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	other := filepath.Join(t.TempDir(), "other.db")
	if err := db.Backup(ended, other); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: got %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(other)); err != nil || len(left) != 0 {
		t.Errorf("a backup that failed leaves %d files, %v; want none", len(left), err)
	}
}
