package gateway

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/gateway/wire"
)

// initialize answers a legacy client's handshake and makes it the session's client.
func (s *session) initialize(ctx context.Context, m *wire.Message) reply {
	params, err := wire.ParseObject(m.Params)
	if err != nil {
		return failure(invalid("params: %v", err))
	}
	version, _ := params.Text("protocolVersion")
	if version == "" {
		return failure(invalid("protocolVersion is missing"))
	}
	if !wire.Spoken(version) || wire.EraOf(version) == wire.Modern {
		version = wire.LatestLegacy
	}
	c := newClient(s.who, version, params.Get("clientInfo"), params.Get("capabilities"))
	c.session = s.id
	s.mu.Lock()
	if s.client != nil {
		s.mu.Unlock()
		return failure(&wire.Error{Code: wire.CodeInvalidRequest, Message: "this session is initialized already"})
	}
	s.client = c
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.g.opts.ReadTime)
	defer cancel()
	about, err := s.door.describe(ctx, c)
	if err != nil {
		s.mu.Lock()
		s.client = nil // the client may try again
		s.mu.Unlock()
		x := &exchange{g: s.g, method: m.Method, ctx: ctx}
		return x.failed("describe upstream", err)
	}
	return reply{result: wire.Object{
		{Name: "protocolVersion", Value: wire.Quote(version)},
		{Name: "capabilities", Value: about.capabilities},
		{Name: "serverInfo", Value: about.info},
		{Name: "instructions", Value: wire.Quote(about.instructions)},
	}.JSON()}
}

func (x *exchange) discover() reply {
	ctx, cancel := context.WithTimeout(x.ctx, x.g.opts.ReadTime)
	defer cancel()
	about, err := x.door.describe(ctx, x.client)
	if err != nil {
		return x.failed("describe upstream", err)
	}
	versions, err := json.Marshal(wire.Versions)
	if err != nil {
		return x.failed("encode versions", err)
	}
	return reply{result: wire.Object{
		{Name: "supportedVersions", Value: versions},
		{Name: "capabilities", Value: about.capabilities},
		{Name: "instructions", Value: wire.Quote(about.instructions)},
		{Name: "_meta", Value: wire.Object{{Name: wire.MetaServerInfo, Value: about.info}}.JSON()},
	}.JSON()}
}

// notified takes a notification of a legacy client, or of any client on stdio.
func (s *session) notified(ctx context.Context, m *wire.Message) {
	switch m.Method {
	case wire.NotifyCancelled:
		if params, err := wire.ParseObject(m.Params); err == nil {
			s.cancel(wire.ID(params.Get("requestId")))
		}
	case wire.NotifyRootsChanged:
		c := s.initialized()
		if c == nil {
			return
		}
		for _, u := range s.door.upstreams {
			// One that does not run has no roots to forget.
			_ = u.Notify(ctx, c.upstream(), m.Method, m.Params)
		}
	}
}
