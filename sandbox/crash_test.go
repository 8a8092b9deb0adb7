package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/sandbox"
)

// childEnv holds the ledger's path in a child process, which then serves it.
const childEnv = "PAWL_SANDBOX_CHILD"

// serveChild serves a ledger until it is killed or its parent has gone.
func serveChild() int {
	s, err := sandbox.Open(&sandbox.Options{Ledger: os.Getenv(childEnv)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("http://" + ln.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	_ = s.Serve(ctx, ln)
	return 0
}

// startChild starts a process that serves the ledger and returns its URL and how to kill
// it with SIGKILL.
func startChild(t *testing.T, ledger string) (url string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+ledger)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			stdin.Close()
		})
	}
	t.Cleanup(kill)
	url, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	return strings.TrimSpace(url), kill
}

// A sandbox is killed while 16 clients send: whatever was answered is in the ledger, no
// key has two effects, every effect has its object, and after a restart the same keys
// bring each to exactly one.
func TestKilledWhileItWorks(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			url, kill := startChild(t, path)
			body := func(key string) map[string]any {
				return map[string]any{"order_id": key, "amount": "5.00", "currency": "EUR"}
			}
			const clients, each = 16, 40
			answers := make([]map[string]string, clients)
			var answered atomic.Int64
			var wg sync.WaitGroup
			for c := range clients {
				answers[c] = map[string]string{}
				wg.Go(func() {
					for i := range each {
						key := fmt.Sprintf("k-%d-%d", c, i)
						got := send(t, url, "POST", "/v1/charges", body(key), keyed(key))
						if got.err != nil {
							return
						}
						if got.status != 201 {
							t.Errorf("got %v, want 201", got)
							return
						}
						answers[c][key] = string(got.body)
						if answered.Add(1) == int64(60+70*round) {
							kill()
						}
					}
				})
			}
			wg.Wait()
			if answered.Load() == clients*each {
				t.Fatal("everything was answered before the kill")
			}

			s, err := sandbox.Open(&sandbox.Options{Ledger: path})
			if err != nil {
				t.Fatalf("reopen: %v", err)
			}
			w := serve(t, s)
			perKey := map[string]int{}
			for _, e := range w.effects(sandbox.Filter{}) {
				perKey[e.Key]++
				if got := w.send("GET", "/v1/charges/"+e.ObjectID, nil, nil); got.status != 200 || got.field("key") != e.Key {
					t.Errorf("got %v for the object of %+v", got, e)
				}
			}
			for c := range clients {
				for i := range each {
					key := fmt.Sprintf("k-%d-%d", c, i)
					told, wasTold := answers[c][key]
					if perKey[key] > 1 || wasTold && perKey[key] != 1 {
						t.Errorf("%s: got %d effects, answered %v", key, perKey[key], wasTold)
					}
					if i > len(answers[c]) {
						continue // never sent
					}
					again := w.wantStatus(w.send("POST", "/v1/charges", body(key), keyed(key)), 201, "")
					if replayed := again.header.Get("Idempotent-Replayed") == "true"; replayed != (perKey[key] == 1) {
						t.Errorf("%s: got replayed %v with %d effects before", key, replayed, perKey[key])
					}
					if wasTold && string(again.body) != told {
						t.Errorf("%s: got %s, was told %s", key, again.body, told)
					}
					w.wantEffects(1, sandbox.Filter{Key: key})
				}
			}
			var open int
			for _, q := range w.requests(sandbox.Filter{Method: "POST"}) {
				if q.Answer == "" {
					open++
				}
			}
			t.Logf("%d answered, %d requests cut off by the kill", answered.Load(), open)
		})
	}
}

// A sandbox is killed at a known point: the work is done and the answer is held.
func TestKilledWhileItHolds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	url, kill := startChild(t, path)
	done := make(chan seen, 2)
	go func() {
		done <- send(t, url, "POST", "/v1/refunds", refundBody, with(keyed("k1"), "Pawl-Sandbox-Fault", "hold after"))
	}()
	go func() {
		done <- send(t, url, "POST", "/v1/emails", map[string]any{"to": "ana@example.com"}, with(keyed("k2"), "Pawl-Sandbox-Fault", "hold before"))
	}()
	if got := send(t, url, "GET", "/admin/held?count=2&wait=20s", nil, nil); got.status != 200 {
		t.Fatalf("got %v, want two held requests", got)
	}
	kill()
	for range 2 {
		if got := <-done; got.err == nil {
			t.Errorf("got %v, want a broken connection", got)
		}
	}
	s, err := sandbox.Open(&sandbox.Options{Ledger: path})
	if err != nil {
		t.Fatalf("reopen: %v", err)
	}
	w := serve(t, s)
	w.wantEffects(1, sandbox.Filter{Key: "k1"})
	w.wantEffects(0, sandbox.Filter{Key: "k2"})
	if q := w.request("k1"); q.Answer != "" || q.Outcome != "done" || q.Fault != "hold after" {
		t.Errorf("got %+v, want a request that is done and unanswered", q)
	}
	if q := w.request("k2"); q.Seq == 0 || q.Answer != "" || q.Outcome != "" {
		t.Errorf("got %+v, want a request that was only received", q)
	}
}
