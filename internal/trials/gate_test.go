package trials

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/pawl-dev/pawl"
)

// A gate is a store at which its executor can be stopped: at "begun", when an intent is
// on stable storage and the executor does not know it yet, and at "apply EVENT", before the
// event is written.
type gate struct {
	pawl.Store

	mu    sync.Mutex
	stops map[string]*stop
}

// A stop holds whoever comes to it.
type stop struct {
	arrived chan struct{} // closed when the first has come
	open    chan struct{} // closed when they may go on
	come    sync.Once
}

func newGate(s pawl.Store) *gate { return &gate{Store: s, stops: map[string]*stop{}} }

func (g *gate) close(point string) *stop {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &stop{arrived: make(chan struct{}), open: make(chan struct{})}
	g.stops[point] = s
	return s
}

func (g *gate) at(point string) *stop {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stops[point]
}

func (g *gate) openAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for point, s := range g.stops {
		close(s.open)
		delete(g.stops, point)
	}
}

func (g *gate) pass(point string) {
	if s := g.at(point); s != nil {
		s.come.Do(func() { close(s.arrived) })
		<-s.open
	}
}

// Begin stops behind the commit.
func (g *gate) Begin(ctx context.Context, op *pawl.Operation, first []byte) (*pawl.Standing, error) {
	standing, err := g.Store.Begin(ctx, op, first)
	if standing == nil && err == nil {
		g.pass("begun")
	}
	return standing, err
}

// Apply stops before the write.
func (g *gate) Apply(ctx context.Context, c *pawl.Change) error {
	var e pawl.Entry
	if err := json.Unmarshal(c.Entry, &e); err != nil {
		return err
	}
	g.pass("apply " + e.Event)
	return g.Store.Apply(ctx, c)
}
