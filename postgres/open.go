package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
)

// connectTimeout bounds one attempt to connect, where the URL does not say.
const connectTimeout = 5 * time.Second

// Open opens the store in the database of a URL, such as
// postgres://pawl@db.example.com/pawl?sslmode=verify-full, and makes its schema and tables
// where they are missing. It returns ErrNoStore, ErrForeign, pawl.ErrNewerSchema if a newer
// pawl wrote the store, pawl.ErrReadOnly if it cannot be written, as on a standby, and
// pawl.ErrBusy if the server could not be had. No error holds the password.
func Open(ctx context.Context, url string, o *Options) (*DB, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		var bad *pgconn.ParseConfigError
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("postgres: open: %w", bad) // which hides the password
		}
		return nil, errors.New("postgres: open: the URL is not one that PostgreSQL's clients understand")
	}
	opts, err := optionsFor(o)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	Hook(config.ConnConfig)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	config.MaxConns = int32(opts.Writers + opts.Readers)
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	db, err := open(ctx, pool, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	db.owned = true
	return db, nil
}

// OpenPool opens the store in a schema of the host's own database, through the host's pool,
// which Hook must have been called for before it was made. The pool stays the host's: Close
// leaves it open. Its connections must run statements unprepared where a pooler in
// transaction mode stands in between.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, o *Options) (*DB, error) {
	opts, err := optionsFor(o)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return open(ctx, pool, opts)
}

func optionsFor(o *Options) (opts Options, err error) {
	if o != nil {
		opts = *o
	}
	if err := opts.validate(); err != nil {
		return opts, err
	}
	opts.withDefaults()
	return opts, nil
}

func open(ctx context.Context, pool *pgxpool.Pool, opts Options) (*DB, error) {
	at := pool.Config().ConnConfig
	db := &DB{
		pool: pool, opts: opts, name: fmt.Sprintf("%s/%s schema %s", at.Host, at.Database, opts.Schema),
		queue: newQueue(), readers: make(chan struct{}, opts.Readers), stop: make(chan struct{}),
	}
	db.catalog.forget()
	db.served.Store(new([16]byte))
	if err := db.prepare(ctx); err != nil {
		return nil, db.withHint(ctx, err)
	}
	for range opts.Writers {
		db.writers.Add(1)
		go db.run()
	}
	return db, nil
}

// prepare finds out what kind of server this is, makes the store or finds that it is
// there, and looks whether it is where it was last confirmed.
func (db *DB) prepare(ctx context.Context) error {
	err := db.lend(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		if err := hears(ctx, c); err != nil {
			return err
		}
		return db.chooseWitness(ctx, c)
	})
	if err != nil {
		return err
	}
	if err := migrate(ctx, db.pool, db.opts.Schema, migrations, db.opts.MustExist); err != nil {
		return err
	}
	return db.lend(ctx, db.witness)
}

// chooseWitness takes the first witness that the server can tell.
func (db *DB) chooseWitness(ctx context.Context, c *pgconn.PgConn) error {
	var errs []error
	for i, w := range witnesses {
		_, err := exchange(ctx, c, statement{sql: "SELECT w.witness, w.now, " + identities[i] + " FROM (" + w + ") w"})
		if err == nil {
			db.sql = newStatements(db.opts.Schema, w, identities[i])
			return nil
		}
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "42883" && pg.Code != "0A000" { // no such function, not supported
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// withHint gives an error of opening its meaning and says what to do about it.
func (db *DB) withHint(ctx context.Context, err error) error {
	for _, known := range []error{ErrNoStore, ErrForeign, pawl.ErrNewerSchema, errDeaf, errUnsafe} {
		if errors.Is(err, known) {
			return fmt.Errorf("postgres: open %s: %w", db.name, err)
		}
	}
	told := db.tell(ctx, err)
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case pg.Code == "42501":
			return fmt.Errorf("%w (the role needs its rights: see docs/postgresql.md)", told)
		case pg.Code == "25006", pg.Code == "55000":
			return fmt.Errorf("%w (name the primary, or all servers with target_session_attrs=read-write)", told)
		}
	}
	return told
}
