package sqlite

import (
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// walFS is the file system of the writer's connection: what a transaction writes to the
// WAL goes to the operating system in one piece, when the commit syncs it.
type walFS struct{ vfs.VFSFilename }

// gatheringFS names the walFS over a file system of the driver, "" being its default.
func gatheringFS(base string) string {
	name := "pawl-" + base
	if fs, ok := vfs.Find(base).(vfs.VFSFilename); ok && vfs.Find(name) == nil {
		vfs.Register(name, walFS{fs})
	}
	return name
}

// OpenFilename opens a file and, if it is a WAL, gathers its writes.
func (fs walFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, out, err := fs.VFSFilename.OpenFilename(name, flags)
	if err != nil || flags&vfs.OPEN_WAL == 0 {
		return f, out, err
	}
	return &walFile{File: f}, out, nil
}

// maxGathered bounds what is held back.
const maxGathered = 1 << 20

// walFile holds adjoining writes back until they are synced. With synchronous=FULL a
// commit is synced before any other connection may read its frames, so nobody can miss
// them. A transaction that is not committed may leave frames behind; the writer discards
// them, or they would come to lie over those of another process.
type walFile struct {
	vfs.File
	held []byte
	at   int64 // where held belongs
}

// walFileOf finds the WAL of a connection.
func walFileOf(c *sqlite3.Conn) (*walFile, error) {
	f, err := c.FileControl("main", sqlite3.FCNTL_JOURNAL_POINTER)
	if err != nil {
		return nil, err
	}
	file, _ := f.(vfs.File)
	w, ok := vfsutil.UnwrapFile[*walFile](file)
	if !ok {
		return nil, sqlite3.MISUSE
	}
	return w, nil
}

// discard drops what is held. It may be called on nil.
func (f *walFile) discard() {
	if f != nil {
		f.held = f.held[:0]
	}
}

// flush passes on what is held. It is held no longer even if that fails, for then the
// transaction fails too.
func (f *walFile) flush() error {
	if len(f.held) == 0 {
		return nil
	}
	_, err := f.File.WriteAt(f.held, f.at)
	f.discard()
	return err
}

func (f *walFile) WriteAt(p []byte, off int64) (int, error) {
	if off != f.at+int64(len(f.held)) || len(f.held)+len(p) > maxGathered {
		if err := f.flush(); err != nil {
			return 0, err
		}
		f.at = off
	}
	f.held = append(f.held, p...)
	return len(p), nil
}

func (f *walFile) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.at {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	return f.File.ReadAt(p, off)
}

func (f *walFile) Sync(flags vfs.SyncFlag) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

func (f *walFile) Truncate(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *walFile) Size() (int64, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.Size()
}
