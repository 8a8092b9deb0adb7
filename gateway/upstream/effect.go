package upstream

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// callTool puts one call of a tool on the wire, in the name of the caller that the context
// has.
func (u *Upstream) callTool(ctx context.Context, c *contract.MCPCall) *contract.MCPAnswer {
	client, caller := callerOf(ctx)
	s, err := u.ready(ctx, client, c)
	if err != nil {
		return unsentAnswer("no_session", err)
	}
	defer u.release(s)
	header := c.Header.Clone()
	if s.says.Era == wire.Modern {
		if header == nil {
			header = map[string][]string{}
		}
		u.bind(ctx, header, client, c.Params)
	}
	var meta wire.Object
	if caller != nil {
		meta = caller.Meta()
	}
	params, err := wire.EditMeta(c.Params, func(own wire.Object) wire.Object { return late(own, meta, c.Meta) })
	if err != nil {
		return unsentAnswer("params", err)
	}
	k := s.begin(ctx, client, caller, meta)
	defer k.finish()
	o := k.run(&exchange{method: wire.MethodCallTool, header: header, effect: c.Effect}, params, caller)
	a := &contract.MCPAnswer{Facts: o.facts, Header: o.header}
	if r := o.response; r != nil {
		a.Result = r.Result
		if r.Error != nil {
			a.Error = &contract.MCPError{Code: r.Error.Code, Message: r.Error.Message, Data: r.Error.Data}
		}
	}
	return a
}

// late joins to a call's own _meta what belongs to the attempt: the caller's keys, and
// those of the contract, which go before. What the call has of its own stays as it is.
func late(own, callers wire.Object, contracts map[string]string) wire.Object {
	joined := own
	for name, v := range contracts {
		if own.Get(name) == nil {
			joined = joined.With(name, wire.Quote(v))
		}
	}
	for _, m := range callers {
		if joined.Get(m.Name) == nil && !ofOneWay(m.Name) {
			joined = append(joined[:len(joined):len(joined)], m)
		}
	}
	return joined
}

// restAge is the age of a session's last use above which it is looked at before an effect
// is sent over it: a server may have forgotten it in the meantime.
const restAge = 30 * time.Second

// ready is a session that an effect can be sent over. One that has rested long, or over which
// the last request got no response, is looked at first, by a ping, which has no effect; where
// that shows that the server has forgotten the session, another one is taken.
func (u *Upstream) ready(ctx context.Context, client *Client, c *contract.MCPCall) (*session, error) {
	s, err := u.acquire(ctx, client)
	if err != nil || !c.Effect || u.transport == nil || s.says.Era == wire.Modern || s.restedFor() < u.restAge && !s.silent.Load() {
		return s, err
	}
	look, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	s.request(look, wire.MethodPing, nil, nil) // what it answers does not matter
	select {
	case <-s.peer.ended():
	default:
		return s, nil
	}
	u.release(s)
	u.forget(s)
	return u.acquire(ctx, client)
}

func unsentAnswer(proof string, err error) *contract.MCPAnswer {
	return &contract.MCPAnswer{Facts: notSent(proof, err).facts}
}
