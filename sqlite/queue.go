package sqlite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

// write is one change on its way to the writer. apply runs inside the writer's
// transaction: it decides by conditional statements and keeps what it decided in
// itself; an error from it is the transaction's, never the write's own.
type write interface {
	apply(w *writer) error
	head() *header
}

// header is the part of a write that the queue and the writer use.
type header struct {
	stage  atomic.Int32
	queued time.Time
	done   chan struct{}
	err    error // of the transaction; read it after done
	size   int   // bytes it adds to the WAL, about
	opens  bool  // it begins an operation, so it may be refused when space is short
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

// maxQueue bounds the writes that wait; each caller waits with one.
const maxQueue = 1 << 16

// queue holds the writes that wait for the writer.
type queue struct {
	mu      sync.Mutex
	waiting []write
	closed  bool
	ready   chan struct{} // holds a token while waiting may be non-empty
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// push adds a write. Where it is the only one, and take succeeds, its caller has to see to it
// itself; otherwise the writer's goroutine does.
func (q *queue) push(w write, take func() bool) (taken bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, errClosed
	}
	if len(q.waiting) == maxQueue {
		return false, fmt.Errorf("sqlite: %d writes are waiting: %w", maxQueue, pawl.ErrBusy)
	}
	q.waiting = append(q.waiting, w)
	if len(q.waiting) == 1 {
		if taken = take(); !taken {
			q.wake()
		}
	}
	return taken, nil
}

func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// begin moves waiting writes into batch, up to the limits, and marks them begun. Those
// that were withdrawn are dropped.
func (q *queue) begin(batch []write, maxWrites, maxBytes int) []write {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken, bytes := 0, 0
	for _, w := range q.waiting {
		if len(batch) == maxWrites || bytes > maxBytes {
			break
		}
		taken++
		if h := w.head(); h.stage.CompareAndSwap(stageQueued, stageBegun) {
			batch = append(batch, w)
			bytes += h.size
		}
	}
	q.drop(taken)
	return batch
}

// expire fails the writes that have waited since before the given time.
func (q *queue) expire(before time.Time, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := 0
	for _, w := range q.waiting {
		h := w.head()
		if h.queued.After(before) {
			break
		}
		taken++
		if h.stage.CompareAndSwap(stageQueued, stageBegun) {
			h.finish(err)
		}
	}
	q.drop(taken)
}

func (q *queue) drop(n int) {
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	if rest > 0 {
		q.wake()
	}
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0
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

// close refuses further writes and fails those that wait.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.wake()
	q.mu.Unlock()
	q.expire(time.Now(), errClosed)
}

// submit queues a write and waits until it is decided or withdrawn.
func (db *DB) submit(ctx context.Context, w write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.failure(); err != nil {
		return err
	}
	h := w.head()
	h.done = make(chan struct{})
	h.queued = time.Now()
	alone, err := db.queue.push(w, db.writer.takePen)
	if err != nil {
		return err
	}
	if alone {
		db.writer.turnAlone()
	}
	select {
	case <-h.done:
	case <-ctx.Done():
		if h.stage.CompareAndSwap(stageQueued, stageWithdrawn) {
			return ctx.Err()
		}
		<-h.done
	}
	return h.err
}
