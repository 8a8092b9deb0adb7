package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/gateway/wire"
)

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

// toolList is what a session knows of its server's tools.
type toolList struct {
	mu      sync.Mutex
	listing chan struct{} // held by the one who lists
	tools   []Tool
	fresh   time.Time // until when they count; zero where there are none
	version int       // counts the changes that were heard of
}

const (
	// maxTools and maxPages cap a server's list.
	maxTools, maxPages = 10_000, 200
	// listAge is how long a list counts whose server would say that it changes, or for
	// which it names a time; quietListAge where it would not.
	listAge, quietListAge = time.Hour, time.Minute
)

// changed makes the list one that has to be read again.
func (l *toolList) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fresh = time.Time{}
	l.version++
}

// Tools lists the server's tools, all pages. The list is kept until the server says that
// it has changed, or its time is over.
func (u *Upstream) Tools(ctx context.Context, c *Client) ([]Tool, error) {
	for try := 0; ; try++ {
		s, err := u.acquire(ctx, c)
		if err != nil {
			return nil, err
		}
		tools, err := s.listTools(ctx)
		u.release(s)
		if err == nil || s.alive() || try > 0 {
			return tools, err
		}
		// The session ended over it, as one that the server has forgotten: it is a read, so
		// it is made once more in a new one.
	}
}

// Known is a tool as the server last listed it, however long ago. It asks nobody.
func (u *Upstream) Known(name string) (Tool, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	k := u.known[name]
	if k == nil {
		return Tool{}, false
	}
	return k.tool, true
}

// known is a tool that was listed, with the schema by which its arguments are checked.
type known struct {
	tool   Tool
	schema *schema
}

func (s *session) listTools(ctx context.Context) ([]Tool, error) {
	l := &s.tools
	l.mu.Lock()
	if l.listing == nil {
		l.listing = make(chan struct{}, 1)
	}
	l.mu.Unlock()
	select {
	case l.listing <- struct{}{}:
		defer func() { <-l.listing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	tools, fresh, version := l.tools, time.Now().Before(l.fresh), l.version
	l.mu.Unlock()
	if fresh {
		return tools, nil
	}
	tools, age, err := s.readTools(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tools = tools
	if l.version == version {
		l.fresh = time.Now().Add(age)
	}
	s.up.remember(tools)
	return tools, nil
}

// readTools reads all pages and says how long they count.
func (s *session) readTools(ctx context.Context) (tools []Tool, age time.Duration, err error) {
	age = quietListAge
	if capabilities, err := wire.ParseObject(s.says.Capabilities); err == nil {
		own, err := wire.ParseObject(capabilities.Get("tools"))
		if err != nil {
			return []Tool{}, listAge, nil // a server without tools
		}
		if string(own.Get("listChanged")) == "true" {
			age = listAge
		}
	}
	tools = []Tool{}
	seen := map[string]bool{}
	var cursor json.RawMessage
	for page := 0; page < maxPages; page++ {
		params := wire.Object{}
		if cursor != nil {
			params = params.With("cursor", cursor)
		}
		raw, err := s.ask(ctx, wire.MethodListTools, params.JSON())
		if err != nil {
			return nil, 0, err
		}
		result, err := wire.ParseObject(raw)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", wire.MethodListTools, err)
		}
		var list []json.RawMessage
		if err := json.Unmarshal(result.Get("tools"), &list); err != nil {
			return nil, 0, fmt.Errorf("%s: the answer has no list of tools", wire.MethodListTools)
		}
		for _, raw := range list {
			if t, ok := readTool(raw); ok && !seen[t.Name] && len(tools) < maxTools {
				seen[t.Name] = true
				tools = append(tools, t)
			}
		}
		var ttl int64
		if json.Unmarshal(result.Get("ttlMs"), &ttl) == nil && ttl >= 0 {
			age = min(age, time.Duration(min(ttl, int64(listAge/time.Millisecond)))*time.Millisecond)
		}
		if cursor = result.Get("nextCursor"); cursor == nil {
			return tools, age, nil
		}
	}
	return nil, 0, fmt.Errorf("%s: %w", wire.MethodListTools, errPages)
}

var errPages = errors.New("the list has no end")

// ask makes a read of our own in the form of the session's era.
func (s *session) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	x := &exchange{}
	if s.says.Era == wire.Modern {
		var err error
		if params, err = wire.EditMeta(params, func(meta wire.Object) wire.Object { return s.up.modernMeta(meta, nil, s.says.Version) }); err != nil {
			return nil, err
		}
		x.header = modernHeader(method, params)
	}
	return s.request(ctx, method, params, x)
}

// readTool reads an entry of a list. One that is not understood is no tool.
func readTool(raw json.RawMessage) (Tool, bool) {
	o, err := wire.ParseObject(raw)
	if err != nil {
		return Tool{}, false
	}
	t := Tool{Raw: raw, InputSchema: o.Get("inputSchema"), HasOutputSchema: o.Get("outputSchema") != nil}
	var ok bool
	if t.Name, ok = o.Text("name"); !ok || t.Name == "" {
		return Tool{}, false
	}
	if hints, err := wire.ParseObject(o.Get("annotations")); err == nil {
		t.ReadOnly = string(hints.Get("readOnlyHint")) == "true"
	}
	return t, true
}

// remember keeps what was listed, also of tools that are not listed any more: calls of them
// may be under way.
func (u *Upstream) remember(tools []Tool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range tools {
		switch old := u.known[t.Name]; {
		case old != nil && string(old.tool.Raw) == string(t.Raw):
		case old != nil || len(u.known) < maxTools:
			u.known[t.Name] = &known{t, &schema{raw: t.InputSchema}}
		}
	}
}

func (u *Upstream) schemaOf(tool string) *schema {
	u.mu.Lock()
	defer u.mu.Unlock()
	if k := u.known[tool]; k != nil {
		return k.schema
	}
	return nil
}

// bind sets the headers that a modern server wants for arguments. The tool's schema says
// which; where it is not known yet the tools are listed first.
func (u *Upstream) bind(ctx context.Context, h http.Header, c *Client, params json.RawMessage) {
	o, err := wire.ParseObject(params)
	if err != nil {
		return
	}
	name, _ := o.Text("name")
	if u.schemaOf(name) == nil {
		if _, err := u.Tools(ctx, c); err != nil {
			u.log.Warn("the tools could not be listed before a call", "error", err)
		}
	}
	if s := u.schemaOf(name); s != nil {
		paramHeaders(h, params, s.headers())
	}
}

// binding is an argument that goes into a header too.
type binding struct {
	path   []string
	header string
}

// bindings finds the properties that a schema marks with x-mcp-header.
func bindings(raw json.RawMessage, path []string, depth int) (list []binding) {
	const maxDepth = 16
	o, err := wire.ParseObject(raw)
	if err != nil || depth > maxDepth {
		return nil
	}
	properties, err := wire.ParseObject(o.Get("properties"))
	if err != nil {
		return nil
	}
	for _, p := range properties {
		at := append(append([]string(nil), path...), p.Name)
		if inner, err := wire.ParseObject(p.Value); err == nil {
			if name, ok := inner.Text("x-mcp-header"); ok && headerToken(name) {
				list = append(list, binding{at, name})
			}
		}
		list = append(list, bindings(p.Value, at, depth+1)...)
	}
	return list
}

// headerToken reports whether a name can be a part of a header's.
func headerToken(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
