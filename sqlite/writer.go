package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

const (
	maxBatch      = 512     // writes in one transaction
	maxBatchBytes = 8 << 20 // bytes in one transaction, about
	maxKnownLanes = 1 << 14 // lanes kept in memory
)

// writer owns the only connection that writes. One goroutine takes all writes that wait,
// applies them in one transaction, makes it durable and then releases the waiters, while
// the next ones gather.
type writer struct {
	db   *DB
	conn *sqlite3.Conn
	stmt statements

	pages      int // in the WAL after the last commit
	checkpoint int // the number of pages at which the next checkpoint is made

	lanes  map[[2]string]int64 // by tenant and tool; only what is committed or about to be
	served int64               // the lane that Claim served last

	deadline time.Time // of the present wait for the lock
	stopped  chan struct{}
}

// statements are prepared once and live as long as the writer.
type statements struct {
	begin, commit, rollback *sqlite3.Stmt

	newest, byKey, byStep, byOnce, bySubject, byOp, byID *sqlite3.Stmt
	lane, tool, nextLane, head, version                  *sqlite3.Stmt

	insertLane, insertIntent, deleteIntent, insertState, insertEntry, insertContract *sqlite3.Stmt

	updateState, claim, refuse, lease, confirm *sqlite3.Stmt
}

func newWriter(db *DB, conn *sqlite3.Conn) (*writer, error) {
	w := &writer{db: db, conn: conn, checkpoint: db.opts.checkpointPages(), lanes: map[[2]string]int64{}, stopped: make(chan struct{})}
	for sql, dst := range map[string]**sqlite3.Stmt{
		`BEGIN IMMEDIATE`: &w.stmt.begin,
		`COMMIT`:          &w.stmt.commit,
		`ROLLBACK`:        &w.stmt.rollback,
		selectNewest:      &w.stmt.newest,
		selectByKey:       &w.stmt.byKey,
		selectByStep:      &w.stmt.byStep,
		selectByOnce:      &w.stmt.byOnce,
		selectBySubject:   &w.stmt.bySubject,
		selectByOp:        &w.stmt.byOp,
		selectByID:        &w.stmt.byID,
		selectLane:        &w.stmt.lane,
		selectTool:        &w.stmt.tool,
		selectNextLane:    &w.stmt.nextLane,
		selectHead:        &w.stmt.head,
		selectVersion:     &w.stmt.version,
		insertLane:        &w.stmt.insertLane,
		insertIntent:      &w.stmt.insertIntent,
		deleteIntent:      &w.stmt.deleteIntent,
		insertState:       &w.stmt.insertState,
		insertEntry:       &w.stmt.insertEntry,
		insertContract:    &w.stmt.insertContract,
		updateState:       &w.stmt.updateState,
		updateClaim:       &w.stmt.claim,
		updateRefused:     &w.stmt.refuse,
		updateLease:       &w.stmt.lease,
		updateWitness:     &w.stmt.confirm,
	} {
		s, _, err := conn.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return nil, fmt.Errorf("prepare %q: %w", sql, err)
		}
		*dst = s
	}
	conn.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		if pages < w.pages { // the WAL began anew
			w.checkpoint = db.opts.checkpointPages()
		}
		w.pages = pages
		return nil
	})
	return w, conn.BusyHandler(w.waitForLock)
}

// run is the writer's goroutine. It ends when the queue is closed.
func (w *writer) run() {
	defer close(w.stopped)
	batch := make([]write, 0, maxBatch)
	for range w.db.queue.ready {
		if w.db.closing() {
			return
		}
		batch = w.turn(batch[:0])
		clear(batch)
	}
}

// turn writes one batch. Writes are begun only when the database is locked, so that
// until then their callers may leave.
func (w *writer) turn(batch []write) []write {
	started := time.Now()
	err := w.db.failure()
	if err == nil {
		err = w.lock()
	}
	if err != nil {
		w.db.queue.expire(started, w.refuse(err))
		if w.db.queue.wanted() {
			w.db.queue.wake()
		}
		return batch
	}
	batch = w.db.queue.begin(batch, maxBatch, maxBatchBytes)
	if len(batch) == 0 {
		if err := w.stmt.rollback.Exec(); err != nil {
			w.fail(err)
		}
		return batch
	}
	w.settle(batch, w.transact(batch))
	if w.pages >= w.checkpoint && w.db.failure() == nil {
		w.makeCheckpoint()
	}
	return batch
}

func (w *writer) lock() error {
	w.deadline = time.Now().Add(w.db.opts.BusyTimeout)
	return w.stmt.begin.Exec()
}

// waitForLock is the busy handler: it waits while the time lasts and anybody wants it.
func (w *writer) waitForLock(_ context.Context, count int) bool {
	if time.Now().After(w.deadline) || !w.db.queue.wanted() {
		return false
	}
	pause := time.NewTimer(min(time.Duration(count+1)*time.Millisecond, 10*time.Millisecond))
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-w.db.stop:
		return false
	}
}

// transact applies the batch in the transaction that has begun.
func (w *writer) transact(batch []write) (err error) {
	defer func() {
		if err != nil && !w.conn.GetAutocommit() {
			clear(w.lanes)
			if failed := w.stmt.rollback.Exec(); failed != nil {
				err = fmt.Errorf("%w; roll back: %w", err, failed)
				w.fail(err)
			}
		}
	}()
	for _, x := range batch {
		if err := x.apply(w); err != nil {
			return err
		}
	}
	return w.stmt.commit.Exec()
}

// settle releases the batch. When space was short, the reserve is given up so that
// outcomes can be finished; what begins an operation is refused.
func (w *writer) settle(batch []write, err error) {
	if errors.Is(err, sqlite3.FULL) {
		w.db.reserve.giveUp()
		full := w.refuse(err)
		outcomes := batch[:0]
		for _, x := range batch {
			if x.head().opens {
				x.head().finish(full)
			} else {
				outcomes = append(outcomes, x)
			}
		}
		batch = outcomes
		if len(batch) == 0 {
			return
		}
		if err = w.lock(); err == nil {
			err = w.transact(batch)
		}
	}
	if err != nil {
		err = w.refuse(err)
	}
	for _, x := range batch {
		x.head().finish(err)
	}
}

// refuse turns an error of the transaction into what its writes are told, and closes
// the store to writes where the error is fatal.
func (w *writer) refuse(err error) error {
	if errors.Is(err, pawl.ErrStoreFailed) {
		return err
	}
	told, fatal := explain(err)
	if fatal {
		return w.fail(told)
	}
	return fmt.Errorf("sqlite: %s: %w", w.db.path, told)
}

func (w *writer) fail(err error) error { return w.db.fail(err) }

// makeCheckpoint moves the WAL into the database file. It runs here and not inside a
// commit so that its errors are seen.
func (w *writer) makeCheckpoint() {
	_, _, err := w.conn.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	w.checkpoint = w.pages + w.db.opts.checkpointPages()/4
	told, fatal := explain(err)
	if errors.Is(told, pawl.ErrFull) {
		w.db.reserve.giveUp()
	} else if fatal {
		w.fail(told)
	}
}
