package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// faultFS is the operating system's file system with faults. A function that is nil
// never fails; what it returns is the answer in place of doing it.
type faultFS struct {
	vfs.VFSFilename
	open  func(kind vfs.OpenFlag) error
	sync  func(kind vfs.OpenFlag) error
	write func(kind vfs.OpenFlag) error
	read  func(kind vfs.OpenFlag) error
}

var fileSystems atomic.Int64

// register gives a file system a name for Options.vfs.
func register(t testing.TB, fs vfs.VFS) string {
	name := fmt.Sprintf("test-%d", fileSystems.Add(1))
	vfs.Register(name, fs)
	t.Cleanup(func() { vfs.Unregister(name) })
	return name
}

func osFS() vfs.VFSFilename { return vfs.Find("").(vfs.VFSFilename) }

func (fs *faultFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if fs.open != nil {
		if err := fs.open(flags & (vfs.OPEN_MAIN_DB | vfs.OPEN_WAL)); err != nil {
			return nil, flags, err
		}
	}
	f, flags, err := fs.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, flags, err
	}
	return &faultFile{wrapped{f}, fs, flags & (vfs.OPEN_MAIN_DB | vfs.OPEN_WAL)}, flags, nil
}

// wrapped passes on what SQLite asks of a database file beyond reading and writing.
type wrapped struct{ vfs.File }

func (f wrapped) SharedMemory() vfs.SharedMemory {
	if s, ok := f.File.(vfs.FileSharedMemory); ok {
		return s.SharedMemory()
	}
	return nil
}

func (f wrapped) PersistWAL() bool     { return f.File.(vfs.FilePersistWAL).PersistWAL() }
func (f wrapped) SetPersistWAL(v bool) { f.File.(vfs.FilePersistWAL).SetPersistWAL(v) }

type faultFile struct {
	wrapped
	fs   *faultFS
	kind vfs.OpenFlag
}

func (f *faultFile) Sync(flags vfs.SyncFlag) error {
	if f.fs.sync != nil {
		if err := f.fs.sync(f.kind); err != nil {
			return err
		}
	}
	return f.File.Sync(flags)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if f.fs.write != nil {
		if err := f.fs.write(f.kind); err != nil {
			return 0, err
		}
	}
	return f.File.WriteAt(p, off)
}

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.read != nil {
		if err := f.fs.read(f.kind); err != nil {
			return 0, err
		}
	}
	return f.File.ReadAt(p, off)
}

// begun begins operations until one fails, at most n, and returns those that were
// acknowledged and the error.
func begun(t *testing.T, db *DB, n int) (acknowledged []*pawl.Operation, err error) {
	t.Helper()
	for range n {
		op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: fmt.Sprint(fileSystems.Add(1))})
		standing, err := db.Begin(t.Context(), op, first)
		if err != nil {
			return acknowledged, err
		}
		if standing != nil {
			t.Fatalf("begin: got standing by %s, want none", standing.Kind)
		}
		acknowledged = append(acknowledged, op)
	}
	return acknowledged, nil
}

// kept checks that all operations are there and their histories verify.
func kept(t *testing.T, db *DB, ops []*pawl.Operation) {
	t.Helper()
	for _, op := range ops {
		if _, err := db.History(t.Context(), op.Tenant, op.ID); err != nil {
			t.Errorf("acknowledged operation: %v", err)
		}
	}
	if err := db.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
}

func TestSyncFails(t *testing.T) {
	t.Parallel()
	for nth := range 12 {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			var armed, failed atomic.Bool
			var syncs, late atomic.Int64
			fs := &faultFS{VFSFilename: osFS(), sync: func(vfs.OpenFlag) error {
				if armed.Load() && syncs.Add(1) == int64(nth+1) {
					failed.Store(true)
					return sqlite3.IOERR_FSYNC
				}
				return nil
			}, write: func(kind vfs.OpenFlag) error {
				if failed.Load() && kind == vfs.OPEN_MAIN_DB {
					late.Add(1)
				}
				return nil
			}}
			o := small()
			o.WALSize = 8 << 20 // no checkpoint is under way at the fault
			o.vfs = register(t, fs)
			db, err := Open(path, o)
			if err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			ops, err := begun(t, db, 1000)
			if !errors.Is(err, pawl.ErrStoreFailed) || !errors.Is(err, sqlite3.IOERR_FSYNC) {
				t.Errorf("begin at the fault: got %v, want %v with its cause", err, pawl.ErrStoreFailed)
			}
			for range 3 { // the disk is well again, the store is not
				if _, err := begun(t, db, 1); !errors.Is(err, pawl.ErrStoreFailed) {
					t.Errorf("begin after the fault: got %v, want %v", err, pawl.ErrStoreFailed)
				}
			}
			if err := db.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if late.Load() > 0 {
				t.Errorf("the database was written %d times after the fault, want never", late.Load())
			}
			kept(t, openTest(t, path, small()), ops)
		})
	}
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	for _, code := range []sqlite3.ExtendedErrorCode{sqlite3.IOERR_WRITE, sqlite3.IOERR_CORRUPTFS} {
		for _, kind := range []vfs.OpenFlag{vfs.OPEN_WAL, vfs.OPEN_MAIN_DB} {
			t.Run(fmt.Sprint(code, kind), func(t *testing.T) {
				t.Parallel()
				path := newPath(t)
				var armed atomic.Bool
				fs := &faultFS{VFSFilename: osFS(), write: func(k vfs.OpenFlag) error {
					if armed.Load() && k == kind {
						return code
					}
					return nil
				}}
				o := small()
				o.vfs = register(t, fs)
				db, err := Open(path, o)
				if err != nil {
					t.Fatal(err)
				}
				ops, err := begun(t, db, 3)
				if err != nil {
					t.Fatal(err)
				}
				armed.Store(true)
				more, err := begun(t, db, 5000)
				if !errors.Is(err, pawl.ErrStoreFailed) {
					t.Errorf("begin: got %v, want %v", err, pawl.ErrStoreFailed)
				}
				if err := db.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				kept(t, openTest(t, path, small()), append(ops, more...))
			})
		}
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	ops, err := begun(t, openTest(t, path, small()), 50)
	if err != nil {
		t.Fatal(err)
	}
	var armed atomic.Bool
	fs := &faultFS{VFSFilename: osFS(), read: func(vfs.OpenFlag) error {
		if armed.Load() {
			return sqlite3.IOERR_READ
		}
		return nil
	}}
	o := small()
	o.vfs = register(t, fs)
	db := openTest(t, path, o)
	armed.Store(true)
	if _, err := db.Get(t.Context(), "", ops[0].ID); !errors.Is(err, pawl.ErrStoreFailed) || errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("get: got %v, want %v", err, pawl.ErrStoreFailed)
	}
	armed.Store(false)
	if _, err := begun(t, db, 1); !errors.Is(err, pawl.ErrStoreFailed) {
		t.Errorf("begin: got %v, want %v", err, pawl.ErrStoreFailed)
	}
}

// TestReaderCannotOpen: a process without descriptors to spare fails that one read.
func TestReaderCannotOpen(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	fs := &faultFS{VFSFilename: osFS(), open: func(vfs.OpenFlag) error {
		if armed.Load() {
			return sqlite3.CANTOPEN
		}
		return nil
	}}
	o := small()
	o.vfs = register(t, fs)
	db := openTest(t, newPath(t), o)
	ops, err := begun(t, db, 1)
	if err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	if _, err := db.Get(t.Context(), "", ops[0].ID); err == nil || errors.Is(err, pawl.ErrStoreFailed) || errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("get: got %v, want an error of this read alone", err)
	}
	more, err := begun(t, db, 1)
	if err != nil {
		t.Errorf("begin: %v", err)
	}
	armed.Store(false)
	kept(t, db, append(ops, more...))
}

// TestNoSpace has a disk that is full for as long as the reserve takes up its space.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	var scarce, full atomic.Bool
	fs := &faultFS{VFSFilename: osFS(), write: func(vfs.OpenFlag) error {
		if full.Load() {
			return sqlite3.FULL
		}
		if _, err := os.Stat(path + "-reserve"); scarce.Load() && err == nil {
			return sqlite3.FULL
		}
		return nil
	}}
	o := small()
	o.vfs = register(t, fs)
	db := openTest(t, path, o)
	ops, err := begun(t, db, 4)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(op *pawl.Operation) error {
		c := storetest.Move(op, pawl.Succeeded, nil)
		err := db.Apply(t.Context(), c)
		if err == nil {
			op.State = *c.State
		}
		return err
	}
	scarce.Store(true)
	if err := apply(ops[0]); err != nil {
		t.Errorf("outcome on a full disk: got %v, want it written at the reserve's cost", err)
	}
	if _, err := os.Stat(path + "-reserve"); !os.IsNotExist(err) {
		t.Errorf("reserve: got %v, want it gone", err)
	}
	if err := apply(ops[1]); err != nil {
		t.Errorf("outcome after it: %v", err)
	}
	if _, err := begun(t, db, 1); !errors.Is(err, pawl.ErrFull) {
		t.Errorf("begin: got %v, want %v", err, pawl.ErrFull)
	}
	full.Store(true)
	if err := apply(ops[2]); !errors.Is(err, pawl.ErrFull) {
		t.Errorf("outcome on a disk without any space: got %v, want %v", err, pawl.ErrFull)
	}
	full.Store(false)
	scarce.Store(false)
	if err := apply(ops[2]); err != nil {
		t.Errorf("outcome when there is space again: %v", err)
	}
	lookAgain(db)
	more, err := begun(t, db, 1)
	if err != nil {
		t.Errorf("begin when there is space again: %v", err)
	}
	kept(t, db, append(ops, more...))
}

// lookAgain has the time pass after which the reserve is looked for again.
func lookAgain(db *DB) {
	db.reserve.mu.Lock()
	defer db.reserve.mu.Unlock()
	db.reserve.looked = time.Time{}
}

// TestReserveShared: where one process has given the reserve up, none begins operations.
func TestReserveShared(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no device that is always full")
	}
	path := newPath(t)
	one, other := openTest(t, path, small()), openTest(t, path, small())
	if _, err := begun(t, other, 1); err != nil {
		t.Fatal(err)
	}
	one.reserve.giveUp()
	// The link can be removed as a reserve is, without the device.
	other.reserve.path = filepath.Join(t.TempDir(), "reserve")
	if err := os.Symlink("/dev/full", other.reserve.path); err != nil {
		t.Fatal(err)
	}
	lookAgain(other)
	if _, err := begun(t, other, 1); !errors.Is(err, pawl.ErrFull) {
		t.Errorf("begin: got %v, want %v", err, pawl.ErrFull)
	}
	other.reserve.path = one.reserve.path
	lookAgain(other)
	if _, err := begun(t, other, 1); err != nil {
		t.Errorf("begin when there is space again: %v", err)
	}
	if _, err := os.Stat(path + "-reserve"); err != nil {
		t.Errorf("reserve: %v", err)
	}
}

func TestNoSpaceForBegin(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	var full atomic.Bool
	fs := &faultFS{VFSFilename: osFS(), write: func(vfs.OpenFlag) error {
		if full.Load() {
			return sqlite3.FULL
		}
		return nil
	}}
	o := small()
	o.vfs = register(t, fs)
	db := openTest(t, path, o)
	full.Store(true)
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
	if _, err := db.Begin(t.Context(), op, first); !errors.Is(err, pawl.ErrFull) || errors.Is(err, pawl.ErrStoreFailed) {
		t.Errorf("begin: got %v, want %v", err, pawl.ErrFull)
	}
	full.Store(false)
	if _, err := db.Get(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("get: got %v, want %v", err, pawl.ErrNotFound)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	var armed atomic.Bool
	fs := &faultFS{VFSFilename: osFS(), write: func(vfs.OpenFlag) error {
		if armed.Load() {
			return sqlite3.READONLY
		}
		return nil
	}}
	o := small()
	o.vfs = register(t, fs)
	db := openTest(t, path, o)
	armed.Store(true)
	if _, err := begun(t, db, 1); !errors.Is(err, pawl.ErrReadOnly) {
		t.Errorf("begin: got %v, want %v", err, pawl.ErrReadOnly)
	}
	armed.Store(false)
	if _, err := begun(t, db, 1); err != nil {
		t.Errorf("begin when it can be written again: %v", err)
	}
}

// TestFaultInBatch fails the transaction of many writes: each is told, none is kept.
func TestFaultInBatch(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	var armed atomic.Bool
	fs := &faultFS{VFSFilename: osFS(), sync: func(vfs.OpenFlag) error {
		if armed.Load() {
			return sqlite3.IOERR_FSYNC
		}
		return nil
	}}
	o := small()
	o.vfs = register(t, fs)
	db := openTest(t, path, o)
	armed.Store(true)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: fmt.Sprint("batch", i)})
			if _, err := db.Begin(t.Context(), op, first); !errors.Is(err, pawl.ErrStoreFailed) {
				t.Errorf("begin: got %v, want %v", err, pawl.ErrStoreFailed)
			}
		})
	}
	wg.Wait()
}

// TestNoSpaceForNewTool fails the transaction that makes a tool's lane, its contract and
// its first operation: none of them may be taken for stored.
func TestNoSpaceForNewTool(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	fs := &faultFS{VFSFilename: osFS(), write: func(kind vfs.OpenFlag) error {
		if full.Load() && kind == vfs.OPEN_WAL {
			return sqlite3.FULL
		}
		return nil
	}}
	o := small()
	o.vfs = register(t, fs)
	path := newPath(t)
	db := openTest(t, path, o)
	op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
	full.Store(true)
	if _, err := db.Begin(t.Context(), op, first); !errors.Is(err, pawl.ErrFull) {
		t.Errorf("begin: got %v, want %v", err, pawl.ErrFull)
	}
	full.Store(false)
	lookAgain(db)
	if standing, err := db.Begin(t.Context(), op, first); standing != nil || err != nil {
		t.Errorf("begin when there is space again: got %v, %v", standing, err)
	}
	for _, db := range []*DB{db, openTest(t, path, small())} {
		if _, err := db.Get(t.Context(), "", op.ID); err != nil {
			t.Errorf("get: %v", err)
		}
		kept(t, db, []*pawl.Operation{op})
	}
}
