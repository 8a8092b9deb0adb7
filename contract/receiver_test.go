package contract_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/receiver"
	"github.com/pawl-dev/pawl/storetest"
)

// TestReceiverLadder: against a service with our receiver each of 1,000 operations has one
// effect and is settled without a person, whatever is lost, however late a copy lands and
// however long a worker pauses between permit and write.
//
// It has the machine to itself: it is full of time-outs, and others' tests are too.
func TestReceiverLadder(t *testing.T) {
	operations := 1000
	if raced {
		operations = 100
	}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "service.db")+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := receiver.Migrate(t.Context(), db, receiver.SQLite); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE moves (id TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	network := newHostileNetwork(t, service(db))
	src := `version: 1
upstreams:
  there: {url: ` + network.url + `}
tools:
  move:
    use: pawl-receiver/operation
    upstream: there
    not_after: {after: 400ms}
    probe: {lag: 0s} # one clock
    timeout: 150ms
    linger: 50ms
    flight: 1s
    pause: 1s
    min_time: 50ms
    max_generations: 100
    max_attempts: 100
`
	f, err := contract.Parse("pawl.yaml", []byte(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	tools, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	tools[0].Port = pausing{tools[0].Port.(port)}
	store := storetest.NewMemory()
	ex := pawl.New(store, &pawl.Options{SweepEvery: 20 * time.Millisecond, SweepBatch: 64, Reserve: 20 * time.Millisecond, Lease: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err := ex.Register(&tools[0]); err != nil {
		t.Fatal(err)
	}
	ex.Start()
	t.Cleanup(func() { ex.Stop(context.Background()) })

	var wg sync.WaitGroup
	var unsettled, person atomic.Int32
	room := make(chan struct{}, 64)
	for i := range operations {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			call := pawl.Call{Tool: "move", Run: "run", Step: fmt.Sprint(i), Args: fmt.Appendf(nil, `{"id":"m-%d"}`, i)}
			for until := time.Now().Add(90 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) { // as a host asks again
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				env, err := ex.Do(ctx, call)
				cancel()
				if err != nil {
					continue // the turn was over before the store answered
				}
				if env.Reason == pawl.ReasonReviewOpen {
					person.Add(1)
					return
				}
				if env.Status == pawl.Succeeded {
					return
				}
			}
			unsettled.Add(1)
		})
	}
	wg.Wait()
	network.quiet() // every copy that is still under way has landed
	if person.Load() > 0 || unsettled.Load() > 0 {
		t.Errorf("got %d for a person and %d unsettled, want none", person.Load(), unsettled.Load())
	}
	var distinct, all int
	if err := db.QueryRow(`SELECT count(DISTINCT id), count(*) FROM moves`).Scan(&distinct, &all); err != nil {
		t.Fatal(err)
	}
	if distinct != operations || all != operations {
		t.Errorf("got %d effects of %d operations, want %d of %d", all, distinct, operations, operations)
	}
	t.Logf("of %d requests %d were lost, %d answers were lost, %d landed after the client had gone", network.requests.Load(), network.lost.Load(), network.answers.Load(), network.late.Load())
	for name, n := range map[string]*atomic.Int64{"lost requests": &network.lost, "lost answers": &network.answers, "late landings": &network.late} {
		if n.Load() == 0 {
			t.Errorf("there were no %s", name)
		}
	}
}

// service is the other end: a table of moves behind the receiver.
func service(db *sql.DB) http.Handler {
	r := receiver.New(db, receiver.SQLite, receiver.OneCaller, nil)
	mux := http.NewServeMux()
	mux.Handle("POST /operations", r.Wrap(http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		body, _ := io.ReadAll(hr.Body)
		if _, err := receiver.Tx(hr.Context()).ExecContext(hr.Context(), `INSERT INTO moves (id) VALUES (?)`, string(body)); err != nil {
			http.Error(w, "no", 500)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(201)
		_, _ = w.Write(body) // the client may have gone
	})))
	mux.Handle("GET /operations/{key}", r.Record(http.MethodPost))
	return mux
}

// hostileNetwork loses requests and answers and lets requests land long after the client
// has given up.
type hostileNetwork struct {
	url                           string
	service                       http.Handler
	landing                       sync.WaitGroup
	requests, lost, answers, late atomic.Int64
}

func newHostileNetwork(t *testing.T, service http.Handler) *hostileNetwork {
	n := &hostileNetwork{service: service}
	s := httptest.NewServer(n)
	t.Cleanup(s.Close)
	n.url = s.URL
	return n
}

func (n *hostileNetwork) quiet() { n.landing.Wait() }

func (n *hostileNetwork) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	land := func() *httptest.ResponseRecorder {
		copied := r.Clone(context.WithoutCancel(r.Context()))
		copied.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		n.service.ServeHTTP(rec, copied)
		return rec
	}
	n.requests.Add(1)
	switch dice := rand.IntN(10); {
	case dice < 2:
		n.lost.Add(1)
		panic(http.ErrAbortHandler)
	case dice < 4 && r.Method == http.MethodPost: // on its way for longer than anybody waits
		n.late.Add(1)
		n.landing.Go(func() {
			time.Sleep(time.Duration(rand.IntN(2500)) * time.Millisecond)
			land()
		})
		panic(http.ErrAbortHandler)
	case dice < 6:
		n.answers.Add(1)
		land()
		panic(http.ErrAbortHandler)
	}
	rec := land()
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes()) // the client may have gone
}

// port is what a compiled tool can do.
type port interface {
	pawl.Port
	pawl.Prober
	pawl.Fencer
}

// pausing holds some attempts between their permit and their write.
type pausing struct{ port }

func (p pausing) Send(ctx context.Context, s *pawl.Sending) pawl.Evidence {
	if rand.IntN(10) == 0 {
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
	}
	return p.port.Send(context.WithoutCancel(ctx), s)
}
