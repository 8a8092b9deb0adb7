package receivertest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/stdlib"
	sqlite "github.com/ncruces/go-sqlite3/driver"
)

// The drivers of the sample service let the process die at a named point of the transaction
// of a request whose context names it.

func init() {
	sql.Register("dying-sqlite3", dyingDriver{&sqlite.SQLite{}})
	sql.Register("dying-pgx", dyingDriver{stdlib.GetDefaultDriver()})
}

type pointKey struct{}

// storeAway lets every transaction fail.
var storeAway atomic.Bool

var errAway = errors.New("the database is away")

// deadlyPoints are the places around the statements of one request, in their order.
var deadlyPoints = []string{
	"received", "before begin", "after begin", "before lock", "before read", "before change", "after change",
	"before record", "after record", "before commit", "after commit", "answering",
}

// claimPoints are those of a request with an effect outside, which is claimed first.
var claimPoints = []string{
	"received", "before begin", "before lock", "before claim", "after claim", "before claim commit", "after claim commit",
	"before unclaim", "after unclaim", "outside", "before record", "after record", "before commit", "after commit", "answering",
}

func dieAt(ctx context.Context, point string) {
	if p, _ := ctx.Value(pointKey{}).(string); p == point {
		os.Exit(3)
	}
}

// statement names what a query is for.
func statement(query string) string {
	switch {
	case strings.Contains(query, "advisory_xact_lock"), strings.HasPrefix(query, "UPDATE pawl_receipts SET id"):
		return "lock"
	case strings.HasPrefix(query, "SELECT") && strings.Contains(query, "pawl_receipts"):
		return "read"
	case strings.HasPrefix(query, "INSERT INTO payments"):
		return "change"
	case strings.HasPrefix(query, "INSERT INTO pawl_receipts"):
		return "record"
	case strings.HasPrefix(query, "DELETE FROM pawl_receipts"):
		return "unclaim"
	}
	return "other"
}

type dyingDriver struct{ driver.Driver }

func (d dyingDriver) Open(name string) (driver.Conn, error) {
	c, err := d.Driver.Open(name)
	if err != nil {
		return nil, err
	}
	return &dyingConn{Conn: c}, nil
}

// dyingConn forwards what database/sql asks of a connection.
type dyingConn struct {
	driver.Conn
	claims bool // the transaction writes a claim
}

func (c *dyingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if storeAway.Load() {
		return nil, errAway
	}
	dieAt(ctx, "before begin")
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	dieAt(ctx, "after begin")
	c.claims = false
	return &dyingTx{tx, ctx, c}, nil
}

func (c *dyingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	name := statement(query)
	for _, a := range args {
		if a.Value == "unknown" && name == "record" {
			name, c.claims = "claim", true
		}
	}
	dieAt(ctx, "before "+name)
	r, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	if err == driver.ErrSkip {
		r, err = c.execPrepared(ctx, query, args)
	}
	dieAt(ctx, "after "+name)
	return r, err
}

func (c *dyingConn) execPrepared(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (c *dyingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	dieAt(ctx, "before "+statement(query))
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return q.QueryContext(ctx, query, args)
}

func (c *dyingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	return c.Conn.Prepare(query)
}

func (c *dyingConn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *dyingConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *dyingConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

type dyingTx struct {
	driver.Tx
	ctx  context.Context
	conn *dyingConn
}

func (t *dyingTx) Commit() error {
	name := "commit"
	if t.conn.claims {
		name = "claim commit"
	}
	dieAt(t.ctx, "before "+name)
	err := t.Tx.Commit()
	dieAt(t.ctx, "after "+name)
	return err
}
