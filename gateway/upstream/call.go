package upstream

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/pawl-dev/pawl/gateway/wire"
)

// call is one request of a caller on its way through a session.
type call struct {
	s      *session
	id     int64
	client *Client
	caller Caller
	token  json.RawMessage // the caller's own progress token; nil where it wants no progress
	ctx    context.Context // ends with the call
	end    context.CancelFunc

	mu     sync.Mutex
	teller *teller // nil before the first notification
	over   bool
	asked  int // requests of the server that wait for the caller
}

// maxAsked caps the requests of a server that one call answers at a time.
const maxAsked = 8

// begin registers a call, so that what the server says finds its caller.
func (s *session) begin(ctx context.Context, c *Client, caller Caller, meta wire.Object) *call {
	k := &call{s: s, id: s.next.Add(1), client: c, caller: caller, token: meta.Get(wire.MetaProgressToken)}
	k.ctx, k.end = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[k.id] = k
	return k
}

// renumber gives the call the id of its next request.
func (k *call) renumber() {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	delete(k.s.calls, k.id)
	k.id = k.s.next.Add(1)
	k.s.calls[k.id] = k
}

func (k *call) finish() {
	k.end()
	k.s.mu.Lock()
	delete(k.s.calls, k.id)
	k.s.mu.Unlock()
	k.mu.Lock()
	k.over = true
	t := k.teller
	k.mu.Unlock()
	if t != nil {
		t.finish()
	}
}

// told takes what the server says for this call. It does not block.
func (k *call) told(m *wire.Message) {
	switch {
	case m.IsRequest():
		k.s.answer(m, k)
	case m.Method == wire.NotifyProgress && k.token == nil:
	case m.Method == wire.NotifyProgress:
		if params, err := wire.ParseObject(m.Params); err == nil {
			k.tell(m.Method, params.With(wire.MetaProgressToken, k.token).JSON())
		}
	case m.Method == wire.NotifyCancelled: // of a request of its own, which nobody waits for then
	default:
		k.tell(m.Method, m.Params)
	}
}

func (k *call) tell(method string, params json.RawMessage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.caller == nil {
		return
	}
	if k.teller == nil {
		k.teller = newTeller(k.caller)
	}
	k.teller.tell(method, params)
}

// ask has the caller answer a request of the server.
func (k *call) ask(m *wire.Message) *wire.Message {
	k.mu.Lock()
	full := k.asked >= maxAsked
	if !full {
		k.asked++
	}
	k.mu.Unlock()
	if full {
		return wire.Failure(m.ID, &wire.Error{Code: wire.CodeInternal, Message: "too many requests wait for an answer"})
	}
	defer func() {
		k.mu.Lock()
		k.asked--
		k.mu.Unlock()
	}()
	result, failure := k.caller.Ask(k.ctx, m.Method, m.Params)
	if failure != nil {
		return wire.Failure(m.ID, failure)
	}
	return wire.Result(m.ID, result)
}
