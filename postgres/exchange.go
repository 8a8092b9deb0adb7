package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// result is what one statement answered.
type result struct {
	rows [][][]byte
	tag  string
}

// Every transaction says its isolation: the statements decide under this one.
var (
	begin    = statement{sql: "BEGIN ISOLATION LEVEL READ COMMITTED"}
	commit   = statement{sql: "COMMIT"}
	rollback = statement{sql: "ROLLBACK"}
)

var binaryFormat = []int16{1}

// exchange sends statements in one round trip, with the types of their parameters, and
// reads what they answer. They are unnamed, so that nothing has to be known to the session
// before or stays in it; only in a session that is known to be the connection's own, those
// that are kept have names.
// Its error is a *exchangeError, which knows what the statements have left behind. A transaction
// that was begun and has failed is rolled back.
func exchange(ctx context.Context, c *pgconn.PgConn, statements ...statement) ([]result, error) {
	var b pgconn.Batch
	for _, s := range statements {
		name, err := sessionOf(c).nameFor(ctx, c, s)
		switch {
		case err != nil: // nothing was sent
			if v := uncommitted(err); v != refused || errors.As(err, new(*pgconn.PgError)) {
				return nil, &exchangeError{v, err}
			}
			return nil, &exchangeError{repeat, err}
		case name != "":
			b.ExecPrepared(name, s.params, binaryFormat, binaryFormat)
		default:
			b.ExecParams(s.sql, s.params, s.oids, binaryFormat, binaryFormat)
		}
	}
	delete(c.CustomData(), warned)
	results := make([]result, 0, len(statements))
	answers := c.ExecBatch(ctx, &b)
	for answers.NextResult() {
		r := answers.ResultReader().Read()
		if r.Err != nil {
			break
		}
		results = append(results, result{r.Rows, r.CommandTag.String()})
	}
	err := answers.Close()
	last := statements[len(statements)-1].sql
	committing := last == commit.sql && len(results) >= len(statements)-1
	warning, _ := c.CustomData()[warned].(string)
	switch {
	case err == nil && len(results) != len(statements):
		err = errNoAnswer
	case err == nil && last == commit.sql && results[len(results)-1].tag != "COMMIT":
		return nil, &exchangeError{repeat, fmt.Errorf("the transaction ended with %s", results[len(results)-1].tag)}
	case err == nil && last == commit.sql && warning != "":
		err = fmt.Errorf("the commit came with a warning: %s", warning)
	case err == nil:
		return results, nil
	}
	f := judge(err, last == commit.sql, committing)
	var pg *pgconn.PgError
	switch {
	case c.IsClosed():
	case errors.As(err, &pg) && (pg.Code == "26000" || pg.Code == "0A000"):
		c.Close(ctx) // somebody took the prepared statements or their tables away
	case errors.As(err, &pg) && pg.Code == "25006":
		c.Close(ctx) // a standby: the next connection may find the primary
	case c.TxStatus() != 'I':
		abandon(c)
	}
	return nil, f
}

// pinPlans keeps the planner, for this transaction, to indexes: what it believes of a table
// that it has not looked at, or that was small when it made a plan to keep, would have it
// read the whole of it, or compile a statement for longer than it runs.
var pinPlans = statement{
	sql: `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true)`,
	kept: true,
}

// query asks statements that change nothing.
func query(ctx context.Context, c *pgconn.PgConn, statements ...statement) ([]result, error) {
	results, err := exchange(ctx, c, slices.Concat([]statement{begin, pinPlans}, statements, []statement{commit})...)
	if err != nil {
		return nil, err
	}
	return results[2 : len(results)-1], nil
}

// abandon rolls back, or closes a connection that does not even do that.
func abandon(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := c.ExecParams(ctx, rollback.sql, nil, nil, nil, nil).Close(); err != nil {
		c.Close(ctx)
	}
}

// warned is where Hook keeps the last warning of a connection.
const warned = "pawl warning"

// Hook makes the connections that come of a configuration fit for a store: it keeps the
// warnings of the server, one of which says that an acknowledged commit was not waited for.
// Call it before pgxpool.NewWithConfig for a pool that OpenPool is to use. The
// configuration's own OnNotice is still called.
func Hook(config *pgx.ConnConfig) {
	next := config.OnNotice
	config.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" || n.SeverityUnlocalized == "" && n.Severity == "WARNING" {
			c.CustomData()[warned] = n.Code + " " + n.Message
		}
		if next != nil {
			next(c, n)
		}
	}
}

var errDeaf = errors.New("the pool does not keep the server's warnings: call Hook before it is made")

// hears verifies that warnings of a connection are kept: COMMIT outside a transaction gives one.
func hears(ctx context.Context, c *pgconn.PgConn) error {
	delete(c.CustomData(), warned)
	if _, err := c.ExecParams(ctx, commit.sql, nil, nil, nil, nil).Close(); err != nil {
		return err
	}
	if _, kept := c.CustomData()[warned]; !kept {
		return errDeaf
	}
	return nil
}
