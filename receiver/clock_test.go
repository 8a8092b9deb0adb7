package receiver_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/receiver"
)

// skewed opens a database whose clock is off by what set says, against the process's.
func skewed(t *testing.T, d receiver.Dialect) (db *sql.DB, set func(time.Duration)) {
	t.Helper()
	if d == receiver.SQLite {
		var off atomic.Int64
		db, err := driver.Open("file:"+filepath.Join(t.TempDir(), "moves.db")+"?_pragma=busy_timeout(5000)", func(c *sqlite3.Conn) error {
			return c.CreateFunction("julianday", 1, 0, func(ctx sqlite3.Context, _ ...sqlite3.Value) {
				ctx.ResultFloat(float64(time.Now().UnixMicro()+off.Load())/86_400_000_000 + 2440587.5)
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db, func(by time.Duration) { off.Store(by.Microseconds()) }
	}
	url := pgtest.Database(t)
	owner := openPostgres(t, url)
	exec := func(q string, args ...any) {
		t.Helper()
		if _, err := owner.ExecContext(t.Context(), q, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE SCHEMA skew`)
	exec(`CREATE TABLE skew.clock (off INTERVAL NOT NULL)`)
	exec(`INSERT INTO skew.clock VALUES ('0')`)
	exec(`CREATE FUNCTION skew.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp() + off FROM skew.clock'`)
	return openPostgres(t, url+"&search_path=skew,pg_catalog,public"), func(by time.Duration) {
		exec(`UPDATE skew.clock SET off = make_interval(secs => $1)`, by.Seconds())
	}
}

// The database's clock alone decides what is late and what has expired: a node whose clock
// is hours off refuses and replays as every other one does (V11, V20).
func TestClocks(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]receiver.Dialect{"SQLite": receiver.SQLite, "PostgreSQL": receiver.PostgreSQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, set := skewed(t, d)
			if err := receiver.Migrate(t.Context(), db, d); err != nil {
				t.Fatal(err)
			}
			terms := &receiver.Terms{Retention: time.Hour, Tombstone: 2 * time.Hour}
			ask := func(key string, notAfter time.Duration) error {
				t.Helper()
				req := request(key)
				if notAfter != 0 {
					req.NotAfter = time.Now().Add(notAfter)
				}
				return in(t, db, func(tx *sql.Tx) error {
					_, err := receiver.Once(t.Context(), receiver.TxOf(tx, d), req, createdOnly, terms)
					return err
				})
			}
			err := in(t, db, func(tx *sql.Tx) error {
				_, err := receiver.Fence(t.Context(), receiver.TxOf(tx, d), request("fenced"), terms)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				skew     time.Duration
				key      string
				notAfter time.Duration
				want     error
			}{
				{0, "k", 0, nil},
				{time.Hour - time.Minute, "k", 0, nil}, // a replay
				{time.Hour + time.Minute, "k", 0, receiver.ErrExpired},
				{100 * time.Hour, "k", 0, receiver.ErrExpired}, // until it is pruned
				{time.Hour, "late there", 30 * time.Minute, receiver.ErrTooLate},
				{-time.Hour, "in time there", -30 * time.Minute, nil},
				{0, "further than a fence", 2*time.Hour + time.Minute, receiver.ErrNotAfter},
				{2*time.Hour + time.Minute, "fenced", 0, receiver.ErrFenced},
			} {
				set(c.skew)
				if err := ask(c.key, c.notAfter); !errors.Is(err, c.want) {
					t.Errorf("%s, the database's clock %v off: got %v, want %v", c.key, c.skew, err, c.want)
				}
			}
			for _, c := range []struct {
				skew time.Duration
				want int64
			}{{3*time.Hour - 2*time.Minute, 1}, {4 * time.Hour, 2}} { // "in time there" is an hour older
				set(c.skew)
				if n, err := receiver.Prune(t.Context(), db, d, 100); err != nil || n != c.want {
					t.Errorf("the clock %v on: pruned %d, %v; want %d", c.skew, n, err, c.want)
				}
			}
		})
	}
}
