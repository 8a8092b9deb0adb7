package evidence

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"github.com/pawl-dev/pawl/internal/rule"
)

// errShut is what a write gets once its attempt was given up.
var errShut = errors.New("attempt was given up")

// wire is a connection below TLS that counts the bytes whose write was begun, and that
// can be shut, so that what has not left by then never will.
type wire struct {
	net.Conn
	// changed is signalled when the reader waits for new bytes.
	changed chan struct{}

	mu    sync.Mutex
	busy  bool            // an attempt holds the connection
	done  <-chan struct{} // the end of that attempt's context
	shut  bool
	epoch int   // counts the attempts
	begun int64 // bytes begun in this epoch, less what returned unwritten
	read  int64
	// quiet is the number of read bytes that belong to finished exchanges; -1 where the
	// peer may speak at any time (TLS and HTTP/2 frames of the connection).
	quiet   int64
	early   bool // bytes came in before the first byte of the request went out
	waiting bool // the reader has used up what came and waits for more
}

func newWire(c net.Conn, quiet int64) *wire {
	return &wire{Conn: c, quiet: quiet, changed: make(chan struct{}, 1)}
}

// signal wakes whoever waits for the connection to come to rest.
func (w *wire) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// begin hands the connection to an attempt that ends when done is closed.
func (w *wire) begin(done <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch++
	w.busy, w.done, w.begun, w.early = true, done, 0, false
}

// finish takes the connection back in good order.
func (w *wire) finish(http2 bool) (begun int64, early bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.done = false, nil
	w.quiet = w.read
	if http2 {
		w.quiet = -1
	}
	return w.begun, w.early
}

// seal ends all writing: the counters it returns are final.
func (w *wire) seal() (begun int64, early bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = true
	return w.begun, w.early
}

// atRest reports whether the reader has used up everything that came.
func (w *wire) atRest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}

// ended looks at what has arrived on an idle connection and was not read yet: the peer's end,
// or, where it may not speak unasked, any byte. A request sent into it could prove nothing.
func (w *wire) ended(http2 bool) bool {
	c, ok := w.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	bytes, over := peek(raw)
	return over || bytes && !http2
}

// Write refuses once the attempt is over, and otherwise counts before it writes.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.shut || w.busy && closed(w.done) {
		w.mu.Unlock()
		return 0, errShut
	}
	if w.busy && w.begun == 0 && w.quiet >= 0 && w.read > w.quiet {
		w.early = true
	}
	w.begun += int64(len(p))
	epoch := w.epoch
	w.mu.Unlock()

	n, err := w.Conn.Write(p)
	if n < len(p) {
		w.mu.Lock()
		if w.epoch == epoch {
			w.begun -= int64(len(p) - n)
		}
		w.mu.Unlock()
	}
	return n, err
}

func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	w.waiting = true
	w.mu.Unlock()
	w.signal()
	n, err := w.Conn.Read(p)
	w.mu.Lock()
	w.waiting = false
	w.read += int64(n)
	w.mu.Unlock()
	return n, err
}

// Close drops what the kernel still holds if an attempt was given up: bytes that a dead
// link keeps back would otherwise land long after everybody stopped listening.
func (w *wire) Close() error {
	w.mu.Lock()
	abort := w.busy || w.shut
	w.shut = true
	w.mu.Unlock()
	if c, ok := w.Conn.(interface{ SetLinger(int) error }); ok && abort && rule.Holds(rule.GivenUpIsDropped) {
		c.SetLinger(0) // fails only on a connection that is closed already
	}
	return w.Conn.Close()
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
