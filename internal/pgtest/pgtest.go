// Package pgtest runs temporary PostgreSQL clusters for tests, from the server that is
// installed. Everything of a cluster is in one folder: its data, its standbys, its poolers
// and their sockets, which nobody else may use.
//
//	Database ──▶ the cluster that all tests of a binary share ──▶ a database of its own
//	Start    ──▶ a cluster for one test, to be killed, frozen and promoted
//
// A keeper, a process of its own, holds the other end of a pipe to the test. When the pipe
// closes, because the test is done or because it was killed, it stops the servers and
// removes the folder.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Options of Start. Nil and zero fields mean the defaults.
type Options struct {
	// Settings are lines of postgresql.conf beside those that every cluster has. Commits
	// are as durable as PostgreSQL makes them by itself, unless they say otherwise.
	Settings map[string]string
	// TCP: listen on a free port of the loopback interface too, for clients that know no
	// other. They need the password, which is in the URL.
	TCP bool
	// Dir is the folder in which the cluster makes its own; default that of temporary files.
	Dir string
}

// Start makes a cluster that is stopped and removed when the test ends. Where PostgreSQL
// is not installed the test is skipped, and in CI it fails.
func Start(t testing.TB, o *Options) *Cluster {
	t.Helper()
	require(t)
	c, err := newCluster(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log ends:\n%s", c.log())
		}
		c.remove()
	})
	return c
}

var shared = sync.OnceValues(func() (*Cluster, error) { return newCluster(nil) })

// Database makes an empty database in the cluster that the tests of this binary share, and
// returns its URL. The database is dropped when the test ends, whoever is still connected.
func Database(t testing.TB) string {
	t.Helper()
	require(t)
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c.Database(t)
}

var databases atomic.Int64

// Database makes an empty database and returns its URL. It is dropped when the test ends.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if err := c.exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.running() {
			if err := c.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
				t.Logf("%v", err)
			}
		}
	})
	return c.URL(name)
}

// Exec runs statements in the cluster's own database, as its superuser.
func (c *Cluster) Exec(t testing.TB, statements ...string) {
	t.Helper()
	if err := c.exec(statements...); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) exec(statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("pgtest: %s: %w", s, err)
		}
	}
	return nil
}

// install is the command that installs what the tests need on Debian and its children.
const install = "apt-get install postgresql pgbouncer"

// require skips the test where PostgreSQL is not installed; in CI it fails it.
func require(t testing.TB) {
	t.Helper()
	if _, err := Binary("initdb"); err != nil {
		missing(t, err)
	}
}

func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%v: install it with: %s", err, install)
	}
	t.Skipf("%v: install it with: %s", err, install)
}

// Binary finds a program of PostgreSQL: where Debian puts it, the newest version first, or
// on the PATH.
func Binary(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, func(a, b string) int { // 9 before 15
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(b, a)
	})
	for _, path := range found {
		if _, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("PostgreSQL is not installed: %w", err)
	}
	return path, nil
}
