package mcptest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// upstreamWord is the first argument of a test binary that is to be an upstream.
const upstreamWord = "mcp-upstream"

// Run is the body of TestMain: it runs the tests, or is an upstream or a Cut if this process
// was started as one.
func Run(m *testing.M) {
	switch {
	case len(os.Args) == 5 && os.Args[1] == upstreamWord:
		exit(serve(folder(os.Args[2]), Era(os.Args[3]), os.Args[4]))
	case len(os.Args) > 3 && os.Args[1] == cutWord:
		exit((&cut{folder: folder(os.Args[2]), server: exec.Command(os.Args[3], os.Args[4:]...), asked: map[string]string{}}).run())
	}
	code := m.Run()
	removeBinary()
	os.Exit(code)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const (
	overStdio = "stdio"
	pidFile   = "pid"
)

func serve(f folder, era Era, where string) error {
	if err := os.WriteFile(f.path(pidFile), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	s := &speaker{era: era, folder: f}
	if where == overStdio {
		return s.serveStdio(os.Stdin, os.Stdout)
	}
	return s.serveHTTP(where)
}

// Upstream is an MCP server with two effects, place_order and send_note, of which find_orders
// sees the first, and a read, echo.
type Upstream struct {
	era    Era
	folder folder
	addr   string // empty on stdio

	mu  sync.Mutex
	cmd *exec.Cmd // nil while it is down, and on stdio
}

// NewStdio makes an upstream that others start: see Command.
func NewStdio(t testing.TB, era Era) *Upstream {
	t.Helper()
	return &Upstream{era: era, folder: folder(t.TempDir())}
}

// Command starts the upstream on stdio.
func (u *Upstream) Command() []string { return u.command(overStdio) }

func (u *Upstream) command(where string) []string {
	return []string{self(), upstreamWord, string(u.folder), string(u.era), where}
}

// self is the path of the test binary.
func self() string {
	path, err := filepath.Abs(os.Args[0])
	if err != nil {
		panic(err) // the working directory is gone
	}
	return path
}

// NewHTTP starts an upstream that listens on loopback until the test ends.
func NewHTTP(t testing.TB, era Era) *Upstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &Upstream{era: era, folder: folder(t.TempDir()), addr: ln.Addr().String()}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	u.Start(t)
	t.Cleanup(u.stop)
	return u
}

// URL is where an upstream over HTTP listens.
func (u *Upstream) URL() string { return "http://" + u.addr + "/mcp" }

// Start starts an upstream over HTTP, at the same address if it has run before.
func (u *Upstream) Start(t testing.TB) {
	t.Helper()
	words := u.command(u.addr)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the upstream did not start: %v", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cmd = cmd
}

// Kill ends the upstream as kill -9 does, and returns when it is gone. One over HTTP stays down
// until Start; one on stdio is started anew by whoever started it.
func (u *Upstream) Kill(t testing.TB) {
	t.Helper()
	if u.addr != "" {
		u.stop()
		return
	}
	text, err := os.ReadFile(u.folder.path(pidFile))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); p.Signal(syscall.Signal(0)) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the upstream was killed and nobody has waited for it")
		}
	}
}

func (u *Upstream) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cmd == nil {
		return
	}
	_ = u.cmd.Process.Kill() // it may have ended by itself
	_ = u.cmd.Wait()         // it tells of the kill
	u.cmd = nil
}

// Exited waits until an upstream over HTTP has ended by itself.
func (u *Upstream) Exited() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cmd != nil {
		_ = u.cmd.Wait() // it tells how it ended
		u.cmd = nil
	}
}
