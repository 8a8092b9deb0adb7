package mcptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a process to do what it was asked.
const patience = 30 * time.Second

var built struct {
	once   sync.Once
	folder string
	err    error
}

// Binary builds pawl, once for all tests of a package, and returns its path. Run removes it.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "pawl-mcptest-"); built.err != nil {
			return
		}
		var root []byte
		if root, built.err = exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output(); built.err != nil {
			return
		}
		built.err = Build(strings.TrimSpace(string(root)), filepath.Join(built.folder, "pawl"), module+"/cmd/pawl")
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.folder, "pawl")
}

const module = "github.com/pawl-dev/pawl"

// Build builds a program of the module in a folder, or of one that it depends on, to path.
func Build(folder, path, program string) error {
	out, err := exec.Command("go", "build", "-C", folder, "-o", path, program).CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return nil
}

func removeBinary() {
	if built.folder != "" {
		_ = os.RemoveAll(built.folder) // it is a temporary folder
	}
}

// Gateway is a `pawl serve` in a process of its own.
type Gateway struct {
	// URL is its root, without a path.
	URL string
	cmd *exec.Cmd
}

// Serve starts `pawl serve` on a contract file until the test ends.
func Serve(t testing.TB, config string, more ...string) *Gateway {
	t.Helper()
	cmd := exec.Command(Binary(t), append([]string{"serve", "-c", config, "--listen", "127.0.0.1:0", "--json"}, more...)...)
	log := new(bytes.Buffer)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &Gateway{cmd: cmd}
	t.Cleanup(func() {
		g.Kill()
		if t.Failed() {
			t.Logf("log of pawl serve:\n%s", log)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("pawl serve did not start: %v", err)
	}
	if err := json.Unmarshal(line, &struct{ URL *string }{&g.URL}); err != nil {
		t.Fatalf("pawl serve says %q: %v", line, err)
	}
	return g
}

// Kill ends it as kill -9 does.
func (g *Gateway) Kill() {
	_ = g.cmd.Process.Kill() // it may have ended by itself
	_ = g.cmd.Wait()         // it tells of the kill
}

// Stop interrupts it and waits until it has ended.
func (g *Gateway) Stop(t testing.TB) {
	t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := g.cmd.Wait(); err != nil {
		t.Errorf("pawl serve ended with %v", err)
	}
}

// Operation is what `pawl ops list --json` tells of one.
type Operation struct {
	ID     string `json:"id"`
	Tool   string `json:"tool"`
	Status string `json:"status"`
	Run    string `json:"run"`
	Effect string `json:"effect"`
}

// Operations reads the record of a contract file's store, newest first.
func Operations(t testing.TB, config string) []Operation {
	t.Helper()
	cmd := exec.Command(Binary(t), "ops", "list", "-c", config, "--json", "--limit", "999")
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("pawl ops list: %v: %s", err, problem.String())
	}
	var list struct{ Operations []Operation }
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	return list.Operations
}

// Wrap is the command line of `pawl wrap` around a command.
func Wrap(t testing.TB, config string, command []string, more ...string) []string {
	t.Helper()
	return slices.Concat([]string{Binary(t), "wrap", "-c", config}, more, []string{"--"}, command)
}
