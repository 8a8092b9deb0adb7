package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	maxHeld = 256
	maxHold = time.Hour
)

// errTooManyHeld says that a request could not be held.
var errTooManyHeld = errors.New("too many requests are held")

// holds are the requests that wait for a release.
type holds struct {
	mu      sync.Mutex
	held    map[int64]chan struct{}
	changed chan struct{} // closed when one more is held
}

func newHolds() *holds {
	return &holds{held: map[int64]chan struct{}{}, changed: make(chan struct{})}
}

// hold waits until the request is released, at most an hour.
func (h *holds) hold(seq int64, stop, closed <-chan struct{}) error {
	h.mu.Lock()
	if len(h.held) >= maxHeld {
		h.mu.Unlock()
		return errTooManyHeld
	}
	released := make(chan struct{})
	h.held[seq] = released
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()

	timer := time.NewTimer(maxHold)
	defer timer.Stop()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.held, seq)
	}()
	select {
	case <-released:
		return nil
	case <-timer.C:
		return nil
	case <-stop:
		return errStopped
	case <-closed:
		return errStopped
	}
}

func (h *holds) list() ([]int64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.held)), h.changed
}

// Held lists the requests that a hold stops, by seq.
func (s *Sandbox) Held() []int64 {
	list, _ := s.holds.list()
	return list
}

// AwaitHeld waits until at least n requests are held: a known point to kill a client at.
func (s *Sandbox) AwaitHeld(ctx context.Context, n int) error {
	for {
		list, changed := s.holds.list()
		if len(list) >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("await held: %d of %d: %w", len(list), n, ctx.Err())
		case <-s.closed:
			return fmt.Errorf("await held: %w", errStopped)
		}
	}
}

// Release lets the held request with the given seq go on, or all of them if seq is 0, and
// returns how many there were.
func (s *Sandbox) Release(seq int64) int {
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	n := 0
	for held, released := range s.holds.held {
		if seq == 0 || seq == held {
			close(released)
			delete(s.holds.held, held)
			n++
		}
	}
	return n
}
