package sqlite

import (
	"context"
	"sync"
	"time"
)

// gate lets a bounded number of readers in. It can be shut for a moment, in which those
// who come wait outside.
type gate struct {
	places chan struct{} // a token for each reader that has a place, inside or in front

	mu     sync.Mutex
	inside int
	opened chan struct{} // while shut: closed when the gate opens
	empty  chan struct{} // while shut with readers inside: closed when the last one leaves
}

func newGate(places int) *gate { return &gate{places: make(chan struct{}, places)} }

// enter waits for a place while ctx lasts and stop is open. Who has entered must leave.
func (g *gate) enter(ctx context.Context, stop <-chan struct{}) error {
	select {
	case g.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-stop:
		return errClosed
	}
	for {
		opened := g.pass()
		if opened == nil {
			return nil
		}
		select {
		case <-opened:
			continue
		case <-ctx.Done():
			<-g.places
			return ctx.Err()
		case <-stop:
			<-g.places
			return errClosed
		}
	}
}

// pass goes in, or returns what to wait for.
func (g *gate) pass() (opened <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.inside++
	}
	return g.opened
}

func (g *gate) leave() {
	g.mu.Lock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
	g.mu.Unlock()
	<-g.places
}

// shut lets nobody in until open is called, and reports whether all who were inside left
// in time.
func (g *gate) shut(limit time.Duration) bool {
	g.mu.Lock()
	g.opened = make(chan struct{})
	if g.inside == 0 {
		g.mu.Unlock()
		return true
	}
	empty := make(chan struct{})
	g.empty = empty
	g.mu.Unlock()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-empty:
		return true
	case <-late.C:
		return false
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opened)
	g.opened, g.empty = nil, nil
}

// fill takes every place, for good.
func (g *gate) fill() {
	for range cap(g.places) {
		g.places <- struct{}{}
	}
}
