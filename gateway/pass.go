package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pawl-dev/pawl/gateway/upstream"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// pass has an upstream answer a request that has no effect. A modern client that is asked
// something in the meantime gets the question as its answer, and goes on with the next
// request.
func (x *exchange) pass(u *upstream.Upstream, params json.RawMessage) reply {
	params, err := wire.EditMeta(params, func(meta wire.Object) wire.Object { return meta.Without(ours) })
	if err != nil {
		return failure(invalid("%v", err))
	}
	t := newTalk(x)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), x.g.opts.ReadTime)
	done := make(chan reply, 1)
	x.g.work.Go(func() {
		defer cancel()
		a, err := u.Call(ctx, &upstream.Request{Client: x.upstream(), Method: x.method, Params: params, Caller: t, PassInput: x.era == wire.Modern})
		switch {
		case err != nil:
			done <- x.failed("pass on a request", err)
		case a.Error != nil:
			done <- failure(a.Error)
		case x.era == wire.Legacy:
			done <- reply{result: legacy(a.Result)}
		default:
			done <- reply{result: a.Result}
		}
	})
	var await func(x *exchange) reply
	await = func(x *exchange) reply {
		r, parked := wait(t, x, cancel, done, await, nil)
		if parked != nil {
			return *parked
		}
		return r
	}
	return await(x)
}

// single reports whether the door has one upstream alone, whose names are its own.
func (d *door) single() *upstream.Upstream {
	if d.prefixed || len(d.upstreams) == 0 {
		return nil
	}
	return d.upstreams[0]
}

// list answers a list request: as the upstream does where there is one, else with what all
// of them list, whole. Rename makes an entry what clients of the door see.
func (x *exchange) list(member string, rename func(u *upstream.Upstream, entry wire.Object) wire.Object) reply {
	if u := x.door.single(); u != nil {
		return x.pass(u, x.raw)
	}
	out := []byte{'['}
	var failed error
	for _, u := range x.door.upstreams {
		entries, err := x.pages(u, member)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("upstream %q: %w", nameOf(u), err))
			continue
		}
		for _, e := range entries {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, rename(u, e).JSON()...)
		}
	}
	if failed != nil {
		x.g.opts.Log.WarnContext(x.ctx, "a list is not whole", slog.String("method", x.method), slog.Any("error", failed))
	}
	return reply{result: wire.Object{{Name: member, Value: append(out, ']')}}.JSON()}
}

// maxPages bounds how far a list is followed.
const maxPages = 100

// pages reads every page of an upstream's list. An upstream that does not have the list has
// an empty one.
func (x *exchange) pages(u *upstream.Upstream, member string) ([]wire.Object, error) {
	ctx, cancel := context.WithTimeout(x.ctx, x.g.opts.ReadTime)
	defer cancel()
	var all []wire.Object
	cursor := ""
	for range maxPages {
		params := wire.Object{}
		if cursor != "" {
			params = params.With("cursor", wire.Quote(cursor))
		}
		a, err := u.Call(ctx, &upstream.Request{Client: x.upstream(), Method: x.method, Params: params.JSON()})
		if err != nil {
			return nil, err
		}
		if a.Error != nil {
			if a.Error.Code == wire.CodeMethodNotFound {
				return nil, nil
			}
			return nil, a.Error
		}
		page, err := wire.ParseObject(a.Result)
		if err != nil {
			return nil, err
		}
		var entries []json.RawMessage
		if raw := page.Get(member); raw != nil {
			if err := json.Unmarshal(raw, &entries); err != nil {
				return nil, fmt.Errorf("%s is no list", member)
			}
		}
		for _, raw := range entries {
			e, err := wire.ParseObject(raw)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		if cursor, _ = page.Text("nextCursor"); cursor == "" {
			return all, nil
		}
	}
	return nil, fmt.Errorf("more than %d pages", maxPages)
}

func (x *exchange) listPrompts() reply {
	return x.list("prompts", func(u *upstream.Upstream, e wire.Object) wire.Object {
		name, _ := e.Text("name")
		return e.With("name", wire.Quote(x.door.outward(u, name)))
	})
}

func (x *exchange) listResources() reply {
	return x.list("resources", func(u *upstream.Upstream, e wire.Object) wire.Object {
		if uri, ok := e.Text("uri"); ok {
			x.door.owns(uri, u)
		}
		return e
	})
}

func (x *exchange) listTemplates() reply {
	return x.list("resourceTemplates", func(_ *upstream.Upstream, e wire.Object) wire.Object { return e })
}

// named passes a request on to the upstream in whose prefix a name begins.
func (x *exchange) named(name string, rename func(inner string) wire.Object) reply {
	u, inner := x.door.inward(name)
	if u == nil {
		return failure(invalid("no such name: %q", clip(name)))
	}
	return x.pass(u, rename(inner).JSON())
}

func (x *exchange) getPrompt() reply {
	name, ok := x.params.Text("name")
	if !ok {
		return failure(invalid("name is missing"))
	}
	return x.named(name, func(inner string) wire.Object { return x.params.With("name", wire.Quote(inner)) })
}

func (x *exchange) complete() reply {
	ref, err := wire.ParseObject(x.params.Get("ref"))
	if err != nil {
		return failure(invalid("ref is missing"))
	}
	if name, ok := ref.Text("name"); ok {
		return x.named(name, func(inner string) wire.Object {
			return x.params.With("ref", ref.With("name", wire.Quote(inner)).JSON())
		})
	}
	uri, _ := ref.Text("uri")
	return x.byURI(uri)
}

func (x *exchange) ofResource() reply {
	uri, ok := x.params.Text("uri")
	if !ok {
		return failure(invalid("uri is missing"))
	}
	return x.byURI(uri)
}

// byURI passes a request on to the upstream that a resource belongs to. Where nobody has
// listed it, each is asked in turn: nothing of what is asked here has an effect.
func (x *exchange) byURI(uri string) reply {
	if u := x.door.single(); u != nil {
		return x.pass(u, x.raw)
	}
	if u := x.door.owner(uri); u != nil {
		return x.pass(u, x.raw)
	}
	last := failure(invalid("no such resource"))
	for _, u := range x.door.upstreams {
		r := x.pass(u, x.raw)
		if r.err == nil {
			x.door.owns(uri, u)
			return r
		}
		if r.err.Code != wire.CodeMethodNotFound {
			last = r
		}
	}
	return last
}

// maxOwned is how many resources a door remembers the upstream of.
const maxOwned = 10_000

func (d *door) owns(uri string, u *upstream.Upstream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owners == nil || len(d.owners) >= maxOwned {
		d.owners = make(map[string]*upstream.Upstream)
	}
	d.owners[uri] = u
}

func (d *door) owner(uri string) *upstream.Upstream {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owners[uri]
}

// setLevel tells every upstream that writes a log how much of it the client wants.
func (x *exchange) setLevel() reply {
	if u := x.door.single(); u != nil {
		return x.pass(u, x.raw)
	}
	var refused *wire.Error
	for _, u := range x.door.upstreams {
		if r := x.pass(u, x.raw); r.err != nil && r.err.Code == wire.CodeInvalidParams {
			refused = cmp.Or(refused, r.err)
		}
	}
	if refused != nil {
		return failure(refused)
	}
	return reply{result: json.RawMessage("{}")}
}

func (x *exchange) listTools() reply {
	ctx, cancel := context.WithTimeout(x.ctx, x.g.opts.ReadTime)
	defer cancel()
	tools, err := x.door.tools(ctx, x.client)
	if err != nil {
		return x.failed("list tools", err)
	}
	out := []byte{'['}
	for _, t := range tools {
		if t.outward != statusTool {
			out = append(append(out, t.entry()...), ',')
		}
	}
	out = append(append(out, statusEntry...), ']')
	return reply{result: wire.Object{{Name: "tools", Value: out}}.JSON()}
}
