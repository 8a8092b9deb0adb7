package pgtest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// home is the folder of one cluster, owned by the user that its servers run as: they
// refuse to run as root.
type home struct {
	path   string
	keeper *exec.Cmd
	pipe   io.Closer // closing it ends everything

	mu    sync.Mutex
	ports int
	gone  bool
}

// keep waits for the end of its input, stops every server of the folder and removes it.
const keep = `cat >/dev/null
for f in "$1"/*/*.pid; do
	if [ -f "$f" ]; then
		p=$(head -n 1 "$f")
		kill -CONT "$p" 2>/dev/null
		kill -QUIT "$p" 2>/dev/null
	fi
done
for wait in $(seq 100); do
	running=
	for f in "$1"/*/postmaster.pid; do
		if [ -f "$f" ] && kill -0 "$(head -n 1 "$f")" 2>/dev/null; then running=$f; fi
	done
	[ -n "$running" ] || break
	sleep 0.05
done
rm -rf "$1"`

func newHome(dir string) (*home, error) {
	path, err := os.MkdirTemp(dir, "pgtest")
	if err != nil {
		return nil, err
	}
	h := &home{path: path}
	err = own(path)
	if err == nil {
		err = h.watch()
	}
	if err != nil {
		os.RemoveAll(path)
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	return h, nil
}

// watch starts the keeper. It runs as this process's own user, which may stop and remove
// what belongs to the servers' user, and in a group of its own, which an interrupt from a
// terminal does not reach.
func (h *home) watch() error {
	h.keeper = exec.Command("sh", "-c", keep, "keeper", h.path)
	h.keeper.SysProcAttr = ownGroup()
	pipe, err := h.keeper.StdinPipe()
	if err != nil {
		return err
	}
	h.pipe = pipe
	return h.keeper.Start()
}

// remove stops all servers and removes the folder. It may be called more than once.
func (h *home) remove() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return
	}
	h.gone = true
	h.pipe.Close()
	h.keeper.Wait()
}

// nextPort names the next socket in the folder.
func (h *home) nextPort() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ports++
	return 5431 + h.ports
}

// command is a program of PostgreSQL that runs as the servers' user.
func (h *home) command(name string, args ...string) (*exec.Cmd, error) {
	path, err := Binary(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = h.path
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr, err = asOwner()
	return cmd, err
}

// run waits for a program to end.
func (h *home) run(name string, args ...string) error {
	cmd, err := h.command(name, args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// write makes a file that the servers' user may read.
func (h *home) write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	if dir := filepath.Dir(path); dir != h.path {
		if err := own(dir); err != nil {
			return err
		}
	}
	return own(path)
}
