package pawl

import (
	"context"
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

// now is the store's clock.
func (e *Executor) now(ctx context.Context) time.Time {
	t, err := e.store.Now(ctx)
	c := &e.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.told, c.at = t, time.Now()
		return t
	case c.told.IsZero():
		return time.Now()
	default:
		return c.told.Add(time.Since(c.at))
	}
}
