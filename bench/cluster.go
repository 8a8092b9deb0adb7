package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/pgtest"
)

// cluster is a PostgreSQL server of this run alone, with the settings that it ships with
// except for what is said in startCluster.
type cluster struct {
	host       *host
	server     *pgtest.Cluster
	version    string
	postmaster int
	databases  int
}

// startCluster runs a server whose data are in this run's folder.
func startCluster(ctx context.Context, dir string) (c *cluster, err error) {
	if err := os.Setenv("TMPDIR", dir); err != nil { // where pgtest puts its folders
		return nil, err
	}
	c = &cluster{host: &host{}}
	defer func() {
		if failed, ok := recover().(hostError); ok {
			err = failed
		}
		if err != nil {
			c.close()
		}
	}()
	// Everybody talks to it over its Unix socket, which needs no password.
	c.server = pgtest.Start(c.host, &pgtest.Options{Settings: map[string]string{
		"shared_buffers": "1GB", "max_connections": "400",
	}})
	conn, err := pgx.Connect(ctx, c.server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var backend int
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid(), current_setting('server_version')`).Scan(&backend, &c.version); err != nil {
		return nil, err
	}
	stat := statOf(backend)
	if len(stat) < 2 {
		return nil, errors.New("the server's process is not to be seen in /proc")
	}
	c.postmaster = int(number(stat[1]))
	return c, nil
}

// database makes an empty database and returns its URL and what drops it.
func (c *cluster) database(ctx context.Context) (string, func() error, error) {
	c.databases++
	name := fmt.Sprintf("point_%d", c.databases)
	err := c.exec(ctx, "CREATE DATABASE "+name)
	drop := func() error {
		// What a contestant wrote is on its way to the disk no longer than its own point.
		return c.exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)", "CHECKPOINT")
	}
	return c.server.URL(name), drop, err
}

func (c *cluster) exec(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, c.server.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (c *cluster) close() {
	for _, f := range c.host.cleanups {
		defer f()
	}
}

// host stands in for the test that a cluster belongs to.
type host struct {
	testing.TB
	cleanups []func()
}

type hostError string

func (e hostError) Error() string { return string(e) }

func (h *host) Helper()                   {}
func (h *host) Cleanup(f func())          { h.cleanups = append(h.cleanups, f) }
func (h *host) Failed() bool              { return false }
func (h *host) Logf(string, ...any)       {}
func (h *host) Fatal(a ...any)            { panic(hostError(fmt.Sprint(a...))) }
func (h *host) Fatalf(f string, a ...any) { panic(hostError(fmt.Sprintf(f, a...))) }
func (h *host) Skipf(f string, a ...any)  { panic(hostError(fmt.Sprintf(f, a...))) }
