package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
)

// Interface guards.
var _ pawl.Store = (*DB)(nil)

// Options of Open and OpenPool. A zero field means its default.
type Options struct {
	// Schema is the schema of the store's tables, which is made if it is missing; default
	// "pawl". Lower-case letters, digits and underscores will do for a name.
	Schema string
	// MustExist: Open makes no store, and returns ErrNoStore where there is none. It is for
	// those who only look: a wrong place would read as a store in which nothing is open.
	MustExist bool
	// Writers is the number of transactions that are under way at once; default 2. More make
	// groups smaller and commits more frequent.
	Writers int
	// Readers is the greatest number of connections that read or claim; default 4.
	Readers int
	// BusyTimeout bounds the wait for the server before a write is begun; default 5 s. A
	// caller's context ends its own wait earlier.
	BusyTimeout time.Duration
	// ConfirmTimeout bounds the wait for a commit, and for finding out what became of one
	// whose answer was lost; default 15 s.
	ConfirmTimeout time.Duration
	// OnCorrupt is told of every row that Claim or Find refused. It must return quickly and
	// not call the store. Nil logs the error.
	OnCorrupt func(id pawl.ID, err error)
	// Log is told when the server changed; default slog.Default().
	Log *slog.Logger
}

// schemaName keeps names out that would have to be quoted.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func (o *Options) validate() error {
	var errs []error
	if o.Schema != "" && !schemaName.MatchString(o.Schema) {
		errs = append(errs, fmt.Errorf("option Schema: %q is no name of lower-case letters, digits and underscores", o.Schema))
	}
	for name, n := range map[string]int{"Writers": o.Writers, "Readers": o.Readers} {
		if n < 0 || n > 64 {
			errs = append(errs, fmt.Errorf("option %s: %d is not from 0 to 64", name, n))
		}
	}
	for name, d := range map[string]time.Duration{"BusyTimeout": o.BusyTimeout, "ConfirmTimeout": o.ConfirmTimeout} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("option %s: %v is negative", name, d))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) withDefaults() {
	if o.Schema == "" {
		o.Schema = "pawl"
	}
	if o.Writers == 0 {
		o.Writers = 2
	}
	if o.Readers == 0 {
		o.Readers = 4
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 5 * time.Second
	}
	if o.ConfirmTimeout == 0 {
		o.ConfirmTimeout = 15 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.OnCorrupt == nil {
		log := o.Log
		o.OnCorrupt = func(id pawl.ID, err error) { log.Error("row refused", "operation", id.String(), "error", err) }
	}
}

// DB is a store in one schema of a PostgreSQL database.
type DB struct {
	pool  *pgxpool.Pool
	owned bool   // the pool is this store's
	name  string // host, database and schema, for errors
	opts  Options
	sql   statements

	clock   clock
	catalog catalog
	queue   *queue
	writers sync.WaitGroup
	readers chan struct{} // a token for each reader

	served atomic.Pointer[[16]byte] // the lane that Claim served last

	recovery  error
	restored  *pawl.Restore
	footing   atomic.Pointer[footing]
	failed    atomic.Pointer[failed]
	examining sync.Mutex
	unreached atomic.Pointer[error] // why the server could not be had last

	stop      chan struct{}
	closeOnce sync.Once
}

// Close finishes the transactions that have begun, fails the writes that wait, waits for
// the reads under way, and closes the connections, except those of a host's pool. It may
// be called more than once.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		close(db.stop)
		db.queue.close()
		db.writers.Wait()
		for range cap(db.readers) {
			db.readers <- struct{}{}
		}
		if db.owned {
			db.pool.Close()
		}
	})
	return nil
}

func (db *DB) closing() bool {
	select {
	case <-db.stop:
		return true
	default:
		return false
	}
}

// acquire takes a connection, while ctx lasts and for BusyTimeout at most.
func (db *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, db.opts.BusyTimeout)
	defer cancel()
	c, err := db.pool.Acquire(ctx)
	if err != nil {
		db.unreached.Store(&err)
		return nil, err
	}
	db.unreached.Store(nil)
	return c, nil
}

// outOfReach is what a write is told that no writer could take in time.
func (db *DB) outOfReach() error {
	if f := db.failed.Load(); f != nil {
		return f.err
	}
	if why := db.unreached.Load(); why != nil {
		return fmt.Errorf("postgres: %s: %w: %w", db.name, pawl.ErrBusy, *why)
	}
	return fmt.Errorf("postgres: %s: %w", db.name, pawl.ErrBusy)
}

// lend gives a reader's connection to f.
func (db *DB) lend(ctx context.Context, f func(ctx context.Context, c *pgconn.PgConn) error) error {
	select {
	case db.readers <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-db.stop:
		return errClosed
	}
	defer func() { <-db.readers }()
	if db.closing() {
		return errClosed
	}
	c, err := db.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	return f(ctx, c.Conn().PgConn())
}

// read lends a connection to f, which changes nothing, and does so again where the
// connection was no good any more.
func (db *DB) read(ctx context.Context, f func(ctx context.Context, c *pgconn.PgConn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	end := time.Now().Add(db.opts.BusyTimeout)
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		err := db.lend(ctx, f)
		var pg *pgconn.PgError
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errClosed), ctx.Err() != nil, errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR", time.Now().Add(wait).After(end):
			return db.tell(ctx, err)
		}
		if !db.pause(ctx, wait) {
			return db.tell(ctx, err)
		}
	}
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// pause waits, unless ctx or the store ends first.
func (db *DB) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-db.stop:
		return false
	}
}
