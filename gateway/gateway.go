package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/gateway/upstream"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// Options of New. Nil and zero fields mean the defaults.
type Options struct {
	// Name and Version are the server's own where a door has several upstreams; default
	// "pawl" and "dev".
	Name, Version string
	// Budget is how long a call of an effect is worked on before its caller is answered
	// with what is known then; default 45 s. Budgets has others by the name that a client
	// gives in its clientInfo.
	Budget  time.Duration
	Budgets map[string]time.Duration
	// ReadTime bounds every other request; default 10 minutes.
	ReadTime time.Duration
	// Beat is the pause between two signs of life to a caller that waits; default 10 s.
	Beat time.Duration
	// RunKeys are keys of a request's _meta whose value names the run where the caller does
	// not name one itself; nil means DefaultRunKeys.
	RunKeys []string
	// Run is the run of calls that name none; default the client: see defaultRun.
	Run string
	// SessionIdle is how long a legacy session over HTTP lives without a request; default
	// 30 minutes.
	SessionIdle time.Duration
	// AnswerTime is how long a question to a person stays open; default 10 minutes.
	AnswerTime time.Duration
	// RepeatAfter is how long after its answer the same call may be a wish for a second effect,
	// about which the person at the client is asked; default 10 s. One that comes sooner is a
	// repeat of the client's own.
	RepeatAfter time.Duration
	// MaxSessions bounds the legacy sessions over HTTP and MaxParked the calls of modern
	// clients that wait for an answer, of each tenant; defaults 1024 and 1024.
	MaxSessions, MaxParked int
	// MaxCalls bounds the requests of one client that are worked on at a time; default 512.
	MaxCalls int
	// MaxMessage is the size in bytes of the largest message; default 4 MiB.
	MaxMessage int
	// Log takes what an operator should read; default slog.Default().
	Log *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Name = cmp.Or(d.Name, "pawl")
	d.Version = cmp.Or(d.Version, "dev")
	d.Budget = cmp.Or(d.Budget, 45*time.Second)
	d.ReadTime = cmp.Or(d.ReadTime, 10*time.Minute)
	d.Beat = cmp.Or(d.Beat, 10*time.Second)
	d.SessionIdle = cmp.Or(d.SessionIdle, 30*time.Minute)
	d.AnswerTime = cmp.Or(d.AnswerTime, 10*time.Minute)
	d.RepeatAfter = cmp.Or(d.RepeatAfter, 10*time.Second)
	d.MaxSessions = cmp.Or(d.MaxSessions, 1024)
	d.MaxParked = cmp.Or(d.MaxParked, 1024)
	d.MaxCalls = cmp.Or(d.MaxCalls, 512)
	d.MaxMessage = cmp.Or(d.MaxMessage, 4<<20)
	if d.RunKeys == nil {
		d.RunKeys = DefaultRunKeys
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	return d
}

// Principal is on whose behalf a client speaks.
type Principal struct{ Tenant, Actor string }

// Gateway is the front of a file's MCP upstreams.
type Gateway struct {
	ex    *pawl.Executor
	store pawl.Store
	file  *contract.File
	set   *upstream.Set
	opts  Options

	doors    map[string]*door // by name; "" has every upstream
	parked   *parking
	answered answered
	memory   *memory

	mu         sync.Mutex
	sessions   map[string]*session
	perTenant  map[string]int // sessions over HTTP
	listeners  map[*listener]bool
	undeclared map[string]bool // tools that were registered at run time
	stopping   chan struct{}
	stopped    bool

	work sync.WaitGroup // calls of the executor and reads that outlive their exchange
}

// New returns the gateway of a file's MCP upstreams. It starts nothing, and makes known to
// the executor the undeclared tools whose operations are still open. The executor has the
// file's tools; the set is the one that the file uses, and its Notify is
// [Gateway.Notify]. All three stay the caller's to end, after Stop.
func New(ctx context.Context, ex *pawl.Executor, store pawl.Store, file *contract.File, set *upstream.Set, o *Options) (*Gateway, error) {
	g := &Gateway{
		ex: ex, store: store, file: file, set: set, opts: o.withDefaults(), doors: make(map[string]*door),
		sessions: make(map[string]*session), perTenant: make(map[string]int), listeners: make(map[*listener]bool),
		undeclared: make(map[string]bool), stopping: make(chan struct{}), memory: newMemory(),
	}
	g.parked = newParking(g.opts.AnswerTime, g.opts.MaxParked)
	whole := &door{g: g}
	for _, s := range file.MCPServers() {
		up := set.Get(s.Name)
		whole.upstreams = append(whole.upstreams, up)
		g.doors[s.Name] = &door{g: g, upstreams: []*upstream.Upstream{up}}
	}
	whole.prefixed = len(whole.upstreams) > 1
	for _, a := range whole.upstreams {
		for _, b := range whole.upstreams {
			if a != b && strings.HasPrefix(nameOf(a)+separator, nameOf(b)+separator) {
				return nil, fmt.Errorf("upstreams %q and %q: names behind one door must tell their tools apart: rename one", nameOf(b), nameOf(a))
			}
		}
	}
	g.doors[""] = whole
	return g, g.recall(ctx)
}

// recall registers the tools that the file does not declare and whose operations are open,
// so that the executor settles them although nobody calls.
func (g *Gateway) recall(ctx context.Context) error {
	known := make(map[string]bool)
	for _, c := range g.ex.Contracts() {
		known[c.Tool] = true
	}
	q := pawl.Query{AllTenants: true, Open: true, Limit: recallPage}
	for {
		page, err := g.store.Find(ctx, q)
		if err != nil {
			return fmt.Errorf("find open operations: %w", err)
		}
		for _, op := range page {
			server, name, ok := strings.Cut(op.Tool, "/")
			if !ok || known[op.Tool] || g.set.Get(server) == nil {
				continue
			}
			known[op.Tool] = true
			// One that is refused today waits for a person.
			if err := g.declare(&tool{up: g.set.Get(server), pawl: op.Tool, Tool: upstream.Tool{Name: name}}); err != nil && !errors.Is(err, contract.ErrUndeclared) {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.Before = page[len(page)-1].ID
	}
}

// recallPage is how many operations are looked at at a time.
const recallPage = 500

// Notify takes what an upstream says that belongs to no call.
func (g *Gateway) Notify(n *upstream.Notice) {
	if n.Method == wire.NotifyToolsChanged {
		g.memory.changed(n.Server)
	}
	m := wire.Notification(n.Method, n.Params)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sessions {
		if s.door.has(n.Server) && (n.Session == "" || n.Session == s.id) && s.initialized() != nil {
			s.notice(m)
		}
	}
	for l := range g.listeners {
		if l.door.has(n.Server) {
			l.notice(m)
		}
	}
}

// Stop ends sessions and streams and waits for nothing but the work that the executor's
// own Stop ends. It may be called twice.
func (g *Gateway) Stop() {
	g.mu.Lock()
	if !g.stopped {
		g.stopped = true
		close(g.stopping)
	}
	var all []*session
	for _, s := range g.sessions {
		all = append(all, s)
	}
	g.mu.Unlock()
	for _, s := range all {
		s.end()
	}
	g.parked.close()
}

// Wait returns when nothing that the gateway started runs any more.
func (g *Gateway) Wait() { g.work.Wait() }

// budget is how long a client's call of an effect may be worked on.
func (g *Gateway) budget(c *client) time.Duration {
	if b, ok := g.opts.Budgets[c.name]; ok && b > 0 {
		return b
	}
	return g.opts.Budget
}
