package pgtest

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby makes a standby that streams from the cluster, and makes the cluster's commits
// wait for it: from here on the cluster is synchronous. It belongs to the cluster and is
// removed with it. To let commits go on alone, Set synchronous_standby_names to "".
func (c *Cluster) Standby(t testing.TB) *Cluster {
	t.Helper()
	port := c.home.nextPort()
	s := &Cluster{home: c.home, data: filepath.Join(c.home.path, fmt.Sprint("standby-", port)), port: port, password: c.password}
	if err := c.home.run("pg_basebackup", "-h", c.home.path, "-p", strconv.Itoa(c.port), "-U", user,
		"-D", s.data, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"); err != nil {
		t.Fatal(err)
	}
	if err := s.configure(nil); err != nil {
		t.Fatal(err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.standbys = append(c.standbys, s)
	c.mu.Unlock()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the standby's log ends:\n%s", s.log())
		}
	})
	c.Set(t, "synchronous_standby_names", "*")
	c.Await(t, `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'`, 1)
	return s
}

// Promote makes a standby a primary, on a timeline of its own, and waits until it is one.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	c.Exec(t, `SELECT pg_promote(true, 60)`)
	c.Await(t, `SELECT CASE WHEN pg_is_in_recovery() THEN 0 ELSE 1 END`, 1)
}

// Await asks for a number in the cluster's own database until it is at least want.
func (c *Cluster) Await(t testing.TB, query string, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for {
		var got int64
		if err := conn.QueryRow(ctx, query).Scan(&got); err != nil {
			t.Fatalf("pgtest: %s: %v", query, err)
		}
		if got >= want {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("pgtest: %s: got %d, want %d", query, got, want)
		}
	}
}
