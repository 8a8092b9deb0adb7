package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/gateway/upstream"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// listener is a modern client's stream of notices that belong to no call.
type listener struct {
	door    *door
	id      wire.ID
	methods map[string]bool
	uris    []string
	notices chan *wire.Message
}

// listen answers subscriptions/listen: what is told is told until the client hangs up or the
// gateway stops.
func (x *exchange) listen() reply {
	want, err := wire.ParseObject(x.params.Get("notifications"))
	if err != nil {
		return failure(invalid("missing required 'notifications' field"))
	}
	l := &listener{door: x.door, id: x.id, methods: make(map[string]bool), notices: make(chan *wire.Message, maxNotices)}
	agreed := wire.Object{}
	for _, kind := range []struct{ member, method string }{
		{"toolsListChanged", wire.NotifyToolsChanged}, {"promptsListChanged", wire.NotifyPromptsChanged}, {"resourcesListChanged", wire.NotifyResourceChanged},
	} {
		if bytes.Equal(want.Get(kind.member), []byte("true")) {
			l.methods[kind.method] = true
			agreed = agreed.With(kind.member, json.RawMessage("true"))
		}
	}
	if raw := want.Get("resourceSubscriptions"); raw != nil {
		if json.Unmarshal(raw, &l.uris) != nil || len(l.uris) > maxSubscriptions {
			return failure(invalid("resourceSubscriptions: want a list of at most %d URIs", maxSubscriptions))
		}
		if len(l.uris) > 0 {
			agreed = agreed.With("resourceSubscriptions", raw)
			l.methods[wire.NotifyResourceUpdated] = true
		}
	}
	if !x.g.follow(l) {
		return failure(busy)
	}
	defer x.g.unfollow(l)
	subscription := wire.Object{{Name: wire.MetaSubscription, Value: json.RawMessage(x.id)}}
	over := reply{result: wire.Object{{Name: "_meta", Value: subscription.JSON()}}.JSON()}
	acknowledged := wire.Object{{Name: "notifications", Value: agreed.JSON()}, {Name: "_meta", Value: subscription.JSON()}}
	if x.out.send(wire.Notification(wire.NotifyAcknowledged, acknowledged.JSON())) != nil || len(l.methods) == 0 {
		return over
	}
	for _, u := range x.door.upstreams {
		x.g.work.Go(func() { x.subscribe(u, l) })
	}
	for {
		select {
		case m := <-l.notices:
			params, err := wire.EditMeta(m.Params, func(meta wire.Object) wire.Object { return meta.With(wire.MetaSubscription, json.RawMessage(x.id)) })
			if err != nil || x.out.send(wire.Notification(m.Method, params)) != nil {
				return over
			}
		case <-x.ctx.Done():
			return over
		case <-x.g.stopping:
			return over
		}
	}
}

// subscribe asks an upstream to tell what the client wants to be told: in a stream that
// lives as long as the client's own, or, of a legacy upstream, resource by resource. What
// it tells everybody comes by itself. An upstream that cannot be asked tells nothing.
func (x *exchange) subscribe(u *upstream.Upstream, l *listener) {
	about, err := u.Describe(x.ctx, x.upstream())
	if err != nil {
		return
	}
	if about.Era == wire.Modern {
		_, _ = u.Call(x.ctx, &upstream.Request{Client: x.upstream(), Method: x.method, Params: x.raw, Caller: relay{l}})
		return
	}
	for _, uri := range l.uris {
		params := wire.Object{{Name: "uri", Value: wire.Quote(uri)}}.JSON()
		_, _ = u.Call(x.ctx, &upstream.Request{Client: x.upstream(), Method: wire.MethodSubscribe, Params: params})
	}
}

// relay takes what an upstream tells on a stream of notices.
type relay struct{ l *listener }

var _ upstream.Caller = relay{}

func (r relay) Tell(method string, params json.RawMessage) {
	r.l.notice(wire.Notification(method, params))
}

func (relay) Ask(context.Context, string, json.RawMessage) (json.RawMessage, *wire.Error) {
	return nil, &wire.Error{Code: wire.CodeMethodNotFound, Message: errGone.Error()}
}

func (relay) Input(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errGone }

func (relay) Meta() wire.Object { return nil }

// maxSubscriptions is how many resources one stream may be told of.
const maxSubscriptions = 1000

// maxListeners is how many streams of modern clients there may be.
const maxListeners = 1024

func (g *Gateway) follow(l *listener) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped || len(g.listeners) >= maxListeners {
		return false
	}
	g.listeners[l] = true
	return true
}

func (g *Gateway) unfollow(l *listener) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.listeners, l)
}

// notice takes a notification that the client has asked for; one that finds no room is
// dropped.
func (l *listener) notice(m *wire.Message) {
	if !l.methods[m.Method] {
		return
	}
	if m.Method == wire.NotifyResourceUpdated {
		params, err := wire.ParseObject(m.Params)
		if err != nil {
			return
		}
		if uri, _ := params.Text("uri"); !slices.Contains(l.uris, uri) {
			return
		}
	}
	select {
	case l.notices <- m:
	default:
	}
}
