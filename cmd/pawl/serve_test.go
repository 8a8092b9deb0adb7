package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/demo"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/server"
)

// daemon is a `pawl serve` in a process of its own.
type daemon struct {
	cmd    *exec.Cmd
	url    string
	stderr strings.Builder
}

// startDaemon runs the real binary on a free port of the loopback interface.
func startDaemon(dir string, env []string, args ...string) (*daemon, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &daemon{cmd: exec.Command(exe)}
	// testscript.Main runs pawl where the program is called so.
	d.cmd.Args = append([]string{"pawl", "serve", "--listen", "127.0.0.1:0"}, args...)
	d.cmd.Dir, d.cmd.Env, d.cmd.Stderr = dir, env, &d.stderr
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, d.cmd.Wait(), errors.New(d.stderr.String()))
	}
	d.url = strings.TrimSpace(line)
	var said listening
	if json.Unmarshal([]byte(line), &said) == nil {
		d.url = said.URL
	}
	return d, nil
}

// drain asks the process to end and waits until it has.
func (d *daemon) drain() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return d.cmd.Wait()
}

type daemonKey struct{}

func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	running := ts.Value(daemonKey{}).(**daemon)
	if neg || *running != nil {
		ts.Fatalf("usage: serve [ARG...], one at a time")
	}
	env := append(os.Environ(), "HOME="+ts.Getenv("HOME"), "PAWL_STORE="+ts.Getenv("PAWL_STORE"))
	d, err := startDaemon(ts.MkAbs("."), env, args...)
	ts.Check(err)
	*running = d
	ts.Defer(func() {
		if *running == d {
			ts.Check(d.drain())
		}
	})
}

func cmdDrain(ts *testscript.TestScript, neg bool, args []string) {
	running := ts.Value(daemonKey{}).(**daemon)
	if neg || len(args) > 0 || *running == nil {
		ts.Fatalf("usage: drain, after serve")
	}
	d := *running
	*running = nil
	ts.Check(d.drain())
	_, err := io.WriteString(ts.Stderr(), d.stderr.String())
	ts.Check(err)
}

func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	d := *ts.Value(daemonKey{}).(**daemon)
	if neg || d == nil || len(args) < 3 || len(args) > 5 {
		ts.Fatalf("usage: http STATUS METHOD PATH [BODY|FILE.json [Bearer:TOKEN]], after serve")
	}
	body := ""
	if len(args) > 3 {
		if body = args[3]; strings.HasSuffix(body, ".json") {
			body = ts.ReadFile(body)
		}
	}
	r, err := http.NewRequest(args[1], d.url+args[2], strings.NewReader(body))
	ts.Check(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if len(args) > 4 {
		r.Header.Set("Authorization", strings.Replace(args[4], ":", " ", 1))
	}
	answer, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	ts.Check(err)
	if got := strconv.Itoa(answer.StatusCode); got != args[0] {
		ts.Fatalf("%s %s: got %s, want %s: %s", args[1], args[2], got, args[0], raw)
	}
	_, err = ts.Stdout().Write(raw)
	ts.Check(err)
}

// TestServeDrains has a call in flight when the process is asked to end. Inside the grace
// its answer is waited for; what is still out then is UNKNOWN, is answered as such, and is
// settled later. The effect is there once.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, grace string
		release     bool
		want        pawl.Status
	}{
		{"answered", "20s", true, pawl.Succeeded},
		{"given up", "3s", false, pawl.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			box := shop(t, dir)
			d, err := startDaemon(dir, os.Environ(), "--grace", c.grace)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Service: sandbox.Refunds, Method: "POST"}, Line: "hold after"}); err != nil {
				t.Fatal(err)
			}
			answers := make(chan *pawl.Envelope, 1)
			go func() { answers <- callOver(t, d.url) }()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := box.AwaitHeld(ctx, 1); err != nil {
				t.Fatal(err)
			}
			if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			awaitClosed(t, d.url)
			if c.release {
				box.Release(0)
			}
			env := <-answers
			if env == nil || env.Status != c.want {
				t.Errorf("got %+v, want %s", env, c.want)
			}
			if err := d.cmd.Wait(); err != nil {
				t.Errorf("pawl serve: %v\n%s", err, d.stderr.String())
			}
			grace, err := time.ParseDuration(c.grace)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > grace+time.Second {
				t.Errorf("ending took %v, want it inside %v", took, grace)
			}
			box.Release(0)
			settledOnce(t, dir, box, env)
		})
	}
}

// shop starts a sandbox whose contract file is in dir. Its answers may take long.
func shop(t *testing.T, dir string) *sandbox.Sandbox {
	t.Helper()
	box, err := sandbox.Open(&sandbox.Options{Ledger: filepath.Join(dir, "ledger.db")})
	if err != nil {
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
			t.Error(err)
		}
	})
	text := strings.ReplaceAll(demo.Contract, exampleURL, "http://"+ln.Addr().String())
	text = strings.ReplaceAll(text, "timeout: 2s", "timeout: 40s")
	if err := os.WriteFile(filepath.Join(dir, "pawl.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return box
}

// callOver makes one call over HTTP; nil means that there was no envelope.
func callOver(t *testing.T, url string) *pawl.Envelope {
	body := `{"tool":"issue_refund","run":"run-1","step":"1","args":{"order_id":"A-1182","amount":49.90,"currency":"EUR"}}`
	answer, err := http.Post(url+"/v1/calls", "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return nil
	}
	defer answer.Body.Close()
	var env pawl.Envelope
	if err := json.NewDecoder(answer.Body).Decode(&env); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("call: got %d, %v", answer.StatusCode, err)
		return nil
	}
	return &env
}

// awaitClosed waits until nobody listens at a URL any more.
func awaitClosed(t *testing.T, url string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return
		}
		c.Close()
	}
	t.Fatal("the listener is still open")
}

// settledOnce opens the store that the daemon left, settles what is open, and counts.
func settledOnce(t *testing.T, dir string, box *sandbox.Sandbox, env *pawl.Envelope) {
	t.Helper()
	s, err := server.Open(t.Context(), &server.Options{Config: filepath.Join(dir, "pawl.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	again, err := s.Executor().Do(t.Context(), pawl.Call{
		Tool: "issue_refund", Run: "run-1", Step: "1", Args: []byte(`{"order_id":"A-1182","amount":49.90,"currency":"EUR"}`),
	})
	if err != nil || again.Status != pawl.Succeeded || env == nil || again.OperationID != env.OperationID {
		t.Errorf("afterwards: got %+v, %v, want SUCCEEDED of the same operation", again, err)
	}
	effects, err := box.Effects(sandbox.Filter{Pending: true})
	if err != nil || len(effects) != 1 {
		t.Errorf("got %d effects in the ledger, %v, want 1", len(effects), err)
	}
}
