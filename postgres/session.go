package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// session is what is known of the server's session behind a connection. Behind a pooler in
// transaction mode that is another one for each transaction, and a name would be missing or
// taken there.
type session struct {
	asked bool
	own   bool
	names map[string]string // of prepared statements, by their SQL
}

// ofSession is where the session of a connection is kept with it.
const ofSession = "pawl session"

func sessionOf(c *pgconn.PgConn) *session {
	s, ok := c.CustomData()[ofSession].(*session)
	if !ok {
		s = &session{names: make(map[string]string)}
		c.CustomData()[ofSession] = s
	}
	return s
}

// isOwn finds out whether the connection has a session to itself: then the process that
// answers is the one that was told when the connection was made. A pooler tells clients a
// number of its own.
func (s *session) isOwn(ctx context.Context, c *pgconn.PgConn) (bool, error) {
	if s.asked {
		return s.own, nil
	}
	r := c.ExecParams(ctx, "SELECT CAST(pg_backend_pid() AS bigint)", nil, nil, nil, binaryFormat).Read()
	if r.Err != nil {
		return false, r.Err
	}
	if len(r.Rows) == 1 {
		v := values{row: r.Rows[0]}
		s.own = v.int() == int64(c.PID()) && !v.broken
	}
	s.asked = true
	return s.own, nil
}

// nameFor is the name under which the session keeps a statement, or none.
func (s *session) nameFor(ctx context.Context, c *pgconn.PgConn, st statement) (string, error) {
	if !st.kept {
		return "", nil
	}
	if name := s.names[st.sql]; name != "" {
		return name, nil
	}
	if own, err := s.isOwn(ctx, c); !own || err != nil {
		return "", err
	}
	name := "pawl_" + strconv.Itoa(len(s.names)+1)
	if _, err := c.Prepare(ctx, name, st.sql, st.oids); err != nil {
		return "", err
	}
	s.names[st.sql] = name
	return name, nil
}
