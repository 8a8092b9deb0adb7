package contract

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/evidence"
)

// MCPServer is an upstream that speaks the Model Context Protocol.
type MCPServer struct {
	Name string
	// Command starts it as a child that speaks on its standard input and output, in the
	// folder Dir; nil where it is reached over HTTP at URL.
	Command []string
	Dir     string
	URL     string
	// Era is legacy or modern where only that one is to be spoken, else empty.
	Era string
	// TrustReadOnly: a tool that the server marks as read-only is one.
	TrustReadOnly bool
	// Refuse: tools that the file does not declare are refused; otherwise they are unsafe.
	Refuse bool
	// StartTimeout bounds the way to a session: the start of a child, the handshake.
	StartTimeout time.Duration

	connections func() (*evidence.Options, error)
	env         map[string][]part
	inherit     bool
	headers     map[string][]part
	vault       *vault
}

// MCPTool is a tool of an MCP server that the file declares.
type MCPTool struct {
	// Name is what callers use, Tool what the server calls it.
	Name string
	Tool string
	// Class is how it is called: a read passes straight through.
	Class pawl.Class
	// Hidden are the places in the arguments that carry the key or the marker, as JSON
	// pointers. They are overwritten, so they belong into no schema that a model sees.
	Hidden []string
}

// MCPClient speaks to the MCP servers of a file. Package gateway/upstream has one.
type MCPClient interface {
	// CallTool puts at most one tools/call on the wire, and after it only what the server
	// asks for to go on with that call. It returns when the call is over; when ctx ends it
	// gives up. It never panics for what the server does.
	CallTool(ctx context.Context, c *MCPCall) *MCPAnswer
	// CheckArguments checks arguments against the schema that the server last gave for the
	// tool. It does no I/O; a tool whose schema is not known passes. An error names the
	// place and never the value.
	CheckArguments(server, tool string, arguments json.RawMessage) error
}

// MCPCall is one call of a tool.
type MCPCall struct {
	Server string
	Tool   string
	// Params has the members name and arguments, and _meta where a key goes there.
	Params json.RawMessage
	// Header are headers of this request; a child gets none.
	Header http.Header
	// Effect: the call may have one, so that it is never cancelled at the server. Otherwise
	// it is cancelled when ctx ends.
	Effect bool
	// Meta are keys of _meta that belong to the attempt and not to the operation.
	Meta map[string]string
}

// MCPAnswer is what was seen around one call of a tool.
type MCPAnswer struct {
	// Facts are the raw observations: bytes, trace, peer, the HTTP status, and in Body the
	// answer before anything decoded it. They have a class only where the way itself proves
	// that the call had no effect: NOT_SENT, or REJECTED by the protocol below.
	Facts pawl.Evidence
	// Result is the last result, or Error the error, of the response that ended the call;
	// both are nil where none came that could be read.
	Result json.RawMessage
	Error  *MCPError
	// Header are the HTTP headers of the answer.
	Header http.Header
}

// MCPError is the error of a JSON-RPC response.
type MCPError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// ErrUndeclared: the server's terms refuse tools that the file does not declare.
var ErrUndeclared = errors.New("the tool is not declared, and its upstream refuses such tools")
