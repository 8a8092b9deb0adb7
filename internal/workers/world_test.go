package workers

import (
	"bufio"
	"bytes"
	"cmp"
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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/postgres"
	"github.com/pawl-dev/pawl/sandbox"
)

// patience bounds what a test waits for.
const patience = 90 * time.Second

// world is a provider, a store, and the workers on it.
type world struct {
	t     *testing.T
	box   *sandbox.Sandbox
	url   string // of the provider
	store string // URL
	// wait is the contract's timeout and linger.
	wait string
	view *postgres.DB
	// binary and env are what workers are started with; empty means this test, and nothing.
	binary, env string
}

// newWorld makes a provider with so many orders.
func newWorld(t *testing.T, store string, orders int) *world {
	t.Helper()
	w := &world{t: t, store: store}
	var err error
	if w.box, err = sandbox.Open(&sandbox.Options{Ledger: filepath.Join(t.TempDir(), "ledger.db"), MaxInFlight: 2048}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + ln.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.box.Serve(ctx, ln) }()
	t.Cleanup(func() {
		w.box.Release(0)
		stop()
		if err := errors.Join(<-served, w.box.Close()); err != nil {
			t.Errorf("sandbox: %v", err)
		}
	})
	var seed []sandbox.SeedOrder
	for i := range orders {
		seed = append(seed, sandbox.SeedOrder{ID: order(i), Amount: 10000, Currency: "EUR"})
	}
	if err := w.box.Seed(seed); err != nil {
		t.Fatal(err)
	}
	return w
}

func order(i int) string { return fmt.Sprintf("O-%d", i) }

// record is a view of the store that belongs to no worker.
func (w *world) record() *postgres.DB {
	w.t.Helper()
	if w.view == nil {
		db, err := postgres.Open(w.t.Context(), w.store, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		w.view = db
		w.t.Cleanup(func() { db.Close() })
	}
	return w.view
}

// worker is a process.
type worker struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  *bytes.Buffer
	over sync.Once
}

// start runs a worker that knows the named tools, or all of them.
func (w *world) start(name string, lease time.Duration, tools ...string) *worker {
	w.t.Helper()
	raw, err := os.ReadFile("testdata/pawl.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), "http://127.0.0.1:4110", w.url)
	if w.wait != "" {
		text = strings.NewReplacer("timeout: 2s", "timeout: "+w.wait, "linger: 3s", "linger: "+w.wait).Replace(text)
	}
	if len(tools) > 0 {
		head, _, _ := strings.Cut(text, "tools:\n")
		kept := head + "tools:\n"
		for _, tool := range tools {
			_, rest, _ := strings.Cut(text, "  "+tool+":\n")
			end := len(rest)
			for at, line := 0, ""; at < len(rest); at += len(line) {
				line = rest[at : at+strings.IndexByte(rest[at:], '\n')+1]
				if !strings.HasPrefix(line, "    ") {
					end = at
					break
				}
			}
			kept += "  " + tool + ":\n" + rest[:end]
		}
		text = kept
	}
	config := filepath.Join(w.t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	how, err := json.Marshal(terms{Config: config, Name: name, Lease: lease, Grace: 10 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	k := &worker{t: w.t, cmd: exec.Command(cmp.Or(w.binary, os.Args[0])), log: new(bytes.Buffer)}
	k.cmd.Env = append(os.Environ(), workerEnv+"="+string(how), "PAWL_STORE="+w.store, w.env)
	k.cmd.Stderr = k.log
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		k.kill()
		if w.t.Failed() {
			w.t.Logf("the log of %s:\n%.4000s", name, k.log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		k.kill()
		w.t.Fatalf("worker %s: %v: %s", name, err, k.log.String())
	}
	k.url = strings.TrimSpace(line)
	return k
}

func (k *worker) kill() {
	k.over.Do(func() {
		k.cmd.Process.Kill()
		k.cmd.Wait()
	})
}

func (k *worker) signal(s syscall.Signal) {
	k.t.Helper()
	if err := k.cmd.Process.Signal(s); err != nil {
		k.t.Fatal(err)
	}
}

// drain ends a worker in order.
func (k *worker) drain() {
	k.t.Helper()
	k.signal(syscall.SIGTERM)
	k.over.Do(func() {
		if err := k.cmd.Wait(); err != nil {
			k.t.Errorf("drain: %v: %s", err, k.log.String())
		}
	})
}

// call makes a call; an answer that never comes is nil.
func (k *worker) call(ctx context.Context, tool, run string, args map[string]any, deadline time.Duration) *pawl.Envelope {
	body, err := json.Marshal(map[string]any{"tool": tool, "run": run, "step": "1", "args": args, "deadline_ms": deadline.Milliseconds()})
	if err != nil {
		k.t.Error(err)
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, k.url+"/v1/calls", bytes.NewReader(body))
	if err != nil {
		k.t.Error(err)
		return nil
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var env pawl.Envelope
	if err := json.NewDecoder(answer.Body).Decode(&env); err != nil || env.Status == "" {
		return nil
	}
	return &env
}

func refund(i int) map[string]any {
	return map[string]any{"order_id": order(i), "amount": "10.00", "currency": "EUR"}
}

func mail(i int) map[string]any {
	return map[string]any{"to": fmt.Sprintf("u%d@example.com", i), "template": "hello"}
}

// effects counts the ledger's effects of a service by run.
func (w *world) effects(service string) map[string]int {
	w.t.Helper()
	count := map[string]int{}
	for after := int64(0); ; {
		list, err := w.box.Effects(sandbox.Filter{Service: service, Pending: true, After: after, Limit: 1000})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range list {
			count[e.Run]++
			after = e.Seq
		}
		if len(list) < 1000 {
			return count
		}
	}
}

// requests counts the requests that wanted an effect, by run.
func (w *world) requests(service string) map[string]int {
	w.t.Helper()
	count := map[string]int{}
	list, err := w.box.Requests(sandbox.Filter{Service: service, Method: http.MethodPost, Limit: 10000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range list {
		count[r.Run]++
	}
	return count
}

// operations lists all, by run.
func (w *world) operations() map[string]*pawl.Operation {
	w.t.Helper()
	found := map[string]*pawl.Operation{}
	q := pawl.Query{Limit: 1000}
	for {
		page, err := w.record().Find(w.t.Context(), q)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, op := range page {
			if found[op.Run] != nil {
				w.t.Errorf("run %s has two operations", op.Run)
			}
			found[op.Run] = op
		}
		if len(page) < 1000 {
			return found
		}
		q.Before = page[len(page)-1].ID
	}
}

// await looks until a condition holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: it does not come about", what)
		}
	}
}

// settled waits until no operation is open but those that a person is asked about.
func (w *world) settled() {
	w.t.Helper()
	w.await("everything settles or waits for a person", func() bool {
		open, err := w.record().Find(w.t.Context(), pawl.Query{Open: true, Limit: 1000})
		if err != nil {
			return false
		}
		for _, op := range open {
			if op.Review.IsZero() {
				return false
			}
		}
		return true
	})
}

// truth compares what is recorded with the provider's ledger.
func (w *world) truth(service string, ops map[string]*pawl.Operation) {
	w.t.Helper()
	effects, requests := w.effects(service), w.requests(service)
	for run, n := range effects {
		if n > 1 {
			w.t.Errorf("run %s: %d effects, want at most one", run, n)
		}
		if ops[run] == nil {
			w.t.Errorf("run %s: an effect and no operation", run)
		}
	}
	for run, op := range ops {
		switch {
		case op.Status == pawl.Succeeded && effects[run] != 1:
			w.t.Errorf("run %s: SUCCEEDED with %d effects", run, effects[run])
		case op.Status == pawl.FailedNoEffect && effects[run] != 0:
			w.t.Errorf("run %s: FAILED_NO_EFFECT with %d effects", run, effects[run])
		}
		if op.Contract.Class == pawl.Unsafe && requests[run] > 1 {
			w.t.Errorf("run %s: %d requests of a tool without a key, want at most one", run, requests[run])
		}
		if _, err := w.record().History(w.t.Context(), "", op.ID); err != nil {
			w.t.Errorf("run %s: %v", run, err)
		}
	}
}
