package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/gateway/wire"
	"github.com/pawl-dev/pawl/internal/rule"
)

// session is a peer that a handshake was made with.
type session struct {
	up    *Upstream
	owner string // whose it is if it is a legacy one
	key   sessionKey
	peer  peer
	says  *Description
	tools toolList
	next  atomic.Int64
	work  sync.WaitGroup
	ctx   context.Context // of what lasts as long as the session
	stop  context.CancelFunc

	mu    sync.Mutex
	calls map[int64]*call
	uses  int // requests under way
	asked int // requests of the server that are being answered
	used  time.Time
	began time.Time
	// rested is the time between the last use and the one before.
	rested time.Duration
	legacy atomic.Bool
	// silent: the last exchange brought no response, so that the server may have started
	// anew and know the session no more.
	silent atomic.Bool
}

// sessionKey says who shares a session: all whose requests make the same one.
type sessionKey struct {
	era   wire.Era
	owner string
}

// own reports whether the session belongs to one client.
func (k sessionKey) own() bool { return k.owner != "" }

var (
	// errEra: the server does not speak this era.
	errEra = errors.New("the server does not speak this revision of the protocol")
	// errHandshake: the server answered the handshake with something else.
	errHandshake = errors.New("the server's handshake is none")
)

const (
	// probeWait bounds the wait for a server that is asked for an era that it may not know:
	// some do not answer at all what they do not know.
	probeWait = 10 * time.Second
)

// greet makes the handshake of an era. The error is errEra where the server speaks another.
func (s *session) greet(ctx context.Context, era wire.Era, c *Client) error {
	if era == wire.Modern {
		return s.discover(ctx, c)
	}
	return s.initialize(ctx, c)
}

// exchange puts a request on the wire and notes whether the server is there.
func (s *session) exchange(ctx context.Context, x *exchange) *outcome {
	o := s.peer.exchange(ctx, x)
	s.silent.Store(o.response == nil)
	return o
}

// request makes a request of our own.
func (s *session) request(ctx context.Context, method string, params json.RawMessage, x *exchange) (json.RawMessage, error) {
	if x == nil {
		x = &exchange{}
	}
	x.id, x.method, x.params = s.next.Add(1), method, params
	o := s.exchange(ctx, x)
	switch {
	case o.response == nil && o.unsent():
		return nil, fmt.Errorf("%s: %w: %w", method, ErrUnsent, o.err)
	case o.response == nil:
		return nil, fmt.Errorf("%s: %w: %w", method, ErrLost, o.err)
	case o.response.Error != nil:
		return nil, fmt.Errorf("%s: %w", method, o.response.Error)
	}
	return o.response.Result, nil
}

func (s *session) initialize(ctx context.Context, c *Client) error {
	params := wire.Object{
		{Name: "protocolVersion", Value: wire.Quote(wire.LatestLegacy)},
		{Name: "capabilities", Value: s.up.capabilitiesOf(c)},
		{Name: "clientInfo", Value: s.up.infoOf(c)},
	}
	raw, err := s.request(ctx, wire.MethodInitialize, params.JSON(), nil)
	if err != nil {
		return s.refused(err)
	}
	result, err := wire.ParseObject(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", errHandshake, err)
	}
	version, _ := result.Text("protocolVersion")
	if !wire.Spoken(version) || wire.EraOf(version) != wire.Legacy {
		return fmt.Errorf("%w: it speaks %q", errEra, cut(version))
	}
	s.says = &Description{Era: wire.Legacy, Version: version, Info: result.Get("serverInfo"), Capabilities: result.Get("capabilities")}
	s.says.Instructions, _ = result.Text("instructions")
	s.legacy.Store(true)
	s.peer.agreed(wire.Legacy, version)
	if err := s.peer.post(ctx, wire.Notification(wire.NotifyInitialized, nil)); err != nil {
		return fmt.Errorf("%s: %w", wire.NotifyInitialized, err)
	}
	return nil
}

func (s *session) discover(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	version := wire.Versions[0]
	params, err := wire.EditMeta(nil, func(wire.Object) wire.Object { return s.up.modernMeta(nil, c, version) })
	if err != nil {
		return err
	}
	s.peer.agreed(wire.Modern, version)
	raw, err := s.request(ctx, wire.MethodDiscover, params, &exchange{header: modernHeader(wire.MethodDiscover, params)})
	if err != nil {
		s.peer.agreed(wire.Modern, "")
		return s.refused(err)
	}
	result, err := wire.ParseObject(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", errHandshake, err)
	}
	var versions []string
	if json.Unmarshal(result.Get("supportedVersions"), &versions) != nil || !slices.Contains(versions, version) {
		s.peer.agreed(wire.Modern, "")
		return fmt.Errorf("%w: it does not speak %s", errEra, version)
	}
	s.says = &Description{Era: wire.Modern, Version: version, Info: wire.Meta(raw).Get(wire.MetaServerInfo), Capabilities: result.Get("capabilities")}
	if info := result.Get("serverInfo"); s.says.Info == nil {
		s.says.Info = info
	}
	s.says.Instructions, _ = result.Text("instructions")
	return nil
}

// refused says what a handshake that failed means. A server that answers with an error, or
// not at all, may speak the other era; one that cannot be reached speaks none.
func (s *session) refused(err error) error {
	if errors.Is(err, ErrUnsent) {
		return err
	}
	return fmt.Errorf("%w: %w", errEra, err)
}

// stray takes what belongs to no exchange: what a child says, and the stream of a legacy
// server.
func (s *session) stray(m *wire.Message) {
	if m.IsRequest() {
		s.answer(m, nil)
		return
	}
	switch m.Method {
	case wire.NotifyProgress:
		if k := s.callOf(m); k != nil {
			k.told(m)
		}
		return
	case wire.NotifyCancelled:
		return // of something that is over
	case wire.NotifyToolsChanged:
		s.tools.changed()
	}
	if notify := s.up.options.Notify; notify != nil {
		notify(&Notice{Server: s.up.server.Name, Session: s.ownerSession(), Method: m.Method, Params: m.Params})
	}
}

// callOf is the call that progress is of, nil for one that is over. A server that answers
// without a stream says it on that of the session.
func (s *session) callOf(m *wire.Message) *call {
	o, err := wire.ParseObject(m.Params)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[ownID(wire.ID(o.Get(wire.MetaProgressToken)))]
}

// answer answers a request of the server, in the name of the call that it belongs to.
func (s *session) answer(m *wire.Message, k *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || s.asked >= maxPending {
		return
	}
	s.asked++
	s.work.Go(func() {
		defer func() {
			s.mu.Lock()
			s.asked--
			s.mu.Unlock()
		}()
		response := s.respond(m, k)
		if err := s.peer.post(s.ctx, response); err != nil {
			s.up.log.Debug("a request of the server could not be answered", "method", m.Method, "error", err)
		}
	})
}

func (s *session) respond(m *wire.Message, k *call) *wire.Message {
	if m.Method == wire.MethodPing {
		return wire.Result(m.ID, json.RawMessage("{}"))
	}
	if k == nil {
		k = s.asker()
	}
	if ask, session := s.up.options.Ask, s.ownerSession(); k == nil && ask != nil && session != "" {
		result, failure := ask(s.ctx, s.up.server.Name, session, m.Method, m.Params)
		if failure != nil {
			return wire.Failure(m.ID, failure)
		}
		return wire.Result(m.ID, result)
	}
	if k == nil || k.caller == nil {
		return wire.Failure(m.ID, &wire.Error{Code: wire.CodeMethodNotFound, Message: "nobody can be asked now"})
	}
	return k.ask(m)
}

// asker is the call that a request without a link to one belongs to: the newest, if all
// calls under way are of one client. Otherwise one client could be asked for another.
func (s *session) asker() *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest *call
	for _, k := range s.calls {
		if k.caller == nil {
			continue
		}
		if newest != nil && !newest.client.is(k.client) && rule.Holds(rule.QuestionsFindTheirClient) {
			return nil
		}
		if newest == nil || k.id > newest.id {
			newest = k
		}
	}
	return newest
}

// is reports whether two requests are known to be of one client: by the session's name.
func (c *Client) is(other *Client) bool {
	return c != nil && other != nil && c.Session != "" && c.Session == other.Session
}

// close ends the session. Calls that are under way end.
func (s *session) close() {
	s.mu.Lock()
	s.stop() // under the lock, so that no answer begins after it
	s.mu.Unlock()
	s.peer.close()
	s.work.Wait()
}

// follow keeps a subscription to the changes of a modern server's lists, as long as the
// session lasts. Legacy servers tell them unasked.
func (s *session) follow() {
	capabilities, err := wire.ParseObject(s.says.Capabilities)
	if err != nil || s.says.Era != wire.Modern {
		return
	}
	var wanted wire.Object
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if o, err := wire.ParseObject(capabilities.Get(kind)); err == nil && string(o.Get("listChanged")) == "true" {
			wanted = append(wanted, wire.Member{Name: kind + "ListChanged", Value: json.RawMessage("true")})
		}
	}
	if len(wanted) == 0 {
		return
	}
	params, err := wire.EditMeta(wire.Object{{Name: "notifications", Value: wanted.JSON()}}.JSON(), func(wire.Object) wire.Object {
		return s.up.modernMeta(nil, nil, s.says.Version)
	})
	if err != nil {
		return
	}
	s.work.Go(func() {
		for n := 0; ; n = min(n+1, 5) {
			s.request(s.ctx, wire.MethodListen, params, &exchange{
				header: modernHeader(wire.MethodListen, params),
				told: func(m *wire.Message) {
					if m.Method != wire.NotifyAcknowledged {
						s.stray(m)
					}
				},
			})
			select {
			case <-time.After(resumePause << n):
				s.tools.changed() // what changed in the meantime was not heard
			case <-s.ctx.Done():
				return
			case <-s.peer.ended():
				return
			}
		}
	})
}
