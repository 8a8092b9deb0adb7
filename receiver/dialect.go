package receiver

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Dialect is the database that records are kept in.
type Dialect int

const (
	// SQLite needs a transaction that began as IMMEDIATE, or that writes before it reads.
	SQLite Dialect = iota
	// PostgreSQL uses advisory locks that end with the transaction, so that a request that is
	// being worked on is known to every process.
	PostgreSQL
)

// schema is the table of records. Times are milliseconds since 1970 by the database's clock.
const schema = `CREATE TABLE IF NOT EXISTS pawl_receipts (
	id          TEXT PRIMARY KEY,
	fingerprint TEXT NOT NULL,
	state       TEXT NOT NULL,
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
	// Exec runs a statement and returns how many rows it changed.
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	// QueryRow reads one row into dest and reports whether there was one.
	QueryRow(ctx context.Context, query string, args []any, dest ...any) (bool, error)
}

// TxOf makes a transaction of database/sql usable here.
func TxOf(tx *sql.Tx) DB { return sqlTx{tx} }

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	r, err := t.tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (t sqlTx) QueryRow(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	err := t.tx.QueryRowContext(ctx, query, args...).Scan(dest...)
	if err == sql.ErrNoRows {
		return false, nil
	}
	return err == nil, err
}

// Migrate makes the table of records where it is missing.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	if _, err := db.ExecContext(ctx, d.Schema()); err != nil {
		return fmt.Errorf("receiver: make the table of records: %w", err)
	}
	return nil
}

// Prune forgets records whose tombstone is over, at most limit of them, and returns how
// many. A key that is forgotten is a new one when it comes again.
func Prune(ctx context.Context, db *sql.DB, d Dialect, limit int) (int64, error) {
	r, err := db.ExecContext(ctx, d.query(`DELETE FROM pawl_receipts WHERE id IN (SELECT id FROM pawl_receipts WHERE forget <= NOW LIMIT $1) AND forget <= NOW`), limit)
	if err != nil {
		return 0, fmt.Errorf("receiver: prune: %w", err)
	}
	return r.RowsAffected()
}

func millis(d time.Duration) int64 { return int64(d / time.Millisecond) }
