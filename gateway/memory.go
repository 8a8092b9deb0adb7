package gateway

import (
	"sync"

	"github.com/pawl-dev/pawl/gateway/upstream"
)

// memory is what upstreams last said about themselves. It lets a call be repeated, and a
// client come back, while an upstream is down.
type memory struct {
	mu     sync.Mutex
	tools  map[string]map[string]upstream.Tool // by upstream and name
	stale  map[string]bool                     // the upstream's tools have changed since
	abouts map[string]*upstream.Description
}

func newMemory() *memory {
	return &memory{tools: make(map[string]map[string]upstream.Tool), stale: make(map[string]bool), abouts: make(map[string]*upstream.Description)}
}

// list remembers the tools of an upstream. Lists differ by who asks, so that a tool that is
// not in this one is not forgotten.
func (m *memory) list(server string, tools []upstream.Tool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.tools[server]
	if known == nil || m.stale[server] || len(known)+len(tools) > maxRemembered {
		known = make(map[string]upstream.Tool, len(tools))
	}
	for _, t := range tools {
		known[t.Name] = t
	}
	m.tools[server] = known
	delete(m.stale, server)
}

// maxRemembered is how many tools of one upstream are remembered.
const maxRemembered = 10_000

// changed notes that the tools of an upstream are not what they were.
func (m *memory) changed(server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale[server] = true
}

// tool is a tool as it was last listed, and whether that may still be so; nil where it never
// was.
func (m *memory) tool(server, name string) (t *upstream.Tool, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.tools[server][name]; ok {
		return &t, !m.stale[server]
	}
	return nil, false
}

// describe remembers what an upstream says about itself; where it says nothing now it is
// what it last said.
func (m *memory) describe(server string, about *upstream.Description) *upstream.Description {
	m.mu.Lock()
	defer m.mu.Unlock()
	if about != nil {
		m.abouts[server] = about
	}
	return m.abouts[server]
}
