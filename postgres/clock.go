package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// clock is the server's clock, read now and then and carried on by this process's monotonic
// clock in between: the wall clocks of workers do not matter. It is ahead of the server by
// at most the round trip of its last reading, and never runs backwards.
type clock struct {
	mu     sync.Mutex
	server time.Time // the last reading
	sent   time.Time // when it was asked for, with the monotonic part
	told   time.Time // the last time told
	at     time.Time // when it was told
}

const (
	// clockAge is how long a reading is carried on.
	clockAge = time.Second
	// clockTrip is the longest round trip of a reading that was made in passing.
	clockTrip = 100 * time.Millisecond
	// clockPatience is the longest round trip of a reading at all.
	clockPatience = time.Second
)

// observe takes a reading that came with an answer, unless the answer took too long.
func (c *clock) observe(micros int64, sent, received time.Time) {
	if received.Sub(sent) <= clockTrip {
		c.set(micros, sent)
	}
}

func (c *clock) set(micros int64, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent.After(c.sent) {
		c.server, c.sent = time.UnixMicro(micros).UTC(), sent
	}
}

// now reports false where the last reading is too old.
func (c *clock) now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(c.sent)
	if c.sent.IsZero() || age > clockAge {
		return time.Time{}, false
	}
	next := c.server.Add(age)
	switch behind := c.told.Sub(next); {
	case behind > clockAge: // the server's clock was set back
		next = c.told.Add(time.Since(c.at))
	case behind > 0:
		next = c.told
	}
	c.told, c.at = next, time.Now()
	return next.Truncate(time.Microsecond), true
}

var errSlowClock = errors.New("the server's clock could not be read within a second")

// Now is the server's clock.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	if db.closing() {
		return time.Time{}, errClosed
	}
	if at, ok := db.clock.now(); ok {
		return at, nil
	}
	for range 3 {
		err := db.read(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
			sent := time.Now()
			found, err := exchange(ctx, c, statement{sql: "SELECT " + nowMicros})
			if err != nil {
				return err
			}
			if len(found[0].rows) == 1 && time.Since(sent) <= clockPatience {
				v := values{row: found[0].rows[0]}
				db.clock.set(v.int(), sent)
			}
			return nil
		})
		if err != nil {
			return time.Time{}, err
		}
		if at, ok := db.clock.now(); ok {
			return at, nil
		}
	}
	return time.Time{}, db.tell(ctx, errSlowClock)
}
