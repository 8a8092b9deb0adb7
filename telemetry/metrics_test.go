package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
	"github.com/pawl-dev/pawl/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape returns the value of each series.
func scrape(t *testing.T, m *telemetry.Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	raw, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("got %d %v: %s", w.Code, err, raw)
	}
	series := map[string]string{"": string(raw)}
	for _, line := range regexp.MustCompile(`(?m)^(pawl_\S+(?: \S+)*?) (\S+)$`).FindAllStringSubmatch(string(raw), -1) {
		series[line[1]] = line[2]
	}
	return series
}

// TestMetrics plays a success, a repeat, a refusal and a doubt, and reads what was counted.
func TestMetrics(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	store := storetest.NewMemory()
	ex := pawl.New(store, &pawl.Options{Observers: []*pawl.Observer{m.Observer()}, Log: slog.New(slog.DiscardHandler)})
	type in struct {
		Order string `json:"order"`
	}
	tool := pawl.NewFunc(pawl.Contract{Tool: "pay", Identity: []pawl.Field{pawl.Text("order")}, Timeout: 3 * time.Second},
		func(_ context.Context, a in) (map[string]string, error) {
			if strings.HasPrefix(a.Order, "doubt") {
				return nil, errors.New("no answer")
			}
			return map[string]string{"id": "p-1"}, nil
		}, nil)
	if err := ex.Register(tool); err != nil {
		t.Fatal(err)
	}
	m.Observe(ex.Contracts(), store)
	defer ex.Stop(context.Background())
	call := func(tool, order string) pawl.Envelope {
		t.Helper()
		env, err := ex.Do(t.Context(), pawl.Call{Tool: tool, Run: "run-secret", Step: order, Args: fmt.Appendf(nil, `{"order":%q}`, order)})
		if err != nil {
			t.Fatal(err)
		}
		return env
	}
	call("pay", "A-1")
	call("pay", "A-1")
	call("tool-of-a-caller", "A-1")
	if env := call("pay", "doubt-1"); env.Status != pawl.Unknown {
		t.Fatalf("got %s, want UNKNOWN", env.Status)
	}
	got := scrape(t, m)
	for series, want := range map[string]string{
		`pawl_operations_begun_total{tool="pay"}`:                                   "2",
		`pawl_operations_settled_total{by="answer",status="SUCCEEDED",tool="pay"}`:  "1",
		`pawl_duplicates_suppressed_total{tool="pay"}`:                              "1",
		`pawl_unknown_total{reason="ambiguous",tool="pay"}`:                         "1",
		`pawl_attempts_total{class="SUCCEEDED",tool="pay"}`:                         "1",
		`pawl_attempts_total{class="AMBIGUOUS",tool="pay"}`:                         "1",
		`pawl_attempt_duration_seconds_count{tool="pay"}`:                           "2",
		`pawl_tool_timeout_seconds{tool="pay"}`:                                     "3",
		`pawl_open_operations{lane="review",status="UNKNOWN",tool="pay"}`:           "1",
		`pawl_calls_total{action="executed",status="SUCCEEDED",tool="pay"}`:         "1",
		`pawl_calls_total{action="replayed",status="SUCCEEDED",tool="pay"}`:         "1",
		`pawl_calls_total{action="executed",status="UNKNOWN",tool="pay"}`:           "1",
		`pawl_calls_total{action="refused",status="FAILED_NO_EFFECT",tool="other"}`: "1",
		`pawl_call_duration_seconds_count{status="SUCCEEDED",tool="pay"}`:           "2",
		`pawl_open_complete`: "1",
	} {
		if got[series] != want {
			t.Errorf("%s: got %q, want %q", series, got[series], want)
		}
	}
	page := got[""]
	for _, secret := range []string{"run-secret", "A-1", "doubt-1", "tool-of-a-caller"} {
		if strings.Contains(page, secret) {
			t.Errorf("the metrics hold %q", secret)
		}
	}
	if !strings.Contains(page, `pawl_calls_refused_total{reason=`) {
		t.Error("the refused call is not counted")
	}
}

// TestMetricsOfTheStore looks at what others began: more of it than one scrape reads.
func TestMetricsOfTheStore(t *testing.T) {
	t.Parallel()
	const many = 1100
	m := telemetry.New()
	store := storetest.NewMemory()
	m.Observe([]pawl.Contract{*storetest.Contract("pay"), *storetest.Contract("mail")}, store)
	now := time.Now()
	begin := func(s storetest.Seed, edit func(*pawl.State)) {
		t.Helper()
		op, first := storetest.Op(s)
		if standing, err := store.Begin(t.Context(), op, first); err != nil || standing != nil {
			t.Fatal(standing, err)
		}
		if edit != nil {
			if err := store.Apply(t.Context(), storetest.Move(op, pawl.Unknown, edit)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The oldest has the tightest key: 24 h from an hour ago.
	begin(storetest.Seed{Tool: "pay", Identity: "oldest", At: now.Add(-time.Hour)}, nil)
	begin(storetest.Seed{Tool: "mail", Identity: "asked", At: now.Add(-time.Hour)}, func(s *pawl.State) { s.Review, s.Due = now.Add(-10*time.Minute), time.Time{} })
	begin(storetest.Seed{Tool: "mail", Identity: "due", At: now.Add(-time.Hour)}, func(s *pawl.State) { s.Due = now.Add(-time.Minute) })
	for i := range many {
		begin(storetest.Seed{Tool: "pay", Identity: fmt.Sprint(i), At: now}, nil)
	}
	got := scrape(t, m)
	for series, want := range map[string]float64{
		`pawl_open_operations{lane="turn",status="PENDING",tool="pay"}`:        many + 1,
		`pawl_open_operations{lane="review",status="UNKNOWN",tool="mail"}`:     1,
		`pawl_open_operations{lane="background",status="UNKNOWN",tool="mail"}`: 1,
		`pawl_open_oldest_age_seconds{lane="turn",tool="pay"}`:                 3600,
		`pawl_review_oldest_age_seconds{tool="mail"}`:                          600,
		`pawl_sweeper_lag_seconds{tool="mail"}`:                                60,
		`pawl_sweeper_lag_seconds{tool="pay"}`:                                 59 * 60, // the lease of the oldest ended then
		`pawl_pending_stale{tool="pay"}`:                                       1,
		`pawl_key_retention_remaining_seconds{tool="pay"}`:                     23 * 3600,
		`pawl_open_complete`:                                                   0,
	} {
		v, err := strconv.ParseFloat(got[series], 64)
		if slack := map[bool]float64{true: 30}[strings.Contains(series, "seconds")]; err != nil || math.Abs(v-want) > slack {
			t.Errorf("%s: got %q, want about %v", series, got[series], want)
		}
	}
}

// TestMetricsOfTheSweeper: an executor that sweeps says when it last did.
func TestMetricsOfTheSweeper(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	store := storetest.NewMemory()
	m.Observe(nil, store)
	if got := scrape(t, m)["pawl_sweeper_last_run_timestamp_seconds"]; got != "0" {
		t.Errorf("got %q before any sweep, want 0", got)
	}
	swept := make(chan struct{})
	once := sync.OnceFunc(func() { close(swept) })
	ex := pawl.New(store, &pawl.Options{Observers: []*pawl.Observer{m.Observer(), {Swept: func(context.Context) { once() }}}, Log: slog.New(slog.DiscardHandler)})
	if err := ex.Register(pawl.NewFunc(pawl.Contract{Tool: "pay", IdentityNone: true}, func(context.Context, struct{}) (string, error) { return "", nil }, nil)); err != nil {
		t.Fatal(err)
	}
	ex.Start()
	<-swept
	ex.Stop(t.Context())
	at, err := strconv.ParseFloat(scrape(t, m)["pawl_sweeper_last_run_timestamp_seconds"], 64)
	if ago := float64(time.Now().Unix()) - at; err != nil || ago < -2 || ago > 60 {
		t.Errorf("got %v s ago, %v, want now", ago, err)
	}
}

// A store that does not answer is shown as such, and the scrape goes on.
func TestMetricsWithoutStore(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	store := storetest.NewMemory()
	m.Observe(nil, store)
	fails := func() error { return pawl.ErrStoreFailed }
	for _, f := range []storetest.Faults{{Now: fails}, {Tally: fails}} {
		store.SetFaults(f)
		if got := scrape(t, m)["pawl_open_complete"]; got != "0" {
			t.Errorf("got pawl_open_complete %q, want 0", got)
		}
	}
}
