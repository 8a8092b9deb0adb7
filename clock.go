package pawl

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// clock bridges moments at which the store's clock cannot be read: the last reading plus
// what has passed since by the process's monotonic clock.
type clock struct {
	mu   sync.Mutex
	told time.Time // the store's last answer
	at   time.Time // when it came
}

// synchronise reads the store's clock unless it has been read before. Without any reading
// nothing may be decided by time: the process's own clock can be hours away.
func (e *Executor) synchronise(ctx context.Context) error {
	e.clock.mu.Lock()
	known := !e.clock.told.IsZero()
	e.clock.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := briefly(ctx)
	defer cancel()
	_, err := e.readClock(ctx)
	return err
}

func (e *Executor) readClock(ctx context.Context) (time.Time, error) {
	t, err := e.store.Now(ctx)
	if err != nil {
		return t, fmt.Errorf("read the store's clock: %w", err)
	}
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	e.clock.told, e.clock.at = t, time.Now()
	return t, nil
}

// now is the store's clock. Whatever decides by it has synchronised before; to show a
// status, the process's own clock will do.
func (e *Executor) now(ctx context.Context) time.Time {
	if t, err := e.readClock(ctx); err == nil {
		return t
	}
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	if e.clock.told.IsZero() {
		return time.Now()
	}
	return e.clock.told.Add(time.Since(e.clock.at))
}
