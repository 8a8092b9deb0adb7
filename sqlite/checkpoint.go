package sqlite

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

// checkpointer moves the WAL into the database file while the writer goes on. What the
// writer added meanwhile is little; the writer moves that itself, between two batches,
// and then the WAL begins anew, if no reader is using it just then. Errors are seen here,
// as they would not be if SQLite made checkpoints inside commits.
type checkpointer struct {
	db     *DB
	conn   *sqlite3.Conn
	ask    chan struct{} // nobody waits to send: while it works it can't be asked
	copied atomic.Bool   // the WAL as it was when it was asked is in the file
	done   chan struct{}
}

func newCheckpointer(db *DB) (*checkpointer, error) {
	conn, err := db.connect(db.opts.vfs)
	if err != nil {
		return nil, err
	}
	if err := db.configure(conn); err != nil {
		return nil, errors.Join(err, closeConn(conn, true))
	}
	return &checkpointer{db: db, conn: conn, ask: make(chan struct{}), done: make(chan struct{})}, nil
}

// run is the checkpointer's goroutine. It ends when ask is closed.
func (c *checkpointer) run() {
	defer close(c.done)
	for range c.ask {
		c.copied.Store(c.db.makeCheckpoint(c.conn, sqlite3.CHECKPOINT_PASSIVE))
	}
}

// makeCheckpoint moves what it can and reports whether that went well.
func (db *DB) makeCheckpoint(c *sqlite3.Conn, mode sqlite3.CheckpointMode) bool {
	_, _, err := c.WALCheckpoint("main", mode)
	told, fatal := explain(err)
	switch {
	case errors.Is(told, pawl.ErrFull):
		db.reserve.giveUp()
	case fatal:
		db.fail(told)
	}
	return err == nil
}

// checkpointDue reports whether checkpoint has something to do.
func (w *writer) checkpointDue() bool {
	return w.pages >= w.threshold || w.db.checkpointer.copied.Load()
}

// checkpoint is the writer's part, after each batch.
func (w *writer) checkpoint() {
	switch {
	case w.db.failure() != nil:
	case w.db.checkpointer.copied.CompareAndSwap(true, false):
		if w.pages < w.db.opts.maxPages() || time.Now().Before(w.patience) {
			w.db.makeCheckpoint(w.conn, sqlite3.CHECKPOINT_PASSIVE)
		} else if !w.restartWAL() {
			w.patience = time.Now().Add(restartPause)
		}
	case w.pages >= w.threshold:
		select {
		case w.db.checkpointer.ask <- struct{}{}:
			w.threshold = w.pages + w.db.opts.checkpointPages()/2
		default:
		}
	}
}

const (
	// restartWait bounds how long readers are waited for, once for those of this process and
	// once for those of others; writes and reads stand still meanwhile.
	restartWait = 100 * time.Millisecond
	// restartPause follows when a reader outlasted it.
	restartPause = time.Second
)

// restartWAL moves the rest of the WAL while readers are held back, so that the next
// commit begins it anew, and reports whether it will.
func (w *writer) restartWAL() bool {
	defer w.db.gate.open()
	if !w.db.gate.shut(restartWait) {
		return false
	}
	w.deadline, w.begun = time.Now().Add(restartWait), true
	defer func() { w.begun = false }()
	return w.db.makeCheckpoint(w.conn, sqlite3.CHECKPOINT_RESTART)
}

// committed is told the length of the WAL by every commit.
func (w *writer) committed(_ *sqlite3.Conn, _ string, pages int) error {
	if pages < w.pages { // the WAL began anew
		w.threshold = w.db.opts.checkpointPages()
	}
	w.pages = pages
	return nil
}
