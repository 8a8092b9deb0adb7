package sandbox

import (
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// clock is the time of the pretend world: the base clock plus what was advanced.
type clock struct {
	base func() time.Time

	advancing sync.Mutex // held by the one advance that is under way

	mu      sync.Mutex
	offset  time.Duration
	changed chan struct{} // closed at the next advance
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base().Add(c.offset).UTC().Truncate(time.Microsecond)
}

// watch returns the time and a channel that closes when the clock jumps.
func (c *clock) watch() (time.Time, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base().Add(c.offset), c.changed
}

// set moves the clock and wakes every waiter.
func (c *clock) set(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = offset
	close(c.changed)
	c.changed = make(chan struct{})
}

// Now is the sandbox's time.
func (s *Sandbox) Now() time.Time { return s.clock.now() }

// maxOffset bounds how far the clock can be advanced in all.
const maxOffset = 100 * 365 * 24 * time.Hour

// Advance moves the sandbox's clock forward. Landings, lags, retentions, tombstones and
// lies count by it, and waits that it passes end. The new time survives a restart.
func (s *Sandbox) Advance(d time.Duration) error {
	if d < time.Microsecond {
		return fmt.Errorf("advance clock: %v is not forward", d)
	}
	s.clock.advancing.Lock()
	defer s.clock.advancing.Unlock()
	s.clock.mu.Lock()
	offset := s.clock.offset
	s.clock.mu.Unlock()
	if d > maxOffset-offset {
		return fmt.Errorf("advance clock: by more than %d years in all", int(maxOffset.Hours()/24/365))
	}
	offset += d.Truncate(time.Microsecond)
	err := s.ledger.write(s.ledger.durable, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE settings SET value = ? WHERE name = 'clock_offset'`, offset.Microseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("advance clock: %w", err)
	}
	s.clock.set(offset)
	return nil
}

// waitUntil waits for the sandbox's clock to reach t. It reports false if stop or the
// sandbox closed first.
func (s *Sandbox) waitUntil(t time.Time, stop <-chan struct{}) bool {
	for {
		now, changed := s.clock.watch()
		left := t.Sub(now)
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
		case <-stop:
			timer.Stop()
			return false
		case <-s.closed:
			timer.Stop()
			return false
		}
	}
}
