package sqlite

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

// Open opens the store in the file at path, which it makes with mode 0600 if there is
// none. It returns ErrCorrupt if the file is no sound SQLite database, ErrForeign if it is
// one of another program, ErrNewerSchema if a newer pawl wrote it, ErrReadOnly if it cannot
// be written, and ErrBusy if another program holds it locked.
func Open(path string, o *Options) (*DB, error) {
	db, err := open(path, o)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %q: %w", path, err)
	}
	return db, nil
}

func open(path string, o *Options) (_ *DB, err error) {
	db := &DB{queue: newQueue(), stop: make(chan struct{})}
	if o != nil {
		db.opts = *o
	}
	if err := db.opts.validate(); err != nil {
		return nil, err
	}
	db.opts.withDefaults()
	db.gate = newGate(db.opts.Readers)
	var mode fs.FileMode
	if db.path, mode, err = prepareFile(path, db.opts.MustExist); err != nil {
		return nil, err
	}
	walGone, err := lostWAL(db.path)
	if err != nil {
		return nil, err
	}
	// What comes first and once is done on a connection of its own.
	setup, err := db.connect(db.opts.vfs)
	if err != nil {
		return nil, withHint(err)
	}
	err = db.prepareStore(setup, walGone)
	if err == nil {
		// The driver makes the file of the WAL's index with the process's mode.
		err = os.Chmod(db.path+"-shm", mode)
	}
	if err == nil {
		db.reserve = reserve{path: db.path + "-reserve", size: db.opts.Reserve}
		err = db.reserve.open()
	}
	if err == nil {
		err = db.openWriter()
	}
	// Not earlier: the last connection to close would cut the WAL down.
	if err = errors.Join(err, closeConn(setup, err != nil && !errors.Is(err, ErrForeign))); err != nil {
		if db.checkpointer != nil {
			err = errors.Join(err, closeConn(db.checkpointer.conn, true), closeConn(db.writer.conn, true))
		}
		return nil, withHint(err)
	}
	go db.writer.run()
	go db.checkpointer.run()
	return db, nil
}

// openWriter opens the connections that the writer and the checkpointer own.
func (db *DB) openWriter() (err error) {
	if db.writer, err = newWriter(db); err != nil {
		return err
	}
	if db.checkpointer, err = newCheckpointer(db); err != nil {
		return errors.Join(err, closeConn(db.writer.conn, true))
	}
	return nil
}

// prepareStore makes the file a store, or finds that it is one.
func (db *DB) prepareStore(c *sqlite3.Conn, walGone bool) error {
	fresh, err := db.recognise(c)
	if err != nil {
		return err
	}
	if err := db.configure(c); err != nil {
		return err
	}
	if fresh {
		if err := c.Exec(fmt.Sprintf(`PRAGMA application_id = %d`, applicationID)); err != nil {
			return err
		}
	}
	if err := migrate(db.uri(db.opts.vfs), migrations); err != nil {
		return err
	}
	if err := db.witness(c, walGone); err != nil {
		return err
	}
	return db.growWAL(c)
}

// applicationID marks a file as a store of pawl in SQLite's own header: "pawl".
const applicationID = 0x7061776c

// recognise tells a store from a new file, and refuses a database that is neither. It
// changes nothing in the file.
func (db *DB) recognise(c *sqlite3.Conn) (fresh bool, err error) {
	var id, tables, ours int64
	err = db.insist(func() error {
		s, _, err := c.Prepare(`SELECT application_id, (SELECT count(*) FROM sqlite_schema),
			(SELECT count(*) FROM sqlite_schema WHERE name = '` + schemaTable + `') FROM pragma_application_id`)
		if err != nil {
			return err
		}
		defer s.Close()
		if s.Step() {
			id, tables, ours = s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2)
		}
		return s.Err()
	})
	switch {
	case err != nil:
		return false, err
	case id == applicationID || ours > 0:
		return false, nil
	case id == 0 && tables == 0:
		if db.opts.MustExist {
			return false, ErrNoStore
		}
		return true, nil
	}
	// Whoever closes this database last tidies up beside it, as its own program does.
	_, err = c.FileControl("main", sqlite3.FCNTL_PERSIST_WAL, false)
	return false, errors.Join(ErrForeign, err)
}

// insist repeats what SQLite does not wait for by itself: two processes may turn a new
// file to WAL at once.
func (db *DB) insist(do func() error) error {
	for end := time.Now().Add(db.opts.BusyTimeout); ; {
		err := do()
		if !errors.Is(err, sqlite3.BUSY) || time.Now().After(end) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// withHint gives an error of opening its meaning and says what to do about it.
func withHint(err error) error {
	told, _ := explain(err)
	switch {
	case errors.Is(told, ErrForeign):
		return fmt.Errorf("%w (give the store a file of its own)", told)
	case errors.Is(told, pawl.ErrCorrupt):
		return fmt.Errorf("%w (restore the file from a backup; do not write to this one)", told)
	case errors.Is(told, pawl.ErrBusy):
		return fmt.Errorf("%w (another program holds the file locked)", told)
	}
	return told
}

// prepareFile checks the place of the file, makes an empty one if there is none and there
// need not be one, and returns its real path and its mode.
func prepareFile(path string, mustExist bool) (string, fs.FileMode, error) {
	if path == "" {
		return "", 0, errors.New("path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", 0, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	flags := os.O_RDWR | os.O_CREATE
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		return "", 0, fmt.Errorf("it is a folder, name a file: %w", syscall.EISDIR)
	} else if mustExist {
		if errors.Is(err, fs.ErrNotExist) {
			return "", 0, ErrNoStore
		}
		flags = os.O_RDWR
	}
	if err := checkFileSystem(filepath.Dir(path)); err != nil {
		return "", 0, err
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return "", 0, fmt.Errorf("%w: %w", pawl.ErrReadOnly, err)
	} else if err != nil {
		return "", 0, err
	}
	fi, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, err
	}
	// A symbolic link to a file that was missing leads somewhere only now.
	real, err := filepath.EvalSymlinks(path)
	if err == nil && filepath.Dir(real) != filepath.Dir(path) {
		err = checkFileSystem(filepath.Dir(real))
	}
	return real, fi.Mode().Perm(), err
}

// lostWAL reports whether the write-ahead log is gone. A file of one page has never had
// anything moved into it from a log: another process is just making it. The size is read
// first, because the log is there before the file grows.
func lostWAL(path string) (bool, error) {
	fi, err := os.Stat(path)
	if err != nil || fi.Size() <= pageSize {
		return false, err
	}
	_, err = os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// uri names the file for the driver; the files beside it get its mode.
func (db *DB) uri(vfs string) string {
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(db.path), RawQuery: "modeof=" + escape(db.path)}
	if vfs != "" {
		u.RawQuery += "&vfs=" + escape(vfs)
	}
	return u.String()
}

// connect opens a connection that leaves the WAL in place when it is the last to close.
func (db *DB) connect(vfs string) (*sqlite3.Conn, error) {
	c, err := sqlite3.OpenFlags(db.uri(vfs), sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
	if err != nil {
		return nil, err
	}
	err = c.BusyTimeout(db.opts.BusyTimeout)
	if err == nil {
		_, err = c.FileControl("main", sqlite3.FCNTL_PERSIST_WAL, true)
	}
	if err == nil {
		err = c.Exec(`PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY`)
	}
	if err != nil {
		return nil, errors.Join(err, closeConn(c, true))
	}
	return c, nil
}

// configure makes the connection a writer's and verifies what durability rests on.
func (db *DB) configure(c *sqlite3.Conn) error {
	if err := db.insist(func() error { return c.Exec(`PRAGMA journal_mode = WAL`) }); err != nil {
		return err
	}
	// fullfsync concerns macOS alone, where a plain sync leaves data in the drive. A commit
	// after the split of a page goes through the whole cache, so that a large one costs more
	// than the reads it saves.
	for _, p := range []string{
		`synchronous = ` + db.opts.synchronous, `fullfsync = ON`, `checkpoint_fullfsync = ON`,
		`cache_size = -8192`, fmt.Sprintf(`journal_size_limit = %d`, db.opts.WALSize),
	} {
		if err := c.Exec(`PRAGMA ` + p); err != nil {
			return fmt.Errorf("pragma %s: %w", p, err)
		}
	}
	if err := verify(c, "journal_mode", "wal"); err != nil {
		return err
	}
	level := map[string]string{"FULL": "2", "NORMAL": "1"}[db.opts.synchronous]
	return verify(c, "synchronous", level)
}

// verify reads a pragma back.
func verify(c *sqlite3.Conn, pragma, want string) error {
	s, _, err := c.Prepare(`PRAGMA ` + pragma)
	if err != nil {
		return err
	}
	defer s.Close()
	if !s.Step() {
		return fmt.Errorf("pragma %s: no answer: %w", pragma, errors.Join(s.Err(), errUnsafe))
	}
	if got := s.ColumnText(0); got != want {
		return fmt.Errorf("pragma %s is %s, want %s: %w", pragma, got, want, errUnsafe)
	}
	return nil
}

var errUnsafe = errors.New("commits would not be durable")

// growWAL writes the WAL to its full size once: a transaction too large for the cache
// spills into it, and is then rolled back.
func (db *DB) growWAL(c *sqlite3.Conn) error {
	fi, err := os.Stat(db.path + "-wal")
	if err != nil {
		return err
	}
	if fi.Size() >= db.opts.WALSize-frameSize {
		return nil
	}
	err = c.Exec(fmt.Sprintf(`PRAGMA cache_size = 16; BEGIN IMMEDIATE; CREATE TABLE pad (b BLOB); INSERT INTO pad VALUES (zeroblob(%d))`,
		db.opts.WALSize/frameSize*pageSize))
	if !c.GetAutocommit() {
		err = errors.Join(err, c.Exec(`ROLLBACK`))
	}
	if errors.Is(err, sqlite3.FULL) {
		return nil // commits will find out
	}
	return err
}

// witness compares the file with the one that the store remembers.
func (db *DB) witness(c *sqlite3.Conn, walGone bool) error {
	filesystem, inode, err := identify(db.path)
	if err != nil {
		return err
	}
	var id [16]byte
	rand.Read(id[:]) // never fails
	s, _, err := c.Prepare(insertWitness)
	if err != nil {
		return err
	}
	defer s.Close()
	p := params{s: s}
	p.blob(id[:])
	p.int(filesystem)
	p.int(inode)
	if first, err := p.exec(); first || err != nil {
		return err
	}
	if err := db.readRestore(c); err != nil {
		return err
	}
	q, _, err := c.Prepare(selectWitness)
	if err != nil {
		return err
	}
	defer q.Close()
	if !q.Step() {
		return errors.Join(q.Err(), fmt.Errorf("table store is empty: %w", pawl.ErrCorrupt))
	}
	switch {
	case q.ColumnInt64(0) != filesystem || q.ColumnInt64(1) != inode:
		db.recovery = fmt.Errorf("sqlite: %s: %w", db.path, ErrOtherFile)
	case walGone:
		db.recovery = fmt.Errorf("sqlite: %s-wal: %w", db.path, ErrWALMissing)
	}
	return q.Err()
}

// readRestore reads the last restore that was recorded.
func (db *DB) readRestore(c *sqlite3.Conn) error {
	s, _, err := c.Prepare(selectRestore)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Step() {
		db.restored = &pawl.Restore{
			Copied: instant(s.ColumnInt64(0)), At: instant(s.ColumnInt64(1)), Until: instant(s.ColumnInt64(2)), By: s.ColumnText(3),
		}
	}
	return s.Err()
}
