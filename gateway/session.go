package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/gateway/wire"
)

// session is a connection on stdio, or a legacy client's session over HTTP. A modern client
// over HTTP has none.
type session struct {
	g    *Gateway
	door *door
	who  Principal
	id   string
	// counted: it has a place of its tenant's among the sessions over HTTP.
	counted bool

	mu      sync.Mutex
	client  *client // what initialize said; nil before it
	asks    map[wire.ID]chan *wire.Message
	asked   int64
	calls   map[*exchange]bool
	timer   *time.Timer
	busy    int
	over    bool
	stream  bool // somebody reads the notices
	ended   chan struct{}
	notices chan *wire.Message // for the stream that belongs to no request
}

// maxNotices is how many notices wait for a client that does not read.
const maxNotices = 256

func newSession(g *Gateway, d *door, who Principal) *session {
	return &session{
		g: g, door: d, who: who, id: rand.Text(), asks: make(map[wire.ID]chan *wire.Message), calls: make(map[*exchange]bool),
		ended: make(chan struct{}), notices: make(chan *wire.Message, maxNotices),
	}
}

// open makes a session for a legacy client over HTTP; nil where there are as many as there may be.
func (g *Gateway) open(d *door, who Principal) *session {
	s := newSession(g, d, who)
	s.counted = true
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped || g.perTenant[who.Tenant] >= g.opts.MaxSessions {
		return nil
	}
	g.perTenant[who.Tenant]++
	g.sessions[s.id] = s
	s.timer = time.AfterFunc(g.opts.SessionIdle, s.end)
	return s
}

// attach adds the session of a connection on stdio.
func (g *Gateway) attach(s *session) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.sessions[s.id] = s
	return true
}

// sessionOf is the session that a principal names at a door; nil where it has none of that name.
func (g *Gateway) sessionOf(d *door, who Principal, id string) *session {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sessions[id]; s != nil && s.counted && s.door == d && s.who == who {
		return s
	}
	return nil
}

// end ends the session: questions that are open get no answer, streams end, and what it had
// at the upstreams goes. Effects that are under way do not end with it.
func (s *session) end() {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.over = true
	close(s.ended)
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.g.mu.Lock()
	delete(s.g.sessions, s.id)
	if s.counted {
		if s.g.perTenant[s.who.Tenant]--; s.g.perTenant[s.who.Tenant] == 0 {
			delete(s.g.perTenant, s.who.Tenant)
		}
	}
	stopped := s.g.stopped
	s.g.mu.Unlock()
	if !stopped { // otherwise the upstreams end for everybody, after the effects that are out
		s.g.set.EndSession(s.id)
	}
}

// use keeps the session from ending for idleness until the function it returns is called.
func (s *session) use() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
	if s.timer != nil {
		s.timer.Stop()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy--; s.busy == 0 && s.timer != nil && !s.over {
			s.timer.Reset(s.g.opts.SessionIdle)
		}
	}
}

// initialized is what the handshake said; nil before it.
func (s *session) initialized() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// notice puts a notification on the session's own stream; one that finds no room is dropped.
func (s *session) notice(m *wire.Message) {
	select {
	case s.notices <- m:
	default:
	}
}

// follow takes the place of the one who reads the session's notices; false where there is
// one.
func (s *session) follow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream {
		return false
	}
	s.stream = true
	return true
}

func (s *session) unfollow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = false
}

// enter takes a request in; false where the client has as many under way as it may.
func (s *session) enter(x *exchange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.calls) >= s.g.opts.MaxCalls {
		return false
	}
	s.calls[x] = true
	return true
}

func (s *session) leave(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, x)
}

// cancel ends what the client waits for under an id. Clients use one id more than once, so
// it may be more than one request.
func (s *session) cancel(id wire.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.calls {
		if x.id == id && x.method != wire.MethodInitialize {
			x.dropped.Store(true)
			x.cancel()
		}
	}
}

// answered hands the client's answer to whoever asked. One that nobody waits for any more
// says nothing.
func (s *session) answered(m *wire.Message) {
	s.mu.Lock()
	ask := s.asks[m.ID]
	delete(s.asks, m.ID)
	s.mu.Unlock()
	if ask != nil {
		ask <- m
	}
}

// errGone: the client cannot be asked.
var errGone = errors.New("the client cannot be asked")

// ask puts a question to a legacy client, on the stream of the request that it belongs to or,
// when that is over, on the session's own.
func (s *session) ask(ctx context.Context, out outlet, method string, params json.RawMessage) (*wire.Message, error) {
	answer := make(chan *wire.Message, 1)
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil, errGone
	}
	s.asked++
	id := wire.ID(wire.Quote(fmt.Sprintf("pawl-%d", s.asked)))
	s.asks[id] = answer
	s.mu.Unlock()
	if m := wire.Request(id, method, params); out.send(m) != nil {
		s.notice(m)
	}
	select {
	case m := <-answer:
		return m, nil
	case <-s.ended:
		return nil, errGone
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.asks, id)
		s.mu.Unlock()
		cancelled := wire.Notification(wire.NotifyCancelled, wire.Object{
			{Name: "requestId", Value: json.RawMessage(id)}, {Name: "reason", Value: wire.Quote("the answer is not needed any more")},
		}.JSON())
		if out.send(cancelled) != nil {
			s.notice(cancelled)
		}
		return nil, ctx.Err()
	}
}

// Ask puts a question of an upstream that belongs to no call to a session's client.
func (g *Gateway) Ask(ctx context.Context, session, method string, params json.RawMessage) (json.RawMessage, *wire.Error) {
	g.mu.Lock()
	s := g.sessions[session]
	g.mu.Unlock()
	gone := &wire.Error{Code: wire.CodeInternal, Message: errGone.Error()}
	if s == nil || s.initialized() == nil {
		return nil, gone
	}
	m, err := s.ask(ctx, nowhere{s}, method, params)
	if err != nil {
		return nil, gone
	}
	return m.Result, m.Error
}

// nowhere is the way back where there is no request: the session's own stream.
type nowhere struct{ s *session }

func (n nowhere) send(m *wire.Message) error {
	n.s.notice(m)
	return nil
}

func (nowhere) alive() {}
