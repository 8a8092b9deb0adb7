package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
	"github.com/pawl-dev/pawl/internal/rule"
)

// child is a server that runs as a process of ours and speaks on its pipes. Every byte that
// goes to it is counted: a request of which the kernel took none was not sent.
type child struct {
	log    *slog.Logger
	limit  int
	stray  func(m *wire.Message) // gets what belongs to no exchange; does not block
	cmd    *exec.Cmd
	in     *os.File
	turn   chan struct{} // held by the one who writes
	closed chan struct{} // by close
	dead   chan struct{} // when nothing more can come
	exited chan struct{} // when the process has been waited for
	work   sync.WaitGroup

	mu      sync.Mutex
	pending map[int64]*expected
	strays  int // lines of its output that were no message
	closing bool
	once    sync.Once
}

// expected is an exchange whose response is awaited.
type expected struct {
	x        *exchange
	response chan *wire.Message
}

const (
	// maxPending caps the requests that wait for a response of one child.
	maxPending = 4096
	// writeWait bounds the wait until a child reads what is sent to it.
	writeWait = 30 * time.Second
	// endWait is how long a child has to end by itself, and then by a signal.
	endWait = 2 * time.Second
)

var (
	errEnded   = errors.New("the server has ended")
	errBusy    = errors.New("too many requests wait for the server")
	errPartial = errors.New("the server took only a part of the request")
)

// startChild starts a server. The process gets the environment as it is and nothing else.
func startChild(command, env []string, dir string, hide *strings.Replacer, log *slog.Logger, stray func(*wire.Message)) (*child, error) {
	inRead, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	out, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start server: %w", err), inRead.Close(), in.Close())
	}
	errs, errsWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start server: %w", err), inRead.Close(), in.Close(), out.Close(), outWrite.Close())
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Dir = env, dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, errsWrite
	ownGroup(cmd)
	err = cmd.Start()
	for _, f := range []*os.File{inRead, outWrite, errsWrite} {
		f.Close() // the child has its own
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start server: %w", err), in.Close(), out.Close(), errs.Close())
	}
	c := &child{
		log: log.With("pid", cmd.Process.Pid), limit: wire.MaxMessage, stray: stray, cmd: cmd, in: in,
		turn: make(chan struct{}, 1), closed: make(chan struct{}), dead: make(chan struct{}), exited: make(chan struct{}),
		pending: map[int64]*expected{},
	}
	c.work.Go(func() { c.read(out) })
	c.work.Go(func() { logErrors(c.log, errs, hide) })
	c.work.Go(func() { c.wait(out, errs) })
	return c, nil
}

// wait ends what a process leaves behind: others that it started may hold its pipes open.
func (c *child) wait(out, errs *os.File) {
	err := c.cmd.Wait()
	killGroup(c.cmd)
	close(c.exited)
	c.log.Info("server ended", "error", err)
	select {
	case <-c.dead:
	case <-time.After(endWait):
	}
	out.Close()  // ends the reader
	errs.Close() // and the one of its errors
	<-c.dead
	c.in.Close()
}

// read takes the child's messages until its output ends.
func (c *child) read(out io.Reader) {
	defer close(c.dead)
	lines := wire.NewLineReader(out, c.limit)
	for {
		line, err := lines.Next()
		if errors.Is(err, wire.ErrTooLong) {
			c.skip("longer than the limit")
			continue
		}
		if err != nil {
			return
		}
		m, err := wire.Parse(line)
		if err != nil {
			c.skip("no message")
			continue
		}
		c.dispatch(m)
	}
}

// skip counts a line that is no message. Servers print banners and logs there by mistake.
func (c *child) skip(why string) {
	c.mu.Lock()
	c.strays++
	n := c.strays
	c.mu.Unlock()
	if n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th …
		c.log.Warn("a line of the server's output was skipped", "why", why, "count", n)
	}
}

func (c *child) dispatch(m *wire.Message) {
	if m.IsResponse() {
		if e := c.expecting(ownID(m.ID)); e != nil {
			select {
			case e.response <- m:
			default: // a second response to one request
			}
		}
		return
	}
	if e := c.expecting(c.belongsTo(m)); e != nil {
		e.x.tell(m)
		return
	}
	c.stray(m)
}

func (c *child) expecting(id int64) *expected {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[id]
}

// ownID is the number of an id of ours; 0 for any other. Some servers send a number back
// as a text.
func ownID(id wire.ID) int64 {
	n, err := strconv.ParseInt(strings.Trim(string(id), `"`), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// belongsTo is the id of the exchange that a notification names: by the progress token,
// which is that id, or the subscription.
func (c *child) belongsTo(m *wire.Message) int64 {
	if !m.IsNotification() {
		return 0
	}
	if m.Method == wire.NotifyProgress {
		if o, err := wire.ParseObject(m.Params); err == nil {
			return ownID(wire.ID(o.Get(wire.MetaProgressToken)))
		}
		return 0
	}
	return ownID(wire.ID(wire.Meta(m.Params).Get(wire.MetaSubscription)))
}

func (c *child) exchange(ctx context.Context, x *exchange) *outcome {
	e, err := c.expect(x)
	if err != nil {
		return notSent("no_session", err)
	}
	defer c.forget(x.id)
	text := append(wire.Request(wire.NumberID(x.id), x.method, x.params).Append(nil), '\n')
	n, err := c.write(ctx, text)
	if n == 0 && err != nil {
		return notSent("no_bytes", err)
	}
	o := &outcome{facts: pawl.Evidence{
		BytesBegun: int64(n), BodyPulled: int64(n), Peer: fmt.Sprintf("process %d", c.cmd.Process.Pid), Trace: []string{"written"},
	}}
	if err != nil {
		o.facts.Trace = []string{"written_in_part"}
		return o.fails(err)
	}
	select {
	case o.response = <-e.response:
	case <-ctx.Done():
		if !x.effect {
			c.cancel(x.id)
		}
		return o.fails(ctx.Err())
	case <-c.dead:
		select {
		case o.response = <-e.response: // the last words of a child that ended
		default:
			if !rule.Holds(rule.WrittenIsSent) {
				return notSent("no_answer", errEnded)
			}
			return o.fails(errEnded)
		}
	}
	o.facts.Trace = append(o.facts.Trace, "answered")
	o.facts.Body, o.facts.BodySize = o.response.Raw, int64(len(o.response.Raw))
	return o
}

func (o *outcome) fails(err error) *outcome {
	o.err, o.facts.Error = err, err.Error()
	return o
}

func (c *child) expect(x *exchange) (*expected, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) >= maxPending {
		return nil, errBusy
	}
	e := &expected{x: x, response: make(chan *wire.Message, 1)}
	c.pending[x.id] = e
	return e, nil
}

func (c *child) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// cancel tells the child that nobody waits for a response any more. It does not wait long:
// whoever gave up has done so.
func (c *child) cancel(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return
	}
	c.work.Go(func() {
		ctx, stop := context.WithTimeout(context.Background(), endWait)
		defer stop()
		params := json.RawMessage(`{"requestId":` + string(wire.NumberID(id)) + `,"reason":"the caller has gone"}`)
		if err := c.post(ctx, wire.Notification(wire.NotifyCancelled, params)); err != nil {
			c.log.Debug("a request could not be cancelled", "error", err)
		}
	})
}

func (c *child) post(ctx context.Context, m *wire.Message) error {
	_, err := c.write(ctx, append(m.Append(nil), '\n'))
	return err
}

// write hands one line to the child and says how many bytes of it the kernel took. A child
// that took only a part cannot be spoken to any more and is ended.
func (c *child) write(ctx context.Context, line []byte) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeWait)
	defer cancel()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-c.dead:
		return 0, errEnded
	case <-c.closed:
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case <-c.dead:
		return 0, errEnded
	case <-c.closed:
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, ctx.Err()
	default:
	}
	gaveUp := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(gaveUp)
		if c.in.SetWriteDeadline(time.Unix(1, 0)) != nil {
			c.kill() // where a pipe has no deadline, this alone ends the write
		}
	})
	n, err = c.in.Write(line)
	if !stop() {
		<-gaveUp
		c.in.SetWriteDeadline(time.Time{}) // fails only where the one before did, or the pipe is closed
	}
	switch {
	case n == len(line):
		return n, nil
	case err == nil:
		err = io.ErrShortWrite
	case n == 0 && ctx.Err() != nil:
		err = ctx.Err()
	}
	if n > 0 {
		c.log.Warn("the server took only a part of a request and is ended", "bytes", n, "of", len(line))
		c.kill()
		err = fmt.Errorf("%w: %w", errPartial, err)
	}
	return n, err
}

// kill ends a child that runs.
func (c *child) kill() {
	select {
	case <-c.exited:
	default:
		killGroup(c.cmd)
	}
}

func (c *child) agreed(wire.Era, string) {}

func (c *child) ended() <-chan struct{} { return c.dead }

// close closes the child's input, which ends a well-behaved one, then signals its group.
func (c *child) close() {
	c.once.Do(func() {
		c.mu.Lock()
		c.closing = true
		c.mu.Unlock()
		close(c.closed)
		select {
		case c.turn <- struct{}{}:
			c.in.Close()
			<-c.turn
		case <-time.After(endWait): // somebody is stuck in a write
		}
		for _, signal := range []func(*exec.Cmd){endGroup, killGroup} {
			select {
			case <-c.exited:
				return
			case <-time.After(endWait):
				signal(c.cmd)
			}
		}
	})
	c.work.Wait()
}
