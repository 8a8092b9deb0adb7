package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds every wait for a server to do what it was asked.
const patience = 60 * time.Second

// user is the superuser of every cluster.
const user = "postgres"

// Cluster is one PostgreSQL server and its data: a primary or a standby.
type Cluster struct {
	home     *home
	data     string // folder
	port     int    // names the socket; with TCP it is the port as well
	tcp      bool
	password string

	mu       sync.Mutex
	server   *exec.Cmd // nil while it is stopped
	standbys []*Cluster
}

func newCluster(o *Options) (_ *Cluster, err error) {
	if o == nil {
		o = &Options{}
	}
	h, err := newHome(o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.remove()
		}
	}()
	c := &Cluster{home: h, data: filepath.Join(h.path, "primary"), port: h.nextPort(), tcp: o.TCP, password: rand.Text()}
	if c.tcp {
		if c.port, err = freePort(); err != nil {
			return nil, err
		}
	}
	secret := filepath.Join(h.path, "password")
	if err := h.write(secret, c.password); err != nil {
		return nil, err
	}
	if err := h.run("initdb", "-D", c.data, "-U", user, "-E", "UTF8", "--locale=C", "--no-sync",
		"--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile="+secret); err != nil {
		return nil, err
	}
	if err := c.configure(o.Settings); err != nil {
		return nil, err
	}
	return c, c.start()
}

// configure appends to postgresql.conf; the last line for a setting is the one that holds.
func (c *Cluster) configure(settings map[string]string) error {
	listen := ""
	if c.tcp {
		listen = "127.0.0.1"
	}
	all := map[string]string{
		"listen_addresses": listen, "port": strconv.Itoa(c.port), "unix_socket_directories": c.home.path,
		"max_connections": "200", "shared_buffers": "64MB", "log_min_messages": "warning",
	}
	for name, value := range settings {
		all[name] = value
	}
	f, err := os.OpenFile(filepath.Join(c.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for name, value := range all {
		_, failed := fmt.Fprintf(f, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
		err = errors.Join(err, failed)
	}
	return errors.Join(err, f.Close())
}

// URL names one of the cluster's databases.
func (c *Cluster) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Path: "/" + database}
	q := url.Values{"sslmode": {"disable"}}
	if c.tcp {
		u.User, u.Host = url.UserPassword(user, c.password), net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
	} else {
		q.Set("host", c.home.path)
		q.Set("port", strconv.Itoa(c.port))
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Socket is the path of the Unix socket on which the cluster listens.
func (c *Cluster) Socket() string {
	return filepath.Join(c.home.path, fmt.Sprintf(".s.PGSQL.%d", c.port))
}

// start runs the server and waits until it takes connections.
func (c *Cluster) start() error {
	log, err := os.OpenFile(filepath.Join(c.home.path, filepath.Base(c.data)+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, err := c.home.command("postgres", "-D", c.data)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	c.server = cmd
	c.mu.Unlock()
	if err := c.ready(); err != nil {
		return fmt.Errorf("pgtest: the server does not start: %w; its log ends:\n%s", err, c.log())
	}
	return nil
}

func (c *Cluster) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (c *Cluster) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server != nil
}

// Start runs a server that was stopped or killed.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the server as an administrator would: it cuts its clients off and shuts down.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return
	}
	if err := c.server.Process.Signal(fastShutdown); err != nil {
		t.Fatal(err)
	}
	c.server.Wait() // says how it ended
	c.server = nil
}

// Kill ends the server and all of its processes at once, as the death of its machine would.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return
	}
	pids := family(c.server.Process.Pid)
	for _, pid := range pids {
		signal(pid, suspend) // nobody is born or told meanwhile
	}
	for _, pid := range family(c.server.Process.Pid) {
		signal(pid, kill)
	}
	c.server.Wait()
	c.server = nil
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		left := 0
		for _, pid := range pids {
			if alive(pid) {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("pgtest: %d processes of the server outlive it", left)
		}
	}
}

// Freeze suspends every process of the server: it answers nobody and loses nothing.
func (c *Cluster) Freeze(t testing.TB) { t.Helper(); c.signal(t, suspend) }

// Thaw lets a frozen server go on.
func (c *Cluster) Thaw(t testing.TB) { t.Helper(); c.signal(t, resume) }

func (c *Cluster) signal(t testing.TB, s os.Signal) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		t.Fatal("pgtest: the server is stopped")
	}
	for _, pid := range family(c.server.Process.Pid) {
		signal(pid, s)
	}
}

// Set changes a setting that takes effect without a restart.
func (c *Cluster) Set(t testing.TB, name, value string) {
	t.Helper()
	c.Exec(t, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, strings.ReplaceAll(value, "'", "''")), "SELECT pg_reload_conf()")
}

// remove stops the server and removes everything of it and of its standbys and poolers.
func (c *Cluster) remove() {
	c.home.remove()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range append(c.standbys, c) {
		if s.server != nil {
			s.server.Wait()
			s.server = nil
		}
	}
}

// log is the end of what the server has written.
func (c *Cluster) log() string {
	b, err := os.ReadFile(filepath.Join(c.home.path, filepath.Base(c.data)+".log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
