package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/gateway/wire"
)

// outlet is the way back to a client for one request.
type outlet interface {
	// send writes a message that comes before the answer: a notification or a question. The
	// error is not nil where it cannot arrive any more.
	send(m *wire.Message) error
	// alive shows a client that nothing was heard from for a while that it is still waited
	// for, where the transport has a way to.
	alive()
}

// exchange is one request on its way to its answer.
type exchange struct {
	g    *Gateway
	door *door
	*client
	// session is nil for a modern client over HTTP.
	of      *session
	id      wire.ID
	method  string
	raw     json.RawMessage // params
	params  wire.Object
	meta    wire.Object
	out     outlet
	header  http.Header // nil on stdio
	query   url.Values
	arrived time.Time

	// ctx ends when the client does not wait any more.
	ctx     context.Context
	cancel  context.CancelFunc
	dropped atomic.Bool // the client takes no answer any more
}

// newExchange reads a request's params. Its error is the answer.
func newExchange(ctx context.Context, g *Gateway, d *door, s *session, m *wire.Message, out outlet) (*exchange, *wire.Error) {
	x := &exchange{g: g, door: d, of: s, id: m.ID, method: m.Method, raw: m.Params, out: out, arrived: time.Now()}
	if m.Params != nil {
		var err error
		if x.params, err = wire.ParseObject(m.Params); err != nil {
			return nil, invalid("params: %v", err)
		}
		if raw := x.params.Get("_meta"); raw != nil {
			if x.meta, err = wire.ParseObject(raw); err != nil {
				return nil, invalid("params: _meta: %v", err)
			}
		}
	}
	x.ctx, x.cancel = context.WithCancel(ctx)
	return x, nil
}

// modern reports whether a request says by itself who sends it.
func modern(meta wire.Object) (version string, ok bool) {
	version, _ = meta.Text(wire.MetaVersion)
	return version, wire.EraOf(version) == wire.Modern
}

// introduce reads who sends a modern request.
func (x *exchange) introduce(who Principal, version string) *wire.Error {
	if !wire.Spoken(version) {
		return unsupported(version)
	}
	caps, info := x.meta.Get(wire.MetaCapabilities), x.meta.Get(wire.MetaClientInfo)
	if len(caps) == 0 || caps[0] != '{' {
		return invalid("missing or invalid _meta field %q", wire.MetaCapabilities)
	}
	if len(info) > 0 && info[0] != '{' {
		return invalid("invalid _meta field %q", wire.MetaClientInfo)
	}
	x.client = newClient(who, version, info, caps)
	return nil
}

func unsupported(version string) *wire.Error {
	supported, err := json.Marshal(wire.Versions)
	if err != nil {
		panic("gateway: versions do not marshal: " + err.Error()) // they are strings
	}
	return &wire.Error{
		Code: wire.CodeUnsupportedVersion, Message: "unsupported protocol version",
		Data: wire.Object{{Name: "supported", Value: supported}, {Name: "requested", Value: wire.Quote(version)}}.JSON(),
	}
}

func invalid(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// codeBusy and codeDown are our own: outside of what JSON-RPC reserves.
const (
	codeBusy = -31001 // as many requests are under way as may be
	codeDown = -31002 // the upstream does not answer
)

var busy = &wire.Error{Code: codeBusy, Message: "as many requests of this client are under way as may be; nothing was done for this one"}

// reply is the answer to a request: a result or an error.
type reply struct {
	result json.RawMessage
	err    *wire.Error
}

func failure(err *wire.Error) reply { return reply{err: err} }

func (r reply) message(id wire.ID) *wire.Message {
	if r.err != nil {
		return wire.Failure(id, r.err)
	}
	return wire.Result(id, r.result)
}

// failed is the reply for an error below the door. What happened goes into the log.
func (x *exchange) failed(what string, err error) reply {
	if x.ctx.Err() == nil {
		x.g.opts.Log.WarnContext(x.ctx, "request failed", slog.String("what", what), slog.String("method", x.method), slog.Any("error", err))
	}
	message := "the upstream does not answer"
	if errors.Is(err, context.DeadlineExceeded) {
		message = "the upstream did not answer in time"
	}
	return failure(&wire.Error{Code: codeDown, Message: message})
}

// answer works on a request. A handler that panics ends this request alone.
func (x *exchange) answer() (r reply) {
	defer func() {
		if v := recover(); v != nil {
			x.g.opts.Log.ErrorContext(x.ctx, "request panicked", slog.String("type", fmt.Sprintf("%T", v)), slog.String("method", x.method))
			r = failure(&wire.Error{Code: wire.CodeInternal, Message: "the gateway could not do its work; its log says more"})
		}
	}()
	handle := x.handler()
	if handle == nil {
		return failure(&wire.Error{Code: wire.CodeMethodNotFound, Message: fmt.Sprintf("method %q is not supported here", clip(x.method))})
	}
	r = handle()
	if r.err == nil && x.era == wire.Modern {
		r.result = x.modernise(r.result)
	}
	return r
}

// clip makes a name from outside fit for a message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// handler is what handles the request's method; nil where nothing does. A method that is not
// here could have an effect that nobody guards, so it does not pass.
func (x *exchange) handler() func() reply {
	if x.era == wire.Modern {
		switch x.method {
		case wire.MethodDiscover:
			return x.discover
		case wire.MethodListen:
			return x.listen
		}
	} else {
		switch x.method {
		case wire.MethodPing:
			return x.ping
		case wire.MethodSubscribe, wire.MethodUnsubscribe:
			return x.ofResource
		case wire.MethodSetLevel:
			return x.setLevel
		}
	}
	switch x.method {
	case wire.MethodListTools:
		return x.listTools
	case wire.MethodCallTool:
		return x.callTool
	case wire.MethodListPrompts:
		return x.listPrompts
	case wire.MethodGetPrompt:
		return x.getPrompt
	case wire.MethodListResources:
		return x.listResources
	case wire.MethodListTemplates:
		return x.listTemplates
	case wire.MethodReadResource:
		return x.ofResource
	case wire.MethodComplete:
		return x.complete
	}
	return nil
}

func (x *exchange) ping() reply { return reply{result: json.RawMessage("{}")} }

// modernise adds to a result what a modern client needs and a legacy upstream does not
// give.
func (x *exchange) modernise(result json.RawMessage) json.RawMessage {
	o, err := wire.ParseObject(result)
	if err != nil {
		return result
	}
	if o.Get("resultType") == nil {
		o = o.With("resultType", wire.Quote(wire.ResultComplete))
	}
	switch x.method {
	case wire.MethodDiscover, wire.MethodListTools, wire.MethodListPrompts, wire.MethodListResources, wire.MethodListTemplates, wire.MethodReadResource:
		if kind, _ := o.Text("resultType"); kind != wire.ResultComplete {
			break
		}
		if o.Get("ttlMs") == nil {
			o = o.With("ttlMs", json.RawMessage("0"))
		}
		if o.Get("cacheScope") == nil {
			o = o.With("cacheScope", wire.Quote("private"))
		}
	}
	return o.JSON()
}

// legacy takes out of a modern upstream's result what a legacy client has no use for.
func legacy(result json.RawMessage) json.RawMessage {
	o, err := wire.ParseObject(result)
	if err != nil || o.Get("resultType") == nil {
		return result
	}
	return o.Without(func(name string) bool { return name == "resultType" }).JSON()
}
