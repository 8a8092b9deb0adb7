package sqlite

import (
	"errors"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

// checkpointer moves the WAL into the database file while the writer goes on. What the
// writer added meanwhile is little; the writer moves that itself, between two batches,
// and then the WAL begins anew. Errors are seen here, as they would not be if SQLite
// made checkpoints inside commits.
type checkpointer struct {
	db     *DB
	conn   *sqlite3.Conn
	ask    chan struct{}
	copied atomic.Bool // the WAL as it was when it was asked is in the file
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
	return &checkpointer{db: db, conn: conn, ask: make(chan struct{}, 1), done: make(chan struct{})}, nil
}

// run is the checkpointer's goroutine. It ends when ask is closed.
func (c *checkpointer) run() {
	defer close(c.done)
	for range c.ask {
		c.copied.Store(c.db.makeCheckpoint(c.conn))
	}
}

// makeCheckpoint moves what it can and reports whether that went well.
func (db *DB) makeCheckpoint(c *sqlite3.Conn) bool {
	_, _, err := c.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	told, fatal := explain(err)
	switch {
	case errors.Is(told, pawl.ErrFull):
		db.reserve.giveUp()
	case fatal:
		db.fail(told)
	}
	return err == nil
}

// checkpoint is the writer's part, after each batch.
func (w *writer) checkpoint() {
	switch {
	case w.db.failure() != nil:
	case w.db.checkpointer.copied.CompareAndSwap(true, false):
		w.db.makeCheckpoint(w.conn)
	case w.pages >= w.threshold:
		w.threshold = w.pages + w.db.opts.checkpointPages()/2
		select {
		case w.db.checkpointer.ask <- struct{}{}:
		default:
		}
	}
}

// committed is told the length of the WAL by every commit.
func (w *writer) committed(_ *sqlite3.Conn, _ string, pages int) error {
	if pages < w.pages { // the WAL began anew
		w.threshold = w.db.opts.checkpointPages()
	}
	w.pages = pages
	return nil
}
