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
		fmt.Fprintln(os.Stderr, serveShop(a[0], a[1], a[2], a[3], a[4]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// service is a running sample service.
type service struct {
	env string
	url string
	cmd *exec.Cmd
}

var databases = []string{"SQLite", "PostgreSQL"}

// open starts the service on a database of its own.
func open(t *testing.T, database, fault string) *service {
	t.Helper()
	if database == "PostgreSQL" {
		return start(t, "pgx", pgtest.Database(t), fault)
	}
	file := "file:" + filepath.Join(t.TempDir(), "shop.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	return start(t, "sqlite3", file, fault)
}

func start(t *testing.T, driver, source, fault string) *service {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	s := &service{url: "http://" + address}
	s.env = "RECEIVER_SHOP=" + strings.Join([]string{address, driver, source, fault, filepath.Join(t.TempDir(), "wires")}, "\n")
	t.Cleanup(s.kill)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// beside starts a second process of the service on the same database.
func (s *service) beside(t *testing.T) *service {
	a := strings.Split(strings.TrimPrefix(s.env, "RECEIVER_SHOP="), "\n")
	return start(t, a[1], a[2], a[3])
}

// wires is the file in which the service has its effects outside.
func (s *service) wires() string { return s.env[strings.LastIndex(s.env, "\n")+1:] }

func (s *service) target(node *service) *receivertest.Target {
	return &receivertest.Target{
		URL: s.url + "/pay", Other: s.url + "/refund", Node: node.url + "/pay", Effects: s.url + "/effects",
		Record: s.url + "/pay/{key}", Undo: s.url + "/pay/{key}/undo", NotAfter: "Pawl-Not-After",
		OtherAuthorization: "Bearer bob", Drills: true, Retention: 2 * time.Second, Lease: 3 * time.Second,
		Restart: s.restart,
		Store: func(ctx context.Context, up bool) error {
			is := map[bool]string{true: "here", false: "away"}[up]
			res, err := http.Post(s.url+"/store/"+is, "", nil)
			if err != nil {
				return err
			}
			return res.Body.Close()
		},
	}
}

func (s *service) restart(ctx context.Context) error {
	s.kill()
	return s.start(ctx)
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
	for range 400 {
		res, err := http.Get(s.url + "/effects")
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

// ask sends one request, which may be told where to die. It asks again while the request
// before it is in flight: a database may take a moment to find its client dead.
func (s *service) ask(t *testing.T, path, key, point string) (int, error) {
	t.Helper()
	for {
		status, code, err := s.askOnce(t, path, key, point)
		if code != "idempotency_in_flight" {
			return status, err
		}
		if err := t.Context().Err(); err != nil {
			return 0, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *service) askOnce(t *testing.T, path, key, point string) (status int, code string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(`{"amount": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	r.GetBody = nil // so that the client never sends it twice by itself
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", `"`+key+`"`)
	if point != "" {
		r.Header.Set("Receiver-Drill", "die="+point)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	var p struct{ Code string }
	_ = json.NewDecoder(res.Body).Decode(&p) // a success has none
	return res.StatusCode, p.Code, nil
}

func (s *service) effects(t *testing.T) int {
	t.Helper()
	res, err := http.Get(s.url + "/effects")
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

// TestOurReceiver holds the receiver to every vector on both databases, in two processes of
// which one is killed.
func TestOurReceiver(t *testing.T) {
	t.Parallel()
	for _, database := range databases {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			s := open(t, database, "")
			receivertest.Run(t, s.target(s.beside(t)))
		})
	}
}

// TestKilledAtEveryPoint kills the service around each statement of its transaction and asks
// again: one effect.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, database := range databases {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			s := open(t, database, "")
			for i, point := range deadlyPoints {
				key := "killed " + point
				if status, err := s.ask(t, "/pay", key, point); err == nil {
					t.Fatalf("%s: got status %d, want the process to die", point, status)
				}
				if err := s.restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				if status, err := s.ask(t, "/pay", key, ""); err != nil || status != 200 {
					t.Errorf("%s, again: got %d, %v; want 200", point, status, err)
				}
				if n := s.effects(t); n != i+1 {
					t.Errorf("%s: got %d effects, want %d", point, n, i+1)
				}
			}
		})
	}
}

// TestKilledOutside kills the service around a request with an effect outside the database.
// Whatever the point, the effect outside is never made twice, and from the claim until the
// record the key is held as unknown.
func TestKilledOutside(t *testing.T) {
	t.Parallel()
	for _, database := range databases {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			s := open(t, database, "")
			want := 200
			for _, point := range claimPoints {
				switch point {
				case "after claim commit":
					want = 409
				case "after commit":
					want = 200
				}
				if err := os.WriteFile(s.wires(), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				key := "killed " + point
				if status, err := s.ask(t, "/wire", key, point); err == nil {
					t.Fatalf("%s: got status %d, want the process to die", point, status)
				}
				if err := s.restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if status, err := s.ask(t, "/wire", key, ""); err != nil || status != want {
						t.Errorf("%s, again: got %d, %v; want %d", point, status, err, want)
					}
				}
				wires, err := os.ReadFile(s.wires())
				if n := strings.Count(string(wires), "\n"); err != nil || n > 1 || n == 0 && want == 200 {
					t.Errorf("%s: got %d effects outside, %v; want one at most, and one where it is done", point, n, err)
				}
			}
		})
	}
}

// TestPlantedFaults: the suite finds each fault where it is and nowhere else.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	for fault, vector := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := open(t, "SQLite", fault)
			target := s.target(s)
			target.Record, target.Undo, target.NotAfter, target.Node = "", "", "", "" // it has none of them
			target.Store, target.Lease = nil, 0
			findings, err := receivertest.Check(t.Context(), target)
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
			for other, theirs := range faults {
				if other != fault && other != "two_transactions" && slices.Contains(failed, theirs) {
					t.Errorf("%s failed, which is the mark of %s", theirs, other)
				}
			}
		})
	}
}
