package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/evidence"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// Options of Open. Nil and zero fields mean the defaults.
type Options struct {
	// Log gets what children write to their standard error, and what goes wrong with
	// sessions. Nil means slog.Default.
	Log *slog.Logger
	// Notify is told what a server says that belongs to no call: list_changed, log messages,
	// updated resources. It is called from the reader of a session and must not block.
	Notify func(*Notice)
	// Ask answers a request that a server makes in a session of one client while no call of
	// it is under way, such as roots/list after the handshake. Nil means that nobody can be
	// asked then.
	Ask func(ctx context.Context, server, session, method string, params json.RawMessage) (json.RawMessage, *wire.Error)
	// Name and Version are what servers are told about who calls where no client says it;
	// default "pawl" and "0".
	Name, Version string
}

// Notice is a notification that belongs to no call.
type Notice struct {
	// Server is the upstream's name.
	Server string
	// Session is the client's session that it is for; empty where it is for every client.
	Session string
	Method  string
	Params  json.RawMessage
}

var (
	// ErrUnsent: no byte of the request left.
	ErrUnsent = errors.New("the request was not sent")
	// ErrLost: the request was sent in part or whole, and no answer came. What it did is
	// not known.
	ErrLost = errors.New("the request was sent and its answer is lost")
	// ErrClosed: the set is closed.
	ErrClosed = errors.New("the upstreams are closed")
)

// Set holds the MCP servers of one contract file. It is a contract.MCPClient.
type Set struct {
	upstreams map[string]*Upstream
}

var _ contract.MCPClient = (*Set)(nil)

// Open prepares the servers. Nothing is started or connected before the first request.
func Open(servers []*contract.MCPServer, o *Options) (*Set, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.Name == "" {
		d.Name = "pawl"
	}
	if d.Version == "" {
		d.Version = "0"
	}
	s := &Set{upstreams: map[string]*Upstream{}}
	for _, server := range servers {
		u := &Upstream{
			server: server, options: &d, log: d.Log.With("upstream", server.Name),
			sessions: map[sessionKey]*session{}, opening: map[sessionKey]chan struct{}{}, known: map[string]*known{}, restAge: restAge,
		}
		if server.Command == nil {
			connections, err := server.Connections()
			if err != nil {
				s.Close()
				return nil, err
			}
			u.transport = evidence.New(connections)
		}
		s.upstreams[server.Name] = u
	}
	return s, nil
}

// Get is the server of that name; nil where there is none.
func (s *Set) Get(name string) *Upstream { return s.upstreams[name] }

// EndSession ends what belongs to one session of the front.
func (s *Set) EndSession(session string) {
	var work sync.WaitGroup
	for _, u := range s.upstreams {
		work.Go(func() { u.endSession(session) })
	}
	work.Wait()
}

// Close ends all sessions and children. Calls that are under way end.
func (s *Set) Close() {
	var work sync.WaitGroup
	for _, u := range s.upstreams {
		work.Go(u.close)
	}
	work.Wait()
}

// CallTool is contract.MCPClient.
func (s *Set) CallTool(ctx context.Context, c *contract.MCPCall) *contract.MCPAnswer {
	u := s.Get(c.Server)
	if u == nil {
		return unsentAnswer("no_session", errors.New("there is no such server"))
	}
	return u.callTool(ctx, c)
}

// CheckArguments is contract.MCPClient.
func (s *Set) CheckArguments(server, tool string, arguments json.RawMessage) error {
	u := s.Get(server)
	if u == nil {
		return nil
	}
	return u.checkArguments(tool, arguments)
}
