package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/upstream"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// separator stands between an upstream's name and the name of its tool or prompt where a
// door has several upstreams. It is made of what every client allows in a name.
const separator = "__"

// door is one place that clients come to: every upstream, or a single one.
type door struct {
	g         *Gateway
	upstreams []*upstream.Upstream
	// prefixed: names carry their upstream's.
	prefixed bool

	mu     sync.Mutex
	owners map[string]*upstream.Upstream // of resources, by URI
}

func nameOf(u *upstream.Upstream) string { return u.Server().Name }

func (d *door) has(server string) bool {
	for _, u := range d.upstreams {
		if nameOf(u) == server {
			return true
		}
	}
	return false
}

// outward is the name that clients of this door know.
func (d *door) outward(u *upstream.Upstream, name string) string {
	if !d.prefixed {
		return name
	}
	return nameOf(u) + separator + name
}

// inward finds the upstream that a client means and the name that it has there.
func (d *door) inward(name string) (*upstream.Upstream, string) {
	for _, u := range d.upstreams {
		if !d.prefixed {
			return u, name
		}
		if rest, ok := strings.CutPrefix(name, nameOf(u)+separator); ok {
			return u, rest
		}
	}
	return nil, ""
}

// tool is one tool as clients of a door see it.
type tool struct {
	up *upstream.Upstream
	// outward is the name that clients use, pawl the one that contracts use.
	outward, pawl string
	upstream.Tool
	// read: a call passes straight through.
	read bool
	// hidden are places in the arguments that belong to pawl, as JSON pointers.
	hidden []string
	// schema is the input schema without the hidden places.
	schema json.RawMessage
}

// tools lists the tools of a door in a fixed order: that of the upstreams' names, and
// within one its own.
func (d *door) tools(ctx context.Context, c *client) ([]*tool, error) {
	var all []*tool
	var errs []error
	for _, u := range d.upstreams {
		list, err := d.toolsOf(ctx, u, c)
		if err != nil {
			// One upstream that is down takes no other with it.
			errs = append(errs, fmt.Errorf("upstream %q: %w", nameOf(u), err))
			continue
		}
		all = append(all, list...)
	}
	if len(errs) == len(d.upstreams) && len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for _, err := range errs {
		d.g.opts.Log.WarnContext(ctx, "the tools of an upstream cannot be listed", slog.Any("error", err))
	}
	return all, nil
}

// toolsOf lists the tools of one upstream.
func (d *door) toolsOf(ctx context.Context, u *upstream.Upstream, c *client) ([]*tool, error) {
	listed, err := u.Tools(ctx, c.upstream())
	if err != nil {
		return nil, err
	}
	d.g.memory.list(nameOf(u), listed)
	var list []*tool
	for i := range listed {
		if t := d.known(u, &listed[i]); t != nil {
			list = append(list, t)
		}
	}
	return list, nil
}

// known is a tool that its upstream lists; nil where it is refused.
func (d *door) known(u *upstream.Upstream, listed *upstream.Tool) *tool {
	if t := d.declared(u, listed.Name); t != nil {
		t.Tool, t.schema = *listed, hide(listed.InputSchema, t.hidden)
		return t
	}
	t := &tool{up: u, outward: d.outward(u, listed.Name), pawl: nameOf(u) + "/" + listed.Name, Tool: *listed, schema: listed.InputSchema}
	t.read = listed.ReadOnly && u.Server().TrustReadOnly
	if !t.read && u.Server().Refuse {
		return nil
	}
	return t
}

// declared is a tool as the contract file knows it; nil where it does not. What only its
// upstream knows is assumed to be what is safe: that its structured content has a schema.
func (d *door) declared(u *upstream.Upstream, name string) *tool {
	for _, t := range d.g.file.MCPTools(nameOf(u)) {
		if t.Tool == name {
			return &tool{
				up: u, outward: d.outward(u, name), pawl: t.Name, read: t.Class == pawl.Read, hidden: t.Hidden,
				Tool: upstream.Tool{Name: name, HasOutputSchema: true},
			}
		}
	}
	return nil
}

// tool finds the tool that a client names; nil where there is none. What is declared, or was
// listed before, is found without the upstream, which may be down while a call is repeated.
// Of an upstream that has never been heard of, every tool may be there, and have an effect.
func (d *door) tool(ctx context.Context, c *client, name string) *tool {
	u, inner := d.inward(name)
	if u == nil {
		return nil
	}
	listed, fresh := d.g.memory.tool(nameOf(u), inner)
	if listed == nil {
		if t := d.declared(u, inner); t != nil {
			return t
		}
	}
	if listed != nil && fresh {
		return d.known(u, listed)
	}
	list, err := d.toolsOf(ctx, u, c)
	switch {
	case err == nil:
		for _, t := range list {
			if t.Name == inner {
				return t
			}
		}
		return nil
	case listed != nil:
		return d.known(u, listed)
	}
	d.g.opts.Log.WarnContext(ctx, "the tools of an upstream cannot be listed", slog.String("upstream", nameOf(u)), slog.Any("error", err))
	return &tool{up: u, outward: name, pawl: nameOf(u) + "/" + inner, Tool: upstream.Tool{Name: inner, HasOutputSchema: true}}
}

// declare makes sure that the executor knows a tool that the file does not declare.
func (g *Gateway) declare(t *tool) error {
	for _, known := range g.file.MCPTools(nameOf(t.up)) {
		if known.Name == t.pawl {
			return nil
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.undeclared[t.pawl] {
		return nil
	}
	made, err := g.file.Undeclared(nameOf(t.up), t.Name)
	if err != nil {
		return err
	}
	if err := g.ex.Register(made); err != nil {
		return err
	}
	g.undeclared[t.pawl] = true
	return nil
}

// entry is a tool as a list shows it: as its upstream does, but for the name and the places
// that are hidden.
func (t *tool) entry() json.RawMessage {
	o, err := wire.ParseObject(t.Raw)
	if err != nil {
		return nil // it came out of a list that was read
	}
	o = o.With("name", wire.Quote(t.outward))
	if len(t.hidden) > 0 {
		o = o.With("inputSchema", t.schema)
	}
	return o.JSON()
}

// hide takes places out of a schema, each a JSON pointer into the arguments.
func hide(schema json.RawMessage, places []string) json.RawMessage {
	for _, p := range places {
		if path := pointer(p); len(path) > 0 {
			schema = hideOne(schema, path)
		}
	}
	return schema
}

func hideOne(schema json.RawMessage, path []string) json.RawMessage {
	o, err := wire.ParseObject(schema)
	if err != nil {
		return schema
	}
	properties, err := wire.ParseObject(o.Get("properties"))
	if err != nil {
		return schema
	}
	inner := properties.Get(path[0])
	if inner == nil {
		return schema
	}
	if len(path) > 1 {
		return o.With("properties", properties.With(path[0], hideOne(inner, path[1:])).JSON()).JSON()
	}
	is := func(name string) bool { return name == path[0] }
	o = o.With("properties", properties.Without(is).JSON())
	var required []string
	if json.Unmarshal(o.Get("required"), &required) == nil && required != nil {
		kept := []byte{'['}
		for _, name := range required {
			if !is(name) {
				if len(kept) > 1 {
					kept = append(kept, ',')
				}
				kept = append(kept, wire.Quote(name)...)
			}
		}
		o = o.With("required", append(kept, ']'))
	}
	return o.JSON()
}

// strip takes the same places out of arguments: what a model writes there is not its own.
func strip(args json.RawMessage, places []string) json.RawMessage {
	for _, p := range places {
		if path := pointer(p); len(path) > 0 {
			args = stripOne(args, path)
		}
	}
	return args
}

func stripOne(args json.RawMessage, path []string) json.RawMessage {
	o, err := wire.ParseObject(args)
	if err != nil {
		return args
	}
	inner := o.Get(path[0])
	if len(path) > 1 && inner != nil {
		return o.With(path[0], stripOne(inner, path[1:])).JSON()
	}
	return o.Without(func(name string) bool { return name == path[0] }).JSON()
}

// pointer splits a JSON pointer.
func pointer(p string) []string {
	p = strings.TrimPrefix(p, "/")
	if p == "" {
		return nil
	}
	path := strings.Split(p, "/")
	for i := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i])
	}
	return path
}

// describe is what the upstreams of a door say about themselves, made one.
func (d *door) describe(ctx context.Context, c *client) (*description, error) {
	out := &description{}
	var caps []wire.Object
	var texts []string
	var failed error
	for _, u := range d.upstreams {
		about, err := u.Describe(ctx, c.upstream())
		if about = d.g.memory.describe(nameOf(u), about); about == nil {
			failed = errors.Join(failed, fmt.Errorf("upstream %q: %w", nameOf(u), err))
			continue
		}
		if !d.prefixed {
			out.info = about.Info
		}
		if o, err := wire.ParseObject(about.Capabilities); err == nil {
			caps = append(caps, o)
		}
		if text := strings.TrimSpace(about.Instructions); text != "" {
			if d.prefixed {
				text = nameOf(u) + ":\n" + text
			}
			texts = append(texts, text)
		}
	}
	if len(caps) == 0 && failed != nil && !d.prefixed {
		return nil, failed
	}
	if failed != nil {
		d.g.opts.Log.WarnContext(ctx, "an upstream does not say what it can", slog.Any("error", failed))
	}
	if out.info == nil {
		out.info = wire.Object{{Name: "name", Value: wire.Quote(d.g.opts.Name)}, {Name: "version", Value: wire.Quote(d.g.opts.Version)}}.JSON()
	}
	out.capabilities = capabilities(caps, d.prefixed)
	out.instructions = strings.Join(append(texts, pawl.SystemPrompt), "\n\n")
	return out, nil
}

type description struct {
	info, capabilities json.RawMessage
	instructions       string
}

// capabilities makes one of those of several servers: what any of them can do. Tasks are
// taken out, which the gateway does not carry; tools are put in, since it has one itself.
func capabilities(all []wire.Object, merge bool) json.RawMessage {
	var out wire.Object
	for _, caps := range all {
		for _, m := range caps {
			have := out.Get(m.Name)
			if have == nil {
				out = out.With(m.Name, m.Value)
				continue
			}
			a, errA := wire.ParseObject(have)
			b, errB := wire.ParseObject(m.Value)
			if !merge || errA != nil || errB != nil {
				continue
			}
			for _, inner := range b {
				if v := a.Get(inner.Name); v == nil || string(v) == "false" {
					a = a.With(inner.Name, inner.Value)
				}
			}
			out = out.With(m.Name, a.JSON())
		}
	}
	out = withoutTasks(out)
	if out.Get("tools") == nil {
		out = out.With("tools", json.RawMessage("{}"))
	}
	return out.JSON()
}

// withoutTasks takes the tasks of either era out of capabilities.
func withoutTasks(caps wire.Object) wire.Object {
	caps = caps.Without(func(name string) bool { return name == "tasks" })
	extensions, err := wire.ParseObject(caps.Get("extensions"))
	if err != nil {
		return caps
	}
	kept := extensions.Without(func(name string) bool { return name == wire.ExtensionTasks })
	if len(kept) == len(extensions) {
		return caps
	}
	return caps.With("extensions", kept.JSON())
}
