package pgtest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func ask[T any](t *testing.T, c *pgx.Conn, query string) (v T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	a, b := Database(t), Database(t)
	if a == b {
		t.Fatalf("got %s twice, want a database for each", a)
	}
	c := connect(t, a)
	for setting, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "server_encoding": "UTF8", "listen_addresses": ""} {
		if got := ask[string](t, c, "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s: got %q, want %q", setting, got, want)
		}
	}
}

func TestKilledAndStarted(t *testing.T) {
	t.Parallel()
	c := Start(t, &Options{TCP: true, Settings: map[string]string{"work_mem": "3MB"}})
	conn := connect(t, c.URL("postgres"))
	if got := ask[string](t, conn, "SHOW work_mem"); got != "3MB" {
		t.Errorf("work_mem: got %s, want 3MB", got)
	}
	if got := ask[bool](t, conn, "SELECT inet_client_addr() IS NOT NULL"); !got {
		t.Error("got a connection by the socket, want one by TCP")
	}
	c.Exec(t, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)")
	c.Kill(t)
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("ping: got an answer of a server that was killed")
	}
	c.Start(t)
	if got := ask[int](t, connect(t, c.URL("postgres")), "SELECT n FROM t"); got != 7 {
		t.Errorf("after the kill: got %d, want 7", got)
	}
	c.Stop(t)
	c.Start(t)
	c.Exec(t, "SELECT 1")
}

// The standby holds commits up while it is frozen, and has all of them once it is promoted.
func TestStandby(t *testing.T) {
	t.Parallel()
	c := Start(t, nil)
	s := c.Standby(t)
	c.Exec(t, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)")
	s.Freeze(t)
	conn := connect(t, c.URL("postgres"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := conn.Exec(ctx, "INSERT INTO t VALUES (8)"); err == nil {
		t.Error("insert: got an answer while the standby is frozen")
	}
	s.Thaw(t)
	c.Exec(t, "INSERT INTO t VALUES (9)")
	c.Kill(t)
	s.Promote(t)
	if got := ask[int](t, connect(t, s.URL("postgres")), "SELECT max(n) FROM t"); got != 9 {
		t.Errorf("after promotion: got %d, want 9", got)
	}
}

func TestPooler(t *testing.T) {
	t.Parallel()
	c := Start(t, nil)
	p := c.Pooler(t, 2)
	conn := connect(t, p.URL("postgres"))
	backends := map[int]bool{}
	other := connect(t, p.URL("postgres"))
	for range 4 {
		tx, err := other.Begin(t.Context()) // keeps one connection, so that a second is made
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
		var pid int
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		backends[pid] = true
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(backends) < 2 {
		t.Errorf("got %d server connections for one client, want 2", len(backends))
	}
}

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	var home string
	t.Run("cluster", func(t *testing.T) { home = Start(t, nil).home.path })
	if _, err := os.Stat(home); home != "" && !os.IsNotExist(err) {
		t.Errorf("%s: got %v, want it removed", home, err)
	}
}

// TestKilledTest kills a test that has a cluster. Its servers and its folder go with it.
func TestKilledTest(t *testing.T) {
	t.Parallel()
	require(t)
	if os.Getenv("PGTEST_KILLED") != "" {
		os.Stdout.WriteString(Start(t, nil).home.path + "\n")
		select {} // until the kill
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledTest$")
	cmd.Env = append(os.Environ(), "PGTEST_KILLED=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	home := strings.TrimSpace(line)
	if _, err := os.Stat(home); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(home); os.IsNotExist(err) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is still there", home)
		}
	}
}
