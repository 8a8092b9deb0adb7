package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

// write is one change on its way to a writer: a beginning, an application or a renewal. It
// keeps what was decided in itself.
type write interface{ head() *header }

// header is the part of a write that the queue and the writers use.
type header struct {
	stage atomic.Int32
	done  chan struct{}
	err   error // of the transaction; read it after done

	params *tuple
	size   int // bytes of documents, about
	// claims are what no two writes that are under way may share: the operation and what it
	// claims. That keeps transactions of one process from waiting for each other.
	claims []pawl.Digest
	// contended: another write of this process that shares a claim came first.
	contended bool

	// decided: the statement had its effect, or its effect of an earlier try is confirmed.
	decided bool
	// conflicted: it alone made its transaction fail on a unique index.
	conflicted bool
	// doubtful: an earlier try may have been committed.
	doubtful bool
}

func (h *header) head() *header { return h }

const (
	stageQueued    = iota
	stageBegun     // it will be written, or fail with the transaction
	stageWithdrawn // its caller has left
)

func (h *header) finish(err error) {
	h.err = err
	close(h.done)
}

const (
	// maxQueue bounds the writes that wait; each caller waits with one.
	maxQueue = 1 << 16
	// maxBatch and maxBatchBytes bound one transaction.
	maxBatch      = 512
	maxBatchBytes = 8 << 20
)

// queue holds the writes that wait for a writer, and the claims of those under way.
type queue struct {
	mu      sync.Mutex
	waiting []write
	busy    map[pawl.Digest]bool
	closed  bool
	ready   chan struct{} // holds a token while waiting may have something to take
}

func newQueue() *queue {
	return &queue{busy: map[pawl.Digest]bool{}, ready: make(chan struct{}, 1)}
}

func (q *queue) push(w write) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	if len(q.waiting) == maxQueue {
		return fmt.Errorf("postgres: %d writes are waiting: %w", maxQueue, pawl.ErrBusy)
	}
	q.waiting = append(q.waiting, w)
	q.wake()
	return nil
}

func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// wanted reports whether anybody still waits.
func (q *queue) wanted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiting {
		if w.head().stage.Load() == stageQueued {
			return true
		}
	}
	return false
}

// begin moves what can be written now into batch and marks it begun. A write stays that
// shares a claim with one under way; those that were withdrawn are dropped.
func (q *queue) begin(batch []write) []write {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes, full := 0, false
	left := q.waiting[:0]
	for _, w := range q.waiting {
		h := w.head()
		full = full || len(batch) == maxBatch || bytes > maxBatchBytes
		switch {
		case full:
			left = append(left, w)
		case q.shared(h):
			h.contended = true
			left = append(left, w)
		case h.stage.CompareAndSwap(stageQueued, stageBegun):
			for _, c := range h.claims {
				q.busy[c] = true
			}
			batch = append(batch, w)
			bytes += h.size
		}
	}
	clear(q.waiting[len(left):])
	q.waiting = left
	if full {
		q.wake()
	}
	return batch
}

func (q *queue) shared(h *header) bool {
	for _, c := range h.claims {
		if q.busy[c] {
			return true
		}
	}
	return false
}

// errContended sends a beginning back to look at what came first.
var errContended = errors.New("another write of this process came first")

// release ends the writes of a batch. A beginning that waited for one of them would most
// likely meet it: it goes back to look, instead of waiting for a turn of its own.
func (q *queue) release(batch []write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range batch {
		for _, c := range w.head().claims {
			delete(q.busy, c)
		}
	}
	left := q.waiting[:0]
	for _, w := range q.waiting {
		if b, ok := w.(*beginning); ok && b.contended && !q.shared(&b.header) {
			if b.stage.CompareAndSwap(stageQueued, stageBegun) {
				b.finish(errContended)
			}
			continue
		}
		left = append(left, w)
	}
	clear(q.waiting[len(left):])
	q.waiting = left
	if len(left) > 0 {
		q.wake()
	}
}

// close refuses further writes, fails those that wait and ends the writers.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	for _, w := range q.waiting {
		if h := w.head(); h.stage.CompareAndSwap(stageQueued, stageBegun) {
			h.finish(errClosed)
		}
	}
	q.waiting = nil
	close(q.ready)
}

// submit queues a write and waits until it is decided or withdrawn: because ctx ended, or
// because no writer could take it before the given time.
func (db *DB) submit(ctx context.Context, w write, before time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.failure(ctx); err != nil {
		return err
	}
	h := w.head()
	h.stage.Store(stageQueued)
	h.done, h.err, h.contended = make(chan struct{}), nil, false
	if err := db.queue.push(w); err != nil {
		return err
	}
	late := time.NewTimer(time.Until(before))
	defer late.Stop()
	var why error
	select {
	case <-h.done:
		return h.err
	case <-ctx.Done():
		why = ctx.Err()
	case <-late.C:
		why = db.outOfReach()
	}
	if h.stage.CompareAndSwap(stageQueued, stageWithdrawn) {
		return why
	}
	<-h.done
	return h.err
}
