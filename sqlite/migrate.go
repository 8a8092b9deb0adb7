package sqlite

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

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/pressly/goose/v3"

	"github.com/pawl-dev/pawl"
)

//go:embed migrations/*.sql
var embedded embed.FS

var migrations = func() fs.FS {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic("sqlite: " + err.Error()) // the folder is embedded above
	}
	return sub
}()

// schemaTable is where goose keeps the versions; a host that uses goose in the same
// file keeps its own.
const schemaTable = "pawl_schema"

// migrate brings the schema to the newest version that steps has. Each migration is one
// transaction that also records its version, which is unique: when two processes migrate
// at once, one of them fails as a whole, finds the version moved on, and goes on from it.
func migrate(uri string, steps fs.FS) error {
	known, err := newest(steps)
	if err != nil {
		return err
	}
	db, err := driver.Open(uri, func(c *sqlite3.Conn) error {
		if err := c.Exec(`PRAGMA synchronous = FULL`); err != nil {
			return err
		}
		_, err := c.FileControl("main", sqlite3.FCNTL_PERSIST_WAL, true)
		return err
	})
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer db.Close()
	ctx := context.Background()
	for {
		at, err := schemaVersion(ctx, db)
		switch {
		case err != nil:
			return fmt.Errorf("read schema version: %w", err)
		case at == known:
			return nil
		case at > known:
			return fmt.Errorf("schema has version %d, this pawl knows %d: %w", at, known, pawl.ErrNewerSchema)
		}
		p, err := goose.NewProvider(goose.DialectSQLite3, db, steps, goose.WithTableName(schemaTable),
			goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)))
		if err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		if _, err = p.Up(ctx); err == nil {
			continue
		}
		if now, readErr := schemaVersion(ctx, db); readErr != nil || now == at {
			return errors.Join(fmt.Errorf("migrate schema from version %d: %w", at, err), readErr)
		}
	}
}

// schemaVersion is -1 where there is no schema yet.
func schemaVersion(ctx context.Context, db *sql.DB) (int64, error) {
	at := int64(-1)
	var tables int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = ?`, schemaTable).Scan(&tables); err != nil || tables == 0 {
		return at, err
	}
	err := db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), -1) FROM `+schemaTable).Scan(&at)
	return at, err
}

// newest is the number that the last migration's name begins with.
func newest(steps fs.FS) (last int64, err error) {
	names, err := fs.Glob(steps, "*.sql")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", name, err)
		}
		last = max(last, n)
	}
	return last, nil
}
