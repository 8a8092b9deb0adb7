package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/demo"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/server"
)

const (
	rivalIdentities = 200
	rivalCalls      = 2000
	rivalHands      = 16
	rivalEnv        = "PAWL_TEST_RIVAL"
)

// TestRival is no test but one of the two processes of TestTwoProcesses: it makes every
// call of its half, many at a time, and writes one envelope a line.
func TestRival(t *testing.T) {
	config := os.Getenv(rivalEnv)
	if config == "" {
		t.Skip("run by TestTwoProcesses")
	}
	s, err := server.Open(t.Context(), &server.Options{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	work := make(chan int)
	var mu sync.Mutex
	var hands sync.WaitGroup
	for range rivalHands {
		hands.Go(func() {
			for i := range work {
				call := pawl.Call{
					Tool: "issue_refund", Run: "run-1", Step: "1",
					Args: fmt.Appendf(nil, `{"order_id":"R-%03d","amount":1.00,"currency":"EUR"}`, i%rivalIdentities),
				}
				env, err := s.Executor().Do(context.Background(), call)
				if err != nil {
					t.Error(err)
				}
				line, err := json.Marshal(env)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				fmt.Printf("envelope %s\n", line)
				mu.Unlock()
			}
		})
	}
	for i := range rivalCalls / 2 {
		work <- i
	}
	close(work)
	hands.Wait()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTwoProcesses has two processes make 2,000 calls on 200 identities against one SQLite
// file. Whatever they do to each other, the provider's ledger has one effect of each.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The shop ignores keys here, so that a second request would be a second effect.
	refunds := sandbox.DefaultMode(sandbox.Refunds)
	refunds.Keys = sandbox.KeysIgnored
	box, err := sandbox.Open(&sandbox.Options{
		Ledger: filepath.Join(dir, "ledger.db"), NoDemo: true, Modes: map[string]sandbox.Mode{sandbox.Refunds: refunds},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	orders := make([]sandbox.SeedOrder, rivalIdentities)
	for i := range orders {
		orders[i] = sandbox.SeedOrder{ID: fmt.Sprintf("R-%03d", i), Amount: 10_000, Currency: "EUR"}
	}
	if err := box.Seed(orders); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- box.Serve(ctx, ln) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	config := filepath.Join(dir, "pawl.yaml")
	text := strings.ReplaceAll(demo.Contract, exampleURL, "http://"+ln.Addr().String())
	// Two cores may take a while over two thousand calls; a slow answer is no lost one here.
	text = strings.ReplaceAll(text, "timeout: 2s", "timeout: 20s")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var outputs [2][]byte
	var failed [2]error
	var both sync.WaitGroup
	for i := range outputs {
		both.Go(func() {
			cmd := exec.CommandContext(limit, exe, "-test.run=^TestRival$", "-test.count=1")
			cmd.Env = append(os.Environ(), rivalEnv+"="+config)
			outputs[i], failed[i] = cmd.CombinedOutput()
		})
	}
	both.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		t.Fatalf("%v\n%s\n%s", err, outputs[0], outputs[1])
	}

	calls := 0
	byOrder := map[string]string{} // effect text to operation
	for _, out := range outputs {
		lines := bufio.NewScanner(strings.NewReader(string(out)))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			raw, ok := strings.CutPrefix(lines.Text(), "envelope ")
			if !ok {
				continue
			}
			var env pawl.Envelope
			if err := json.Unmarshal([]byte(raw), &env); err != nil {
				t.Fatalf("%v: %s", err, raw)
			}
			calls++
			if env.Status != pawl.Succeeded {
				t.Errorf("got %s (%s), want SUCCEEDED: %s", env.Status, env.Reason, env.Effect)
			}
			if id, seen := byOrder[env.Effect]; seen && id != env.OperationID {
				t.Errorf("%s: got operations %s and %s, want one", env.Effect, id, env.OperationID)
			}
			byOrder[env.Effect] = env.OperationID
		}
	}
	if calls != rivalCalls {
		t.Errorf("got %d envelopes, want %d", calls, rivalCalls)
	}
	effects, err := box.Effects(sandbox.Filter{Pending: true})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range effects {
		count[e.Subject]++
	}
	for _, o := range orders {
		if count[o.ID] != 1 {
			t.Errorf("order %s: got %d effects in the ledger, want 1", o.ID, count[o.ID])
		}
	}
	if len(effects) != rivalIdentities {
		t.Errorf("got %d effects in the ledger, want %d", len(effects), rivalIdentities)
	}
}
