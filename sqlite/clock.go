package sqlite

import (
	"sync"
	"time"
)

// clock is the wall clock of this process that never runs backwards: it goes on by the
// monotonic clock when the wall clock is set back, and follows it when it is set forward.
type clock struct {
	mu   sync.Mutex
	told time.Time // the last time told
	read time.Time // the reading it rests on, with its monotonic part
}

// now gives whole microseconds, which is what the columns hold.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := time.Now()
	next := read.Round(0).UTC()
	if on := c.told.Add(read.Sub(c.read)); !c.read.IsZero() && on.After(next) {
		next = on
	}
	c.told, c.read = next, read
	return next.Truncate(time.Microsecond)
}
