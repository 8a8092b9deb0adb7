// The race detector sees nothing of other processes.
//go:build !race

package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/sandbox"
)

// patience bounds what a row waits for.
const patience = 2 * time.Minute

// world is a provider with a ledger of its own, a store, and the daemons that follow one
// another on it.
type world struct {
	t      testing.TB
	box    *sandbox.Sandbox
	config string
	store  string
}

func newWorld(t testing.TB, store string) *world {
	t.Helper()
	dir := t.TempDir()
	box, err := sandbox.Open(&sandbox.Options{Ledger: filepath.Join(dir, "ledger.db")})
	if err != nil {
		t.Fatal(err)
	}
	modes := box.Modes()
	tickets := modes["tickets"]
	tickets.Lag = 0 // as the contract declares
	modes["tickets"] = tickets
	if err := box.SetModes(modes); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- box.Serve(ctx, ln) }()
	t.Cleanup(func() {
		box.Release(0)
		stop()
		if err := errors.Join(<-served, box.Close()); err != nil {
			t.Errorf("sandbox: %v", err)
		}
	})
	text, err := os.ReadFile("testdata/pawl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, box: box, config: filepath.Join(dir, "pawl.yaml"), store: filepath.Join(dir, "pawl.db")}
	if store == "postgres" {
		w.store = pgtest.Database(t)
	}
	text = bytes.ReplaceAll(text, []byte("http://127.0.0.1:4110"), []byte("http://"+ln.Addr().String()))
	if err := os.WriteFile(w.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// daemon is a process of the binary.
type daemon struct {
	t     testing.TB
	cmd   *exec.Cmd
	url   string
	log   bytes.Buffer
	ended chan error
}

// start runs the binary. A daemon that dies before it tells its address has no URL.
func (w *world) start(env string) *daemon {
	w.t.Helper()
	d := &daemon{
		t: w.t, ended: make(chan error, 1),
		cmd: exec.Command(binary, "serve", "-c", w.config, "--store", w.store, "--listen", "127.0.0.1:0", "--lease", "1s", "--grace", "10s", "--json"),
	}
	d.cmd.Env = append(os.Environ(), env)
	d.cmd.Stderr = &d.log
	out, in, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Close()
	d.cmd.Stdout = in
	if err := errors.Join(d.cmd.Start(), in.Close()); err != nil {
		w.t.Fatal(err)
	}
	go func() { d.ended <- d.cmd.Wait() }()
	w.t.Cleanup(func() {
		d.kill()
		if w.t.Failed() {
			w.t.Logf("log of a daemon with %s:\n%.4000s", env, d.log.String())
		}
	})
	var at struct{ URL string }
	if line, err := bufio.NewReader(out).ReadString('\n'); err == nil {
		if err := json.Unmarshal([]byte(line), &at); err != nil {
			w.t.Fatal(err)
		}
	}
	d.url = at.URL
	return d
}

// kill ends a daemon as kill -9 does.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may be gone
	d.ended <- <-d.ended
}

// died reports whether a daemon has ended.
func (d *daemon) died() bool {
	select {
	case err := <-d.ended:
		d.ended <- err
		return true
	default:
		return false
	}
}

// call makes a call; an answer that never comes is nil.
func (d *daemon) call(tool string, args string) *pawl.Envelope {
	body := fmt.Sprintf(`{"tool":%q,"run":"run-1","step":"1","args":%s,"deadline_ms":6000}`, tool, args)
	answer, err := http.Post(d.url+"/v1/calls", "application/json", strings.NewReader(body))
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var env pawl.Envelope
	if err := json.NewDecoder(answer.Body).Decode(&env); err != nil {
		return nil
	}
	return &env
}

// operations lists what a daemon has on record.
func (d *daemon) operations() ([]api.Operation, error) {
	answer, err := http.Get(d.url + "/v1/operations")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list: %s", answer.Status)
	}
	var list struct{ Operations []api.Operation }
	return list.Operations, json.NewDecoder(answer.Body).Decode(&list)
}

// settle waits until nothing is open but what a person is asked about. It ends early,
// and reports false, if the daemon dies.
func (d *daemon) settle() ([]api.Operation, bool) {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ops, err := d.operations()
		if d.died() {
			return nil, false
		}
		open := false
		for _, op := range ops {
			open = open || op.Status.Open() && op.Review.IsZero()
		}
		if err == nil && !open {
			return ops, true
		}
		if time.Now().After(end) {
			d.t.Fatalf("it is not settled: %v %v", ops, err)
		}
	}
}

// drain ends a daemon in order.
func (d *daemon) drain() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	err := <-d.ended
	d.ended <- err
	if err != nil {
		d.t.Errorf("drain: %v", err)
	}
}
