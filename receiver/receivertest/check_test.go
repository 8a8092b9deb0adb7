package receivertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/receiver/receivertest"
)

// The test binary is also the sample service, in a process of its own.
func TestMain(m *testing.M) {
	if args := os.Getenv("RECEIVER_SHOP"); args != "" {
		a := strings.Split(args, "\n")
		fmt.Fprintln(os.Stderr, serveShop(a[0], a[1], a[2], a[3]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// service is a running sample service.
type service struct {
	t       *testing.T
	env     string
	address string
	cmd     *exec.Cmd
}

func newService(t *testing.T, driver, source, fault string) *receivertest.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, address: l.Addr().String()}
	l.Close()
	s.env = "RECEIVER_SHOP=" + strings.Join([]string{s.address, driver, source, fault}, "\n")
	t.Cleanup(s.kill)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &receivertest.Target{
		URL: "http://" + s.address + "/pay", Other: "http://" + s.address + "/refund", Effects: "http://" + s.address + "/effects",
		OtherAuthorization: "Bearer bob", Drills: true, Retention: 2 * time.Second,
		Restart: func(ctx context.Context) error { s.kill(); return s.start(ctx) },
	}
}

func (s *service) kill() {
	_ = s.cmd.Process.Kill() // it may be dead
	_ = s.cmd.Wait()         // killed
}

func (s *service) start(ctx context.Context) error {
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), s.env)
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for range 200 {
		res, err := http.Get("http://" + s.address + "/effects")
		if err == nil {
			res.Body.Close()
			return nil
		}
		select {
		case <-time.After(25 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("the service does not answer")
}

func sqliteFile(t *testing.T) string {
	return "file:" + filepath.Join(t.TempDir(), "shop.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
}

// TestOurReceiver holds the receiver to every vector on both databases, in a process that
// is killed.
func TestOurReceiver(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		receivertest.Run(t, newService(t, "sqlite3", sqliteFile(t), ""))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		receivertest.Run(t, newService(t, "pgx", pgtest.Database(t), ""))
	})
}

// TestKilledAtEveryPoint kills the service around its transaction and asks again: one effect.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *receivertest.Target{
		"SQLite":     func(t *testing.T) *receivertest.Target { return newService(t, "sqlite3", sqliteFile(t), "") },
		"PostgreSQL": func(t *testing.T) *receivertest.Target { return newService(t, "pgx", pgtest.Database(t), "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			effects := 0
			for _, point := range []string{"crash=before", "crash=work", "crash", "crash=answer"} {
				ask := func(drill string) (int, error) {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(`{"amount": 1}`))
					if err != nil {
						t.Fatal(err)
					}
					r.GetBody = nil
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Idempotency-Key", `"killed at `+point+`"`)
					r.Header.Set("Receiver-Drill", drill)
					res, err := http.DefaultTransport.RoundTrip(r)
					if err != nil {
						return 0, err
					}
					defer res.Body.Close()
					return res.StatusCode, nil
				}
				if status, err := ask(point); err == nil {
					t.Errorf("%s: got status %d, want the process to die", point, status)
				}
				if err := s.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				if status, err := ask(""); err != nil || status != 200 {
					t.Errorf("%s, again: got %d, %v; want 200", point, status, err)
				}
				effects++
				if n := countOf(t, s); n != effects {
					t.Errorf("%s: got %d effects, want %d", point, n, effects)
				}
			}
		})
	}
}

func countOf(t *testing.T, s *receivertest.Target) int {
	t.Helper()
	res, err := http.Get(s.Effects)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var c struct{ Count int }
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c.Count
}

// TestPlantedFaults: the suite finds each fault where it is, and the vectors of the others
// stay silent.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	for fault, vector := range map[string]string{
		"unscoped": "V07", "two_transactions": "V12", "reexecute_5xx": "V09b", "ignore_mismatch": "V04",
		"memory_claims": "V12b", "no_tombstone": "V11",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			findings, err := receivertest.Check(t.Context(), newService(t, "sqlite3", sqliteFile(t), fault))
			if err != nil {
				t.Fatal(err)
			}
			var failed []string
			for _, f := range findings {
				if f.Verdict == receivertest.Failed {
					failed = append(failed, f.Vector)
				}
			}
			if !slices.Contains(failed, vector) {
				t.Errorf("got failures %v, want %s among them", failed, vector)
			}
			for _, quiet := range []string{"V01", "V05"} {
				if slices.Contains(failed, quiet) {
					t.Errorf("%s failed, where nothing is wrong", quiet)
				}
			}
		})
	}
}
