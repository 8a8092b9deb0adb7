package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rule"
)

// Interface guards.
var _ pawl.Store = (*DB)(nil)

// Options of Open. A zero field means its default.
type Options struct {
	// MustExist: Open makes no store, and returns ErrNoStore where there is none. It is for
	// those who only look: a wrong path would read as a store in which nothing is open.
	MustExist bool
	// WALSize is the size in bytes to which the write-ahead log is grown once, so that
	// commits overwrite blocks that exist; when half of it is full it is moved into the database.
	// Where reads without a pause keep it from beginning anew, it grows to about twice the
	// size; then reads are held back for a moment.
	// 0 means 64 MB; the least is 1 MB.
	WALSize int64
	// Reserve is the size in bytes of the file that is removed when space runs out.
	// 0 means 4 MB.
	Reserve int64
	// BusyTimeout bounds the wait for another process's transaction; 0 means 5 s. A
	// caller's context ends its own wait earlier.
	BusyTimeout time.Duration
	// Readers is the greatest number of connections that read; 0 means 4.
	Readers int
	// OnCorrupt is told of every row that Claim or Find refused. It must return quickly and
	// not call the store. Nil logs the error with slog.
	OnCorrupt func(id pawl.ID, err error)

	vfs         string // name of the driver's file system: tests of faults
	synchronous string // tests of what FULL is for
}

func (o *Options) validate() error {
	var errs []error
	if o.WALSize < 0 || o.WALSize > 0 && o.WALSize < 1<<20 {
		errs = append(errs, fmt.Errorf("option WALSize: %d is less than 1 MB", o.WALSize))
	}
	if o.Reserve < 0 {
		errs = append(errs, fmt.Errorf("option Reserve: %d is negative", o.Reserve))
	}
	if o.BusyTimeout < 0 {
		errs = append(errs, fmt.Errorf("option BusyTimeout: %v is negative", o.BusyTimeout))
	}
	if o.Readers < 0 {
		errs = append(errs, fmt.Errorf("option Readers: %d is negative", o.Readers))
	}
	return errors.Join(errs...)
}

func (o *Options) withDefaults() {
	if o.WALSize == 0 {
		o.WALSize = 64 << 20
	}
	if o.Reserve == 0 {
		o.Reserve = 4 << 20
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 5 * time.Second
	}
	if o.Readers == 0 {
		o.Readers = 4
	}
	if o.OnCorrupt == nil {
		o.OnCorrupt = func(id pawl.ID, err error) { slog.Error("row refused", "operation", id.String(), "error", err) }
	}
	if o.synchronous == "" {
		o.synchronous = "FULL"
	}
}

const (
	pageSize = 4096 // SQLite's default
	// frameSize is the size of one page in the WAL, with its header.
	frameSize = pageSize + 24
)

// checkpointPages leaves half of the WAL for what is written while it is moved.
func (o *Options) checkpointPages() int { return int(o.WALSize / 2 / frameSize) }

// maxPages is the length from which the WAL is made to begin anew.
func (o *Options) maxPages() int { return int(2 * o.WALSize / frameSize) }

// DB is a store in one SQLite file.
type DB struct {
	path     string
	opts     Options
	clock    clock
	queue    *queue
	reserve  reserve
	recovery error
	restored *pawl.Restore

	writer       *writer
	checkpointer *checkpointer

	contracts contracts
	failed    atomic.Pointer[error]

	gate *gate // of the readers
	mu   sync.Mutex
	idle []*reader

	stop      chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Now is the wall clock of this process, made never to run backwards.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	if db.closing() {
		return time.Time{}, errClosed
	}
	return db.clock.now(), nil
}

// Close finishes the transaction that has begun, fails the writes that wait, waits for
// the reads under way, and closes the file. It may be called more than once.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		close(db.stop)
		db.queue.close()
		<-db.writer.stopped
		db.writer.pen.Lock() // for good
		db.gate.fill()
		var errs []error
		for _, r := range db.idle {
			errs = append(errs, r.close())
		}
		close(db.checkpointer.ask)
		<-db.checkpointer.done
		failed := db.failure() != nil
		errs = append(errs, closeConn(db.checkpointer.conn, failed), closeConn(db.writer.conn, failed))
		db.closeErr = errors.Join(errs...)
	})
	return db.closeErr
}

// closeConn closes a connection and what it prepared. After a failure the last one
// leaves the WAL as it is, for Open to read.
func closeConn(c *sqlite3.Conn, failed bool) error {
	if failed {
		if _, err := c.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
			return err
		}
	}
	var stmts []*sqlite3.Stmt
	for s := range c.Stmts() {
		stmts = append(stmts, s)
	}
	for _, s := range stmts {
		s.Close() // repeats the error of its last step
	}
	return c.Close()
}

func (db *DB) closing() bool {
	select {
	case <-db.stop:
		return true
	default:
		return false
	}
}

// fail closes the store to writes and returns what its callers are told.
func (db *DB) fail(cause error) error {
	err := fmt.Errorf("sqlite: %s: %w: %w", db.path, pawl.ErrStoreFailed, cause)
	if !rule.Holds(rule.FailStop) {
		return err
	}
	db.failed.CompareAndSwap(nil, &err)
	return *db.failed.Load()
}

func (db *DB) failure() error {
	if err := db.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Errors that Open returns besides the store's own, for errors.Is.
var (
	// ErrNoStore: Options.MustExist was given, and the path has no store.
	ErrNoStore = errors.New("there is no store")
	// ErrForeign: the file is a database of another program. It was not changed.
	ErrForeign = errors.New("this is another program's database")
)

// Errors that Recovery returns, for errors.Is.
var (
	// ErrOtherFile: the file is not the one in which the store was last confirmed.
	ErrOtherFile = errors.New("store was copied or restored")
	// ErrWALMissing: the write-ahead log is gone, and what was only in it.
	ErrWALMissing = errors.New("write-ahead log is missing")
)

// Recovery says why the file may not hold everything that was acknowledged, or may have
// a living twin; nil means that it is the file that was last used. It is found out at
// Open and stays until the store is opened again after Confirm.
func (db *DB) Recovery() error { return db.recovery }

const (
	insertWitness = `INSERT INTO store (one, id, filesystem, inode) VALUES (1, ?1, ?2, ?3) ON CONFLICT DO NOTHING`
	selectWitness = `SELECT filesystem, inode FROM store`
	updateWitness = `UPDATE store SET filesystem = ?1, inode = ?2`
	selectRestore = `SELECT copied, at, until, who FROM restores ORDER BY at DESC LIMIT 1`
	insertRestore = `INSERT INTO restores (copied, at, until, who) VALUES (?1, ?2, ?3, ?4)`
)

// confirmation is the write of Confirm.
type confirmation struct {
	header
	filesystem, inode int64
	restore           *pawl.Restore
}

// Restored is the last restore that Confirm recorded before the store was opened; nil where
// there was none. An executor has to know of it.
func (db *DB) Restored() *pawl.Restore { return db.restored }

// Confirm records that this file is the one that lives, and since when.
func (db *DB) Confirm(ctx context.Context, r *pawl.Restore) error {
	err := r.Validate()
	if err != nil {
		return fmt.Errorf("sqlite: confirm: %w", err)
	}
	x := &confirmation{restore: r}
	if x.filesystem, x.inode, err = identify(db.path); err != nil {
		return fmt.Errorf("sqlite: confirm: %w", err)
	}
	return db.submit(ctx, x)
}

func (x *confirmation) apply(w *writer) error {
	p := params{s: w.stmt.confirm}
	p.int(x.filesystem)
	p.int(x.inode)
	if _, err := p.exec(); err != nil {
		return err
	}
	p = params{s: w.stmt.insertRestore}
	p.int(micros(x.restore.Copied))
	p.int(micros(x.restore.At))
	p.int(micros(x.restore.Until))
	p.text(x.restore.By)
	_, err := p.exec()
	return err
}

// selectUnclaimed counts what is missing in claims.
const selectUnclaimed = `SELECT (
		SELECT count(*) FROM intents i WHERE i.identity_claim IS NOT NULL AND NOT EXISTS (
			SELECT 1 FROM claims c WHERE c.claim = i.identity_claim AND c.n = i.gen AND c.op = i.op)
	) + (
		SELECT count(*) FROM states s WHERE s.once_claim IS NOT NULL AND s.held & 2 AND NOT EXISTS (
			SELECT 1 FROM claims c WHERE c.claim = s.once_claim AND c.n = -1 AND c.op = s.op)
	)`

// Check examines the whole file: SQLite's own structures, then the hash of every
// contract, the seal of every row, and that no row lacks its parts or its claims.
// It takes time in proportion to the file, and the write-ahead log can't begin anew meanwhile.
func (db *DB) Check(ctx context.Context) error {
	var errs []error
	err := db.read(ctx, func(r *reader) error {
		none := func(*params) {}
		err := r.query(`PRAGMA quick_check(10)`, none, func(s *sqlite3.Stmt) {
			if found := s.ColumnText(0); found != "ok" {
				errs = append(errs, fmt.Errorf("sqlite: %s: %s: %w", db.path, found, pawl.ErrCorrupt))
			}
		})
		if err != nil || len(errs) > 0 {
			return err
		}
		err = r.query(`SELECT hash, body FROM contracts`, none, func(s *sqlite3.Stmt) {
			if hash := s.ColumnText(0); contractHash(s.ColumnRawText(1)) != hash && len(errs) < 10 {
				errs = append(errs, fmt.Errorf("sqlite: contract %s: %w", hash, pawl.ErrCorrupt))
			}
		})
		if err != nil {
			return err
		}
		var whole int64
		err = r.query(`SELECT `+columns+` FROM `+joined, none, func(s *sqlite3.Stmt) {
			whole++
			if found := scan(s); !found.sound() && len(errs) < 10 {
				errs = append(errs, fmt.Errorf("sqlite: row of %s failed its check: %w", found.id, pawl.ErrCorrupt))
			}
		})
		if err != nil {
			return err
		}
		err = r.query(`SELECT (SELECT count(*) FROM intents), (SELECT count(*) FROM states)`, none, func(s *sqlite3.Stmt) {
			if intents, states := s.ColumnInt64(0), s.ColumnInt64(1); intents != whole || states != whole {
				errs = append(errs, fmt.Errorf("sqlite: %d intents and %d states make %d operations: %w", intents, states, whole, pawl.ErrCorrupt))
			}
		})
		if err != nil {
			return err
		}
		return r.query(selectUnclaimed, none, func(s *sqlite3.Stmt) {
			if n := s.ColumnInt64(0); n > 0 {
				errs = append(errs, fmt.Errorf("sqlite: %d operations lack a claim that they hold: %w", n, pawl.ErrCorrupt))
			}
		})
	})
	return errors.Join(append(errs, err)...)
}
