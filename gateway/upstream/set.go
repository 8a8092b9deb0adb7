package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/contract"
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
	// Name and Version are what servers are told about who calls where no client says it;
	// default "pawl" and the module's version.
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

// Request is one request to a server.
type Request struct {
	// Client is who asks; nil is the front itself.
	Client *Client
	Method string
	// Params pass as they are, but for the keys of their _meta that belong to the protocol
	// and the progress token, which become the ones of this way.
	Params json.RawMessage
	// Caller is asked and told what comes in the meantime; nil where nobody is.
	Caller Caller
	// PassInput: a result of type input_required is an answer like any other. Otherwise the
	// caller is asked for the input and the server is called again with it.
	PassInput bool
}

// Answer is what a server responded: a result or an error, as it came.
type Answer struct {
	Result json.RawMessage
	Error  *wire.Error
	// Era is the one that the server was spoken to in.
	Era wire.Era
}

// Tool is a tool as its server lists it.
type Tool struct {
	Name string
	// Raw is the whole entry.
	Raw         json.RawMessage
	InputSchema json.RawMessage
	// HasOutputSchema: what the tool returns as structured content has a schema.
	HasOutputSchema bool
	// ReadOnly: the server marks it as read-only. It is a hint, and the operator says
	// whether it counts.
	ReadOnly bool
}

// Description is what a server says about itself.
type Description struct {
	Era wire.Era
	// Version is the revision that is spoken.
	Version string
	// Info, Capabilities and Instructions are its words as they came; nil where it has none.
	Info         json.RawMessage
	Capabilities json.RawMessage
	Instructions string
}

// Set holds the MCP servers of one contract file.
type Set struct {
	upstreams map[string]*Upstream
}

// Open prepares the servers. Nothing is started or connected before the first request.
func Open(servers []*contract.MCPServer, o *Options) (*Set, error) {
	return nil, errors.New("not there yet")
}

// Get is the server of that name; nil where there is none.
func (s *Set) Get(name string) *Upstream { return s.upstreams[name] }

// EndSession ends what belongs to one session of the front.
func (s *Set) EndSession(session string) {}

// Close ends all sessions and children. Calls that are under way end.
func (s *Set) Close() {}

// CallTool is contract.MCPClient.
func (s *Set) CallTool(ctx context.Context, c *contract.MCPCall) *contract.MCPAnswer { return nil }

// CheckArguments is contract.MCPClient.
func (s *Set) CheckArguments(server, tool string, arguments json.RawMessage) error { return nil }

// Upstream is one server.
type Upstream struct {
	server *contract.MCPServer
	start  time.Duration
}

// Server is what is declared about it.
func (u *Upstream) Server() *contract.MCPServer { return u.server }

// Call makes one request and returns its answer. The error is ErrUnsent or ErrLost where
// there is none, and wraps the context's where that has ended.
func (u *Upstream) Call(ctx context.Context, r *Request) (*Answer, error) { return nil, ErrUnsent }

// Notify sends a notification to the server, in the session of the client.
func (u *Upstream) Notify(ctx context.Context, c *Client, method string, params json.RawMessage) error {
	return ErrUnsent
}

// Tools lists the server's tools, all pages. The list is kept until the server says that
// it has changed, or its time is over.
func (u *Upstream) Tools(ctx context.Context, c *Client) ([]Tool, error) { return nil, ErrUnsent }

// Describe is what the server says about itself.
func (u *Upstream) Describe(ctx context.Context, c *Client) (*Description, error) {
	return nil, ErrUnsent
}
