package receiver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Dialect is the database that records are kept in.
type Dialect int

const (
	// SQLite lets one transaction write at a time. It has to begin as IMMEDIATE, or to come
	// here before it reads anything.
	SQLite Dialect = iota
	// PostgreSQL shows a request that is being worked on to every process, by advisory locks
	// that end with its transaction.
	PostgreSQL
)

// schema is the table of records. Times are milliseconds since 1970 by the database's clock.
const schema = `CREATE TABLE IF NOT EXISTS pawl_receipts (
	id          TEXT PRIMARY KEY,
	fingerprint TEXT NOT NULL,
	state       TEXT NOT NULL,
	claim       TEXT NOT NULL,
	status      INTEGER NOT NULL,
	header      TEXT NOT NULL,
	body        %[1]s NOT NULL,
	size        BIGINT NOT NULL,
	digest      TEXT NOT NULL,
	created     BIGINT NOT NULL,
	expires     BIGINT NOT NULL,
	forget      BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS pawl_receipts_forget ON pawl_receipts (forget);`

// Schema is the SQL that makes the table of records where it is missing. Migrate runs it.
func (d Dialect) Schema() string {
	if d == PostgreSQL {
		return fmt.Sprintf(schema, "BYTEA")
	}
	return fmt.Sprintf(schema, "BLOB")
}

var placeholder = regexp.MustCompile(`\$(\d+)`)

// query writes a statement in the dialect: it has $1, $2, and NOW for the database's time.
func (d Dialect) query(q string) string {
	if d == PostgreSQL {
		return strings.ReplaceAll(q, "NOW", "(extract(epoch from clock_timestamp()) * 1000)::bigint")
	}
	q = placeholder.ReplaceAllString(q, "?$1")
	return strings.ReplaceAll(q, "NOW", "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)")
}

// DB is a transaction as this package needs it. TxOf and receiverpgx make one.
type DB interface {
	Dialect() Dialect
	// Exec runs a statement and returns how many rows it changed.
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	// QueryRow reads one row into dest and reports whether there was one.
	QueryRow(ctx context.Context, query string, args []any, dest ...any) (bool, error)
}

// TxOf makes a transaction of database/sql usable here.
func TxOf(tx *sql.Tx, d Dialect) DB { return sqlDB{tx, d} }

// sqlDB is a transaction, or for a read by itself a database.
type sqlDB struct {
	conn interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
	dialect Dialect
}

func (c sqlDB) Dialect() Dialect { return c.dialect }

func (c sqlDB) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	r, err := c.conn.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (c sqlDB) QueryRow(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	err := c.conn.QueryRowContext(ctx, query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Migrate makes the table of records where it is missing. Several processes may do so at once.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	if err := migrate(ctx, db, d); err != nil {
		return fmt.Errorf("receiver: make the table of records: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if d == PostgreSQL { // two makers of one table would fail on its name
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lockOf("schema")); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, d.Schema()); err != nil {
		return err
	}
	return tx.Commit()
}

// Prune forgets records whose tombstone is over, at most limit of them, and returns how
// many. A key that is forgotten is a new one when it comes again. What is Unknown is never
// forgotten: Settle ends it.
func Prune(ctx context.Context, db *sql.DB, d Dialect, limit int) (int64, error) {
	r, err := db.ExecContext(ctx, d.query(`DELETE FROM pawl_receipts WHERE id IN (
		SELECT id FROM pawl_receipts WHERE forget <= NOW AND state <> 'unknown' LIMIT $1) AND forget <= NOW`), limit)
	if err != nil {
		return 0, fmt.Errorf("receiver: prune: %w", err)
	}
	return r.RowsAffected()
}

func millis(d time.Duration) int64 { return int64(d / time.Millisecond) }
