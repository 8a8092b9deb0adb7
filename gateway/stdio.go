package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pawl-dev/pawl/gateway/wire"
)

// ServeStdio serves one client on a pair of pipes, at the door of every upstream, until the
// client closes its side or ctx ends. Effects that are under way then do not end with it:
// the executor's Stop waits for them.
func (g *Gateway) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, who Principal) error {
	s := newSession(g, g.doors[""], who)
	if !g.attach(s) {
		return errors.New("serve: the gateway is stopping")
	}
	defer s.end()
	ctx, cancel := context.WithCancel(ctx)
	p := &pipe{w: out}
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel() // the client that has gone does not wait any more
	work.Go(func() {
		for {
			select {
			case m := <-s.notices:
				_ = p.send(m) // a client that has gone shows at its own end
			case <-ctx.Done():
				return
			}
		}
	})
	messages := make(chan read)
	// The reader may hang until the process ends: a pipe's read cannot be called off.
	go func() {
		lines := wire.NewLineReader(in, g.opts.MaxMessage)
		for {
			line, err := lines.Next()
			select {
			case messages <- read{line, err}:
			case <-ctx.Done():
				return
			}
			if err != nil && !errors.Is(err, wire.ErrTooLong) {
				return
			}
		}
	}()
	for {
		select {
		case r := <-messages:
			switch {
			case errors.Is(r.err, wire.ErrTooLong):
				_ = p.send(wire.Failure("", &wire.Error{Code: wire.CodeInvalidRequest, Message: fmt.Sprintf("the message has more than %d bytes", g.opts.MaxMessage)}))
			case errors.Is(r.err, io.EOF):
				return nil
			case r.err != nil:
				return fmt.Errorf("read client: %w", r.err)
			default:
				s.line(ctx, r.line, p, &work)
			}
		case <-ctx.Done():
			return nil
		case <-g.stopping:
			return nil
		}
	}
}

type read struct {
	line []byte
	err  error
}

// line takes one message. What it asks for is worked on while the next one is read.
func (s *session) line(ctx context.Context, line []byte, p *pipe, work *sync.WaitGroup) {
	m, err := wire.Parse(line)
	if err != nil {
		_ = p.send(wire.Failure("", unreadable(line, err)))
		return
	}
	switch {
	case m.IsResponse():
		s.answered(m)
	case m.IsNotification():
		s.notified(ctx, m)
	case m.Method == wire.MethodInitialize:
		// Nothing else is answered before it.
		_ = p.send(s.initialize(ctx, m).message(m.ID))
	default:
		x, wrong := newExchange(ctx, s.g, s.door, s, m, p)
		if wrong != nil {
			_ = p.send(wire.Failure(m.ID, wrong))
			return
		}
		if wrong := s.admit(x); wrong != nil {
			x.cancel()
			_ = p.send(wire.Failure(m.ID, wrong))
			return
		}
		work.Go(func() {
			defer x.cancel()
			defer s.leave(x)
			if answer := x.answer(); !x.dropped.Load() {
				_ = p.send(answer.message(m.ID))
			}
		})
	}
}

// admit finds out who sends a request on stdio, in either era, and takes it in.
func (s *session) admit(x *exchange) *wire.Error {
	if version, is := modern(x.meta); is {
		if wrong := x.introduce(s.who, version); wrong != nil {
			return wrong
		}
	} else if x.client = s.initialized(); x.client == nil {
		if x.method == wire.MethodDiscover {
			return &wire.Error{Code: wire.CodeMethodNotFound, Message: "server/discover says its protocol version in _meta"}
		}
		if x.method != wire.MethodPing {
			return &wire.Error{Code: wire.CodeInvalidRequest, Message: "not initialized: begin with initialize, or say the protocol version in _meta"}
		}
		x.client = newClient(s.who, wire.LatestLegacy, nil, nil)
	}
	if !s.enter(x) {
		return busy
	}
	return nil
}

// pipe is the way back on stdio: one message a line.
type pipe struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *pipe) send(m *wire.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.w.Write(append(m.Append(nil), '\n'))
	return err
}

// alive does nothing: a pipe that is open is alive.
func (p *pipe) alive() {}
