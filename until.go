package pawl

import (
	"context"
	"sync"
	"time"
)

// until is a context that ends with its parent, at a time, or when it is stopped. What
// context.WithDeadline does at once, to start a timer and to take a place with the parent, it
// does when somebody first waits for the end: most turns and attempts are over before.
type until struct {
	context.Context           // the parent
	end             time.Time // zero where there is none

	mu      sync.Mutex
	waited  context.Context // from the first wait on
	cancel  context.CancelFunc
	stopped bool
}

func newUntil(parent context.Context, end time.Time) *until {
	if earlier, ok := parent.Deadline(); ok && (end.IsZero() || earlier.Before(end)) {
		end = earlier
	}
	return &until{Context: parent, end: end}
}

func (u *until) Deadline() (time.Time, bool) { return u.end, !u.end.IsZero() }

func (u *until) Done() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waited == nil {
		if u.end.IsZero() {
			u.waited, u.cancel = context.WithCancel(u.Context)
		} else {
			u.waited, u.cancel = context.WithDeadline(u.Context, u.end)
		}
		if u.stopped {
			u.cancel()
		}
	}
	return u.waited.Done()
}

func (u *until) Err() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.waited != nil:
		return u.waited.Err()
	case u.stopped:
		return context.Canceled
	case u.Context.Err() != nil:
		return u.Context.Err()
	case !u.end.IsZero() && !time.Now().Before(u.end):
		return context.DeadlineExceeded
	}
	return nil
}

// Value lets contexts made from this one find the one that is waited for, to take their
// place with it.
func (u *until) Value(key any) any {
	u.mu.Lock()
	waited := u.waited
	u.mu.Unlock()
	if waited != nil {
		return waited.Value(key)
	}
	return u.Context.Value(key)
}

// stop ends the context.
func (u *until) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	if u.cancel != nil {
		u.cancel()
	}
}
