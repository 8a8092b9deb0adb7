package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/sandbox"
)

// skewed builds this test with a wall clock that PAWL_SKEW sets wrong: "-90,0" is 90 s
// behind, and "3600,2" jumps an hour ahead 2 s after the start. The monotonic clock is left alone, as it is when a person or NTP
// sets a clock. It builds the whole tree anew, which takes minutes on a small machine.
func skewed(t *testing.T) string {
	t.Helper()
	if os.Getenv("PAWL_CLOCKS") == "" {
		t.Skip("PAWL_CLOCKS is not set: make nightly sets it")
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const read = "sec, nsec, mono := runtimeNow()"
	if strings.Count(string(text), read) == 0 {
		t.Fatalf("%s does not read the clock as expected", file)
	}
	changed := strings.Replace(string(text), "import (", "import (\n\t\"syscall\"", 1)
	changed = strings.ReplaceAll(changed, read, read+"\n\tsec += skew(mono)")
	changed += `
// skewBy is by how many seconds the wall clock is wrong, skewAfter from which second on.
var skewBy, skewAfter = func() (by, after int64) {
	text, _ := syscall.Getenv("PAWL_SKEW")
	sign, n := int64(1), int64(0)
	for _, c := range []byte(text) {
		switch c {
		case '-':
			sign = -1
		case ',':
			by, sign, n = sign*n, 1, 0
		default:
			n = n*10 + int64(c-'0')
		}
	}
	return by, n
}()

func skew(mono int64) int64 {
	if mono-startNano < skewAfter*int64(Second) {
		return 0
	}
	return skewBy
}
`
	patched, overlay, binary := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "skewed")
	j, err := json.Marshal(map[string]map[string]string{"Replace": {file: patched}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{patched: []byte(changed), overlay: j} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	look := exec.Command(binary)
	look.Env = append(os.Environ(), clockEnv+"=1", "PAWL_SKEW=-5000,0")
	var told int64
	if out, err := look.Output(); err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscan(string(out), &told); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	if behind := time.Now().Unix() - told; behind < 4999 || behind > 5060 {
		t.Fatalf("the clock is %d s behind, want 5000", behind)
	}
	return binary
}

// TestClocksApart has two workers whose wall clocks are 90 s apart, and one whose clock jumps
// by an hour, forth or back, work on one store: they agree on leases and waiting times,
// because those count by the server's clock.
func TestClocksApart(t *testing.T) { // WO4, WO5
	binary := skewed(t)
	for _, c := range []struct{ name, a, b string }{
		{"90 s apart", "0,0", "90,0"}, {"90 s behind", "0,0", "-90,0"},
		{"jumps ahead", "3600,2", "0,0"}, {"jumps back", "-3600,2", "0,0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const calls = 60
			w := newWorld(t, pgtest.Database(t), calls)
			w.binary = binary
			var workers []*worker
			for i, skew := range []string{c.a, c.b} {
				w.env = "PAWL_SKEW=" + skew
				workers = append(workers, w.start(fmt.Sprint("worker-", i), 2*time.Second))
			}
			for _, line := range []string{"reset after", "reset before"} {
				if _, err := w.box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Service: "refunds", Method: "POST"}, Line: line, Times: calls / 6}); err != nil {
					t.Fatal(err)
				}
			}
			var all sync.WaitGroup
			for i := range calls {
				all.Go(func() { // both are asked for the same
					run := fmt.Sprint("refund-", i/2)
					env := workers[i%2].call(context.Background(), "issue_refund", run, refund(i/2), 20*time.Second)
					if env == nil {
						t.Errorf("%s: no answer", run)
					}
				})
			}
			all.Wait()
			w.settled()
			ops := w.operations()
			w.truth("refunds", ops)
			for run, op := range ops {
				if op.Status != pawl.Succeeded {
					t.Errorf("%s: got %s, want SUCCEEDED", run, op.Status)
				}
				if off := time.Since(op.Updated); off < -5*time.Second || off > 10*time.Minute {
					t.Errorf("%s: recorded %v ago, want the server's time", run, off)
				}
			}
			for _, k := range workers {
				k.drain()
			}
		})
	}
}
