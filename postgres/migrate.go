package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/pawl-dev/pawl"
)

//go:embed migrations/*.sql
var embedded embed.FS

// migration is one step of the schema.
type migration struct {
	version int64
	sql     string // with {schema} for the schema
}

// migrations are the steps in the folder of that name, whose files begin with their version.
var migrations = func() (steps []migration) {
	names, err := fs.Glob(embedded, "migrations/*.sql")
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, numberErr := strconv.ParseInt(number, 10, 64)
		text, readErr := embedded.ReadFile(name)
		if err = errors.Join(err, numberErr, readErr); err != nil {
			break
		}
		steps = append(steps, migration{version, string(text)})
	}
	if err != nil {
		panic("postgres: " + err.Error()) // the folder is embedded above
	}
	return steps
}()

// schemaTable is where goose keeps the versions; a host that uses goose in the same
// database keeps its own.
const schemaTable = "pawl_schema"

// tables are those that the migrations make.
var tables = []string{"store", "contracts", "lanes", "intents", "states", "changes", "runs", "sightings", "notices", "restores"}

// ErrNoStore and ErrForeign are what Open returns besides the store's own errors, for
// errors.Is.
var (
	// ErrNoStore: Options.MustExist was given, and the schema has no store.
	ErrNoStore = errors.New("there is no store")
	// ErrForeign: the schema has tables of the store's names that another program made. They
	// were not changed.
	ErrForeign = errors.New("the schema holds another program's tables")
)

// migrate brings the schema to the newest version that steps has. Each migration is one
// transaction that also records its version, which is unique: when two processes migrate
// at once, one of them fails as a whole, finds the version moved on, and goes on from it.
// No lock outlives a transaction, so a pooler may stand in between.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string, steps []migration, mustExist bool) error {
	known := steps[len(steps)-1].version
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	for tries := 0; ; tries++ {
		at, err := schemaVersion(ctx, db, schema)
		switch {
		case err != nil:
			return fmt.Errorf("read schema version: %w", err)
		case at == known:
			return nil
		case at > known:
			return fmt.Errorf("schema has version %d, this pawl knows %d: %w", at, known, pawl.ErrNewerSchema)
		case at < 0 && mustExist:
			return ErrNoStore
		}
		if at < 0 {
			err = makeSchema(ctx, db, schema)
		}
		if err == nil {
			err = up(ctx, db, schema, steps)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, ErrForeign) {
			return err
		}
		// Another process may have been faster, at making the schema or at a step.
		now, readErr := schemaVersion(ctx, db, schema)
		if readErr != nil || now == at && tries > 2 {
			return errors.Join(fmt.Errorf("migrate schema %s from version %d: %w", schema, at, err), readErr)
		}
	}
}

func up(ctx context.Context, db *sql.DB, schema string, steps []migration) error {
	migrations := make([]*goose.Migration, len(steps))
	for i, s := range steps {
		text := strings.ReplaceAll(s.sql, "{schema}", schema)
		migrations[i] = goose.NewGoMigration(s.version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, text)
			return err
		}}, nil)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, nil, goose.WithTableName(schema+"."+schemaTable), goose.WithGoMigrations(migrations...),
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	_, err = p.Up(ctx)
	return err
}

// makeSchema makes the schema, where it is missing, and refuses one that has tables of our
// names already.
func makeSchema(ctx context.Context, db *sql.DB, schema string) error {
	var schemas int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM pg_namespace WHERE nspname = $1`, schema).Scan(&schemas); err != nil {
		return err
	}
	if schemas == 0 {
		_, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+schema)
		return err
	}
	for _, table := range tables {
		there, err := exists(ctx, db, schema, table)
		if err != nil {
			return err
		}
		if there {
			// A migration of another process may have been committed since the version was read.
			if begun, err := exists(ctx, db, schema, schemaTable); err != nil || begun {
				return err
			}
			return fmt.Errorf("table %s.%s: %w", schema, table, ErrForeign)
		}
	}
	return nil
}

// schemaVersion is -1 where there is no schema yet.
func schemaVersion(ctx context.Context, db *sql.DB, schema string) (int64, error) {
	at := int64(-1)
	if there, err := exists(ctx, db, schema, schemaTable); err != nil || !there {
		return at, err
	}
	err := db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), -1) FROM `+schema+`.`+schemaTable).Scan(&at)
	if at == 0 {
		at = -1 // goose has made its table and nothing else
	}
	return at, err
}

func exists(ctx context.Context, db *sql.DB, schema, table string) (bool, error) {
	var n int
	err := db.QueryRowContext(ctx, `SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = $2`, schema, table).Scan(&n)
	return n > 0, err
}
