package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// disk is a file system of its own, so small that it is soon full. Only root can mount one.
func disk(t *testing.T, megabytes int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a disk to fill can be mounted by root alone")
	}
	dir := t.TempDir()
	for at := dir; at != filepath.Dir(at) && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil { // the server's user must come to it
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		if errors.Is(err, syscall.EPERM) && os.Getenv("CI") == "" {
			t.Skipf("mount: %v", err)
		}
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// occupy writes a file until no space is left, and returns what takes it away.
func occupy(t *testing.T, dir string) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Error(err)
		}
	}
}

// book is a provider that counts what reaches it and can be asked.
type book struct {
	mu   sync.Mutex
	sent map[pawl.ID]int
}

func (b *book) Prepare(in *pawl.Invocation) (pawl.Outbound, error) {
	return pawl.Outbound{Request: in.Canonical}, nil
}

func (b *book) Send(_ context.Context, s *pawl.Sending) pawl.Evidence {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[s.Operation.ID]++
	return pawl.Evidence{Class: pawl.ClassSucceeded, Result: []byte(`{}`)}
}

func (b *book) Probe(_ context.Context, op *pawl.Operation) pawl.ProbeResult {
	if b.effects(op.ID) == 0 {
		return pawl.ProbeResult{Outcome: pawl.Absent}
	}
	return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchKey, Count: 1}
}

func (b *book) effects(id pawl.ID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent[id]
}

// TestDiskIsFull fills the disk of the server three times, and kills the server each time
// before there is room again: what callers are told stays true, what could not be recorded
// was not sent, and everything is settled in the end.
func TestDiskIsFull(t *testing.T) { // PG10
	t.Parallel()
	dir := disk(t, 160)
	c := pgtest.Start(t, &pgtest.Options{Dir: dir, Settings: map[string]string{"min_wal_size": "32MB", "max_wal_size": "32MB", "shared_buffers": "16MB"}})
	s := openTest(t, c.URL("postgres"), &Options{ConfirmTimeout: time.Second})
	provider := &book{sent: map[pawl.ID]int{}}
	ex := pawl.New(s, &pawl.Options{Turn: 4 * time.Second, Reserve: 100 * time.Millisecond, Lease: 2 * time.Second, SweepEvery: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	contract := pawl.Contract{
		Tool: "refund", Class: pawl.Keyed, Retention: 24 * time.Hour, Identity: []pawl.Field{pawl.Text("id")}, Free: []string{"note"},
		Probe: &pawl.ProbeTerms{NegativeProof: true}, MinTime: 50 * time.Millisecond,
	}
	if err := ex.Register(&pawl.Tool{Contract: contract, Port: provider}); err != nil {
		t.Fatal(err)
	}
	ex.Start()
	defer ex.Stop(context.Background())

	note := strings.Repeat("n", 8<<10)
	var mu sync.Mutex
	told := map[string]pawl.Envelope{} // by step
	call := func(step string) (pawl.Envelope, error) {
		env, err := ex.Do(t.Context(), pawl.Call{Tool: "refund", Run: "r", Step: step, Args: fmt.Appendf(nil, `{"id":%q,"note":%q}`, step, note)})
		mu.Lock()
		defer mu.Unlock()
		told[step] = env
		return env, err
	}
	full := 0
	for round := range 3 {
		if env, err := call(fmt.Sprint(round, " before")); err != nil || env.Status != pawl.Succeeded {
			t.Fatalf("round %d: got %s, %v with room on the disk, want SUCCEEDED", round, env.Status, err)
		}
		free := occupy(t, dir)
		var refused, spaceless atomic.Int64
		var callers sync.WaitGroup
		for caller := range 4 {
			callers.Go(func() {
				for i := 0; refused.Load() < 12; i++ {
					env, err := call(fmt.Sprint(round, caller, i))
					switch {
					case err == nil:
					case !errors.Is(err, pawl.ErrFull) && !errors.Is(err, pawl.ErrBusy) && !errors.Is(err, pawl.ErrStoreFailed):
						t.Errorf("got %s, %v; want an error that says what is wrong with the store", env.Status, err)
						fallthrough
					default:
						refused.Add(1)
						if errors.Is(err, pawl.ErrFull) {
							spaceless.Add(1)
						}
					}
				}
			})
		}
		callers.Wait()
		full += int(spaceless.Load())
		c.Kill(t)
		free()
		c.Start(t)
		for end := time.Now().Add(patience); ; {
			if _, err := s.Now(t.Context()); err == nil {
				break
			} else if time.Now().After(end) {
				t.Fatalf("round %d: the store does not come back: %v", round, err)
			}
		}
	}
	if full == 0 {
		t.Error("no call was refused for want of space")
	}

	records := map[string]*pawl.Operation{}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		open, err := s.Find(t.Context(), pawl.Query{Open: true})
		if err == nil && len(open) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d operations are open, %v; want all settled", len(open), err)
		}
	}
	for q := (pawl.Query{Limit: 1000}); ; {
		page, err := s.Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range page {
			records[op.Step] = op
			if n := provider.effects(op.ID); n > 1 || (n == 1) != (op.Status == pawl.Succeeded) {
				t.Errorf("step %s: got %s and %d effects", op.Step, op.Status, n)
			}
		}
		if len(page) < q.Limit {
			break
		}
		q.Before = page[len(page)-1].ID
	}
	unknown := 0
	for step, env := range told {
		op := records[step]
		switch {
		case env.Status == pawl.Unknown:
			unknown++
		case op == nil && (env.Status != pawl.FailedNoEffect || env.OperationID != ""):
			t.Errorf("step %s: %s was told, and there is no record", step, env.Status)
		case op != nil && env.Status != op.Status:
			t.Errorf("step %s: %s was told, and the record is %s", step, env.Status, op.Status)
		}
	}
	t.Logf("%d calls, %d recorded, %d told UNKNOWN, %d refused for want of space", len(told), len(records), unknown, full)
}
