package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

func TestOpenAgain(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := openTest(t, path, small())
	ops, err := begun(t, db, 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, path, small())
	kept(t, db, ops)
	if err := db.Recovery(); err != nil {
		t.Errorf("recovery: got %v, want nil for the same file", err)
	}
}

func TestOpenUnusualPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"with space.db", "a?b#c%20d&e=f+g.db", "ünïcode-😀.db", "link.db"} {
		path := filepath.Join(dir, name)
		if name == "link.db" {
			if err := os.Symlink(filepath.Join(dir, "with space.db"), path); err != nil {
				t.Fatal(err)
			}
		}
		db := openTest(t, path, small())
		if _, err := begun(t, db, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFileMode(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := openTest(t, path, small())
	if _, err := begun(t, db, 1); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-reserve"} {
		fi, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Mode().Perm(); got != 0o600 {
			t.Errorf("mode of %q: got %v, want 0600", "pawl.db"+suffix, got)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, bytes.Repeat([]byte("this is no database\n"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken.db")
	db := openTest(t, broken, small())
	if _, err := begun(t, db, 50); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(broken, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt(bytes.Repeat([]byte{0xff}, 64), 16) // the header behind its magic
	f.Close()

	for _, c := range []struct {
		name, path string
		options    *Options
		want       error
	}{
		{"text file", text, nil, pawl.ErrCorrupt},
		{"broken header", broken, nil, pawl.ErrCorrupt},
		{"folder missing", filepath.Join(dir, "absent", "pawl.db"), nil, fs.ErrNotExist},
		{"folder in place of the file", dir, nil, nil},
		{"no path", "", nil, nil},
		{"small WAL", filepath.Join(dir, "new.db"), &Options{WALSize: 4096}, nil},
		{"negative", filepath.Join(dir, "new.db"), &Options{Readers: -1, BusyTimeout: -1, Reserve: -1}, nil},
	} {
		db, err := Open(c.path, c.options)
		if err == nil {
			db.Close()
			t.Errorf("%s: got no error", c.name)
			continue
		}
		if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if c.path != "" && !strings.Contains(err.Error(), fmt.Sprintf("%q", c.path)) {
			t.Errorf("%s: got %q, which does not name the path", c.name, err)
		}
	}
	if got, err := os.ReadFile(text); err != nil || !bytes.HasPrefix(got, []byte("this is no database")) {
		t.Errorf("text file: was changed (%v)", err)
	}
}

func TestPragmas(t *testing.T) {
	t.Parallel()
	db := openTest(t, newPath(t), small())
	c, err := db.connect("")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, p := range []struct{ pragma, want string }{{"journal_mode", "wal"}, {"synchronous", "2"}} {
		if err := verify(db.writer.conn, p.pragma, p.want); err != nil {
			t.Errorf("writer: %v", err)
		}
	}
	if err := c.Exec(`PRAGMA synchronous = NORMAL`); err != nil {
		t.Fatal(err)
	}
	if err := verify(c, "synchronous", "2"); !errors.Is(err, errUnsafe) {
		t.Errorf("verify of NORMAL: got %v, want %v", err, errUnsafe)
	}
}

func TestWALIsGrown(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := openTest(t, path, small())
	size := func() int64 {
		fi, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	grown := size()
	if grown < small().WALSize-frameSize {
		t.Errorf("WAL: got %d bytes after open, want about %d", grown, small().WALSize)
	}
	if _, err := begun(t, db, 400); err != nil { // several times its size
		t.Fatal(err)
	}
	if got := size(); got > grown+grown/4 {
		t.Errorf("WAL: got %d bytes after many commits, want about %d", got, grown)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Size() > 4*small().WALSize {
		t.Errorf("database: got %d bytes, %v", fi.Size(), err)
	}
}

func TestCopies(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := openTest(t, path, small())
	ops, err := begun(t, db, 5)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	twin := newPath(t)
	copyFile(t, path, twin)
	copyFile(t, path+"-wal", twin+"-wal")
	db = openTest(t, twin, small())
	if err := db.Recovery(); !errors.Is(err, ErrOtherFile) {
		t.Errorf("copy: got %v, want %v", err, ErrOtherFile)
	}
	kept(t, db, ops)
	if err := db.Confirm(t.Context(), &pawl.Restore{At: time.Now(), Until: time.Now(), By: "ana"}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openTest(t, twin, small())
	if err := db.Recovery(); err != nil {
		t.Errorf("copy that was confirmed: got %v, want nil", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(twin + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := openTest(t, twin, small()).Recovery(); !errors.Is(err, ErrWALMissing) {
		t.Errorf("WAL removed: got %v, want %v", err, ErrWALMissing)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNewerSchema(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := openTest(t, path, small())
	if err := migrate(db.uri(""), withSecond(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, small()); !errors.Is(err, pawl.ErrNewerSchema) {
		t.Errorf("open: got %v, want %v", err, pawl.ErrNewerSchema)
	}
}

// withSecond is the migrations and one more, which would not fail if it ran twice.
func withSecond(t *testing.T) fs.FS {
	steps := fstest.MapFS{}
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		steps[name] = &fstest.MapFile{Data: b}
	}
	steps["99999_more.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE IF NOT EXISTS more (n INTEGER);\nINSERT INTO more VALUES (1);\n")}
	return steps
}

// TestMigrateAtOnce migrates from many sides while operations are open and written.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := openTest(t, path, small())
	ops, err := begun(t, db, 50)
	if err != nil {
		t.Fatal(err)
	}
	steps := withSecond(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if err := migrate(db.uri(""), steps); err != nil {
				t.Errorf("migrate: %v", err)
			}
		})
	}
	more, err := begun(t, db, 20)
	if err != nil {
		t.Errorf("begin while it migrates: %v", err)
	}
	wg.Wait()
	kept(t, db, append(ops, more...))
	c, err := db.connect("")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, _, err := c.Prepare(`SELECT count(*) FROM more`)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.Step() || s.ColumnInt64(0) != 1 {
		t.Errorf("the migration ran %d times, want 1", s.ColumnInt64(0))
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	o := small()
	o.BusyTimeout = 200 * time.Millisecond
	db := openTest(t, path, o)
	other, err := db.connect("")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if _, err := begun(t, db, 1); !errors.Is(err, pawl.ErrBusy) {
		t.Errorf("begin: got %v, want %v", err, pawl.ErrBusy)
	}
	if took := time.Since(started); took < o.BusyTimeout || took > o.BusyTimeout+10*time.Second {
		t.Errorf("begin: waited %v, want about %v", took, o.BusyTimeout)
	}
	if err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	ops, err := begun(t, db, 1)
	if err != nil {
		t.Fatalf("begin when the lock is gone: %v", err)
	}
	if got, err := db.Find(t.Context(), pawl.Query{}); err != nil || len(got) != len(ops) {
		t.Errorf("find: got %d operations, %v; want 1: a busy store wrote nothing", len(got), err)
	}
}

// TestBusyWithdrawn has callers leave, and the store close, while it waits for a lock.
func TestBusyWithdrawn(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	o := small()
	o.BusyTimeout = time.Hour
	db := openTest(t, path, o)
	other, err := sqlite3.Open(db.uri(""))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	go func() {
		_, err := begun(t, db, 1)
		errs <- err
	}()
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := db.Begin(ctx, op, first); !errors.Is(err, ctx.Err()) || err == nil {
		t.Errorf("begin: got %v, want %v", err, ctx.Err())
	}
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-errs; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("begin that waited: got %v, want %v", err, fs.ErrClosed)
	}
	if err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if got, err := openTest(t, path, small()).Find(t.Context(), pawl.Query{}); err != nil || len(got) != 0 {
		t.Errorf("find: got %d operations, %v; want none", len(got), err)
	}
}
