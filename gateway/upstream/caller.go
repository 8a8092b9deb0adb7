package upstream

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/gateway/wire"
)

// Client is who asks: a session of the front in a legacy revision, or one request in a
// modern one.
type Client struct {
	// Session names the front's session. Clients of one name share what belongs to a
	// session at the upstream; it is empty where there is none.
	Session string
	// Era is the one that the client speaks. The upstream is spoken to in the same one
	// where it can.
	Era wire.Era
	// Info and Capabilities are the client's own words: JSON objects, or nil.
	Info         json.RawMessage
	Capabilities json.RawMessage
}

// Caller is the front's side of one call. Its methods are called from several goroutines.
type Caller interface {
	// Ask answers a request that the upstream makes in the meantime: elicitation/create,
	// sampling/createMessage or roots/list. It returns when there is an answer or ctx ends.
	Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error)
	// Input answers a result of type input_required with the object of its inputResponses,
	// nil where it asked for nothing. The upstream is called again with it. With an error it
	// is not, and the call ends without an answer.
	Input(ctx context.Context, result json.RawMessage) (json.RawMessage, error)
	// Tell passes a notification that belongs to the call: progress under the caller's own
	// token, a log message. Notifications come in their order. One that is not taken in
	// time is dropped.
	Tell(method string, params json.RawMessage)
	// Meta is what the caller's request had in its _meta. An effect is sent with it, less
	// the keys that belong to the protocol. Nil is fine.
	Meta() wire.Object
}

type callerKey struct{}

type called struct {
	client *Client
	caller Caller
}

// WithCaller returns a context whose effects belong to a client and its call: a port finds
// both when the executor has it send. Either may be nil.
func WithCaller(ctx context.Context, client *Client, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, called{client, caller})
}

// callerOf is what WithCaller put into the context; nothing for an effect of the sweeper.
func callerOf(ctx context.Context) (*Client, Caller) {
	c, _ := ctx.Value(callerKey{}).(called)
	return c.client, c.caller
}
