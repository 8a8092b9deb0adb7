// The race detector sees nothing of other processes.
//go:build !race

package crash

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestCrashBySystemCall kills the daemon as one of its threads enters the nth system call
// of a kind after it came up: in the middle of what a named point stands before or after,
// such as between two pages of a commit, or between connect and the first byte.
func TestCrashBySystemCall(t *testing.T) {
	if out, err := exec.Command("strace", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("strace cannot be used here: %v: %s", err, out)
	}
	answered := scenarios[0]
	room := make(chan struct{}, 4) // each has a tracer beside it
	for _, walk := range []struct {
		store string
		calls string
		times int
		most  int // so many the daemon makes at all; 0 means more than times
	}{
		{"sqlite", "pwrite64", 12, 0},
		{"sqlite", "fdatasync", 3, 0},
		{"sqlite", "connect", 3, 1},
		{"sqlite", "write", 8, 0},
		{"sqlite", "read", 8, 0},
		{"postgres", "write", 8, 0},
		{"postgres", "read", 8, 0},
	} {
		var all sync.WaitGroup
		var deaths atomic.Int64
		for n := range walk.times {
			all.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				t.Run(fmt.Sprintf("%s/%s/%d", walk.store, walk.calls, n+1), func(t *testing.T) {
					w := newWorld(t, walk.store)
					d := w.start("PAWL_CRASH=")
					nth := n + 1
					if walk.most > 0 {
						nth = min(nth, walk.most)
					}
					d.inject(fmt.Sprintf("%s:signal=KILL:when=%d", walk.calls, nth))
					d.call(answered.tool, answered.args)
					if _, lived := d.settle(); !lived {
						deaths.Add(1)
					}
					d.kill()
					w.recover(answered)
				})
			})
		}
		all.Wait()
		if deaths.Load() == 0 {
			t.Errorf("%s, %s: no daemon died", walk.store, walk.calls)
		}
	}
}

// inject has strace do something to a running daemon.
func (d *daemon) inject(what string) {
	d.t.Helper()
	calls, _, _ := strings.Cut(what, ":")
	cmd := exec.Command("strace", "-f", "-o", "/dev/null", "-e", "trace="+calls, "-e", "inject="+what, "-p", fmt.Sprint(d.cmd.Process.Pid))
	out, in, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stderr = in
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	in.Close()
	d.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "attached") {
		d.t.Fatalf("strace: got %q, %v, want that it is attached", line, err)
	}
}
