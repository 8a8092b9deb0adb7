package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pooler is a pgbouncer in transaction mode. It gives each transaction the server
// connection that has waited longest, so that what is left behind in a session is missed
// by the next transaction and met by somebody else's.
type Pooler struct {
	home *home
	dir  string
	port int
	cmd  *exec.Cmd
}

// Pooler starts a pgbouncer in front of the cluster, with at most the given number of
// server connections for each database. It is stopped when the test ends.
func (c *Cluster) Pooler(t testing.TB, connections int) *Pooler {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			missing(t, fmt.Errorf("pgbouncer is not installed: %w", err))
		}
	}
	port := c.home.nextPort()
	p := &Pooler{home: c.home, dir: filepath.Join(c.home.path, fmt.Sprint("pooler-", port)), port: port}
	p.configure(t, c, connections)
	p.cmd = exec.Command(path, filepath.Join(p.dir, "pgbouncer.ini"))
	if p.cmd.SysProcAttr, err = asOwner(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	p.await(t)
	return p
}

func (p *Pooler) configure(t testing.TB, c *Cluster, connections int) {
	t.Helper()
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s
[pgbouncer]
unix_socket_dir = %s
unix_socket_mode = 0777
listen_port = %d
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
server_round_robin = 1
server_login_retry = 0.2
ignore_startup_parameters = extra_float_digits
logfile = %s
pidfile = %s
`, c.home.path, c.port, user, p.dir, p.port, connections, filepath.Join(p.dir, "log"), filepath.Join(p.dir, "pgbouncer.pid"))
	if err := p.home.write(filepath.Join(p.dir, "pgbouncer.ini"), ini); err != nil {
		t.Fatal(err)
	}
}

// URL names a database by way of the pooler.
func (p *Pooler) URL(database string) string {
	q := url.Values{"host": {p.dir}, "port": {strconv.Itoa(p.port)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(user), Path: "/" + database, RawQuery: q.Encode()}
	return u.String()
}

// Follow leads the pooler's clients to another cluster of the same folder: the standby that
// was promoted.
func (p *Pooler) Follow(t testing.TB, c *Cluster, connections int) {
	t.Helper()
	p.configure(t, c, connections)
	if err := p.cmd.Process.Signal(reload); err != nil {
		t.Fatal(err)
	}
}

func (p *Pooler) await(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, p.URL("postgres"))
		if err == nil {
			conn.Close(ctx)
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("pgtest: the pooler does not start: %v", err)
		}
	}
}
