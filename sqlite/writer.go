package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rule"
)

const (
	maxBatch      = 512     // writes in one transaction
	maxBatchBytes = 8 << 20 // bytes in one transaction, about
	maxKnown      = 1 << 14 // row numbers of one kind kept in memory
)

// writer owns the only connection that writes. One goroutine takes all writes that wait,
// applies them in one transaction, makes it durable and then releases the waiters, while
// the next ones gather. A caller who finds nobody writing and nothing waiting does so itself:
// alone, it would wait for the goroutine to wake and then for its own.
type writer struct {
	db *DB
	// pen is held by whoever writes; it guards the fields below.
	pen  sync.Mutex
	conn *sqlite3.Conn
	wal  *walFile // nil without synchronous=FULL
	stmt statements

	pages     int       // in the WAL after the last commit
	threshold int       // the number of pages at which the next checkpoint is asked for
	patience  time.Time // until then the WAL is not made to begin anew

	// Row numbers that were seen, of what is committed or about to be.
	lanes  map[[2]string]int64 // by tenant and tool
	ops    map[pawl.ID]int64
	served int64 // the lane that Claim served last

	// Runs that keep no operation from beginning, as long as no other connection has written
	// since: seen is the number by which SQLite tells.
	openRuns map[pawl.Digest]bool
	seen     int64

	deadline time.Time // of the present wait for the lock
	begun    bool      // that wait is for writes that have begun
	hasty    bool      // there is no such wait
	alone    [1]write  // the batch of a caller who writes itself
	wrote    int       // writes in the last batch
	stopped  chan struct{}
}

// statements are prepared once and live as long as the writer.
type statements struct {
	begin, commit, rollback *sqlite3.Stmt

	newest, byKey, byStep, byOnce, bySubject, byOp, byID *sqlite3.Stmt
	lane, tool, nextLane, head, version                  *sqlite3.Stmt

	insertLane, insertIntent, deleteIntent, insertState, insertChange, insertContract *sqlite3.Stmt
	insertClaim, insertClaims, deleteClaim, updateHeld, deleteState                   *sqlite3.Stmt

	updateState, claim, refuse, aside, lease, confirm, insertRestore *sqlite3.Stmt

	run, insertRun, updateRun, seen *sqlite3.Stmt
}

func newWriter(db *DB) (_ *writer, err error) {
	fs := db.opts.vfs
	if db.opts.synchronous == "FULL" {
		fs = gatheringFS(fs)
	}
	w := &writer{db: db, threshold: db.opts.checkpointPages(), lanes: map[[2]string]int64{}, ops: map[pawl.ID]int64{}, openRuns: map[pawl.Digest]bool{}, stopped: make(chan struct{})}
	if w.conn, err = db.connect(fs); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeConn(w.conn, true))
		}
	}()
	if err := db.configure(w.conn); err != nil {
		return nil, err
	}
	for sql, dst := range map[string]**sqlite3.Stmt{
		`BEGIN IMMEDIATE`:     &w.stmt.begin,
		`COMMIT`:              &w.stmt.commit,
		`ROLLBACK`:            &w.stmt.rollback,
		selectNewest:          &w.stmt.newest,
		selectByKey:           &w.stmt.byKey,
		selectByStep:          &w.stmt.byStep,
		selectByOnce:          &w.stmt.byOnce,
		selectBySubject:       &w.stmt.bySubject,
		selectByOp:            &w.stmt.byOp,
		selectByID:            &w.stmt.byID,
		selectLane:            &w.stmt.lane,
		selectTool:            &w.stmt.tool,
		selectNextLane:        &w.stmt.nextLane,
		selectHead:            &w.stmt.head,
		selectVersion:         &w.stmt.version,
		insertLane:            &w.stmt.insertLane,
		insertIntent:          &w.stmt.insertIntent,
		deleteIntent:          &w.stmt.deleteIntent,
		insertState:           &w.stmt.insertState,
		insertChange:          &w.stmt.insertChange,
		insertContract:        &w.stmt.insertContract,
		insertClaim:           &w.stmt.insertClaim,
		insertClaims:          &w.stmt.insertClaims,
		deleteState:           &w.stmt.deleteState,
		deleteClaim:           &w.stmt.deleteClaim,
		updateHeld:            &w.stmt.updateHeld,
		updateState:           &w.stmt.updateState,
		updateClaim:           &w.stmt.claim,
		updateRefused:         &w.stmt.refuse,
		updateAside:           &w.stmt.aside,
		updateLease:           &w.stmt.lease,
		updateWitness:         &w.stmt.confirm,
		insertRestore:         &w.stmt.insertRestore,
		selectRun:             &w.stmt.run,
		insertRun:             &w.stmt.insertRun,
		updateRun:             &w.stmt.updateRun,
		`PRAGMA data_version`: &w.stmt.seen,
	} {
		if !rule.Holds(rule.WritesAreCompared) {
			sql = strings.Replace(sql, "version = ?13 AND token = ?14", "?13 + ?14", 1)
		}
		s, _, err := w.conn.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return nil, fmt.Errorf("prepare %q: %w", sql, err)
		}
		*dst = s
	}
	if fs != db.opts.vfs {
		if w.wal, err = walFileOf(w.conn); err != nil {
			return nil, fmt.Errorf("find write-ahead log: %w", err)
		}
	}
	w.conn.WALHook(w.committed)
	return w, w.conn.BusyHandler(w.waitForLock)
}

// run is the writer's goroutine. It ends when the queue is closed.
func (w *writer) run() {
	defer close(w.stopped)
	batch := make([]write, 0, maxBatch)
	for range w.db.queue.ready {
		if w.db.closing() {
			return
		}
		w.pen.Lock()
		if !w.db.queue.empty() {
			batch = w.turn(batch[:0])
			clear(batch)
		}
		w.checkpoint()
		w.pen.Unlock()
	}
}

// takePen gives the right to write to a caller whose write is the only one, unless writes
// came together just now: more will, and are better written together.
func (w *writer) takePen() bool {
	if !w.pen.TryLock() {
		return false
	}
	if w.wrote > 1 {
		w.pen.Unlock()
		return false
	}
	return true
}

// turnAlone is turn for the caller who has taken the pen. It leaves the write in the queue
// where another process has the database locked, and wakes the writer's goroutine for that
// and for what else there is to do.
func (w *writer) turnAlone() {
	w.hasty = true
	w.turn(w.alone[:0])
	w.hasty = false
	clear(w.alone[:])
	if !w.db.queue.empty() || w.checkpointDue() {
		w.db.queue.wake()
	}
	w.pen.Unlock()
}

// turn writes one batch, up to the room it is given. Writes are begun only when the database
// is locked, so that until then their callers may leave.
func (w *writer) turn(batch []write) []write {
	started := time.Now()
	err := w.db.failure()
	if err == nil {
		err = w.lock()
	}
	if w.hasty && errors.Is(err, sqlite3.BUSY) {
		return batch
	}
	if err != nil {
		w.db.queue.expire(started, w.refuse(err))
		if w.db.queue.wanted() {
			w.db.queue.wake()
		}
		return batch
	}
	batch = w.db.queue.begin(batch, cap(batch), maxBatchBytes)
	w.wrote = len(batch)
	if len(batch) == 0 {
		if err := w.stmt.rollback.Exec(); err != nil {
			w.db.fail(err)
		}
		return batch
	}
	w.settle(batch, w.transact(batch))
	return batch
}

func (w *writer) lock() error {
	w.deadline = time.Now().Add(w.db.opts.BusyTimeout)
	return w.stmt.begin.Exec()
}

// waitForLock is the busy handler: it waits while the time lasts and anybody wants it.
func (w *writer) waitForLock(_ context.Context, count int) bool {
	if w.hasty || time.Now().After(w.deadline) || !w.begun && !w.db.queue.wanted() {
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
		if err == nil {
			return
		}
		if !w.conn.GetAutocommit() {
			if failed := w.stmt.rollback.Exec(); failed != nil {
				err = w.db.fail(fmt.Errorf("%w; roll back: %w", err, failed))
			}
		}
		w.wal.discard()
		clear(w.lanes)
		clear(w.ops)
		clear(w.openRuns)
	}()
	p := params{s: w.stmt.seen}
	if seen, _, err := p.one(); err != nil {
		return err
	} else if seen != w.seen {
		w.seen = seen
		clear(w.openRuns)
	}
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
		w.begun = true
		if err = w.lock(); err == nil {
			err = w.transact(batch)
		}
		w.begun = false
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
		return w.db.fail(told)
	}
	return fmt.Errorf("sqlite: %s: %w", w.db.path, told)
}
