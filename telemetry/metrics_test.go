package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
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
		`pawl_operations_begun_total{tool="pay"}`:                                  "2",
		`pawl_operations_settled_total{by="answer",status="SUCCEEDED",tool="pay"}`: "1",
		`pawl_duplicates_suppressed_total{tool="pay"}`:                             "1",
		`pawl_unknown_total{reason="ambiguous",tool="pay"}`:                        "1",
		`pawl_attempts_total{class="SUCCEEDED",tool="pay"}`:                        "1",
		`pawl_attempts_total{class="AMBIGUOUS",tool="pay"}`:                        "1",
		`pawl_attempt_duration_seconds_count{tool="pay"}`:                          "2",
		`pawl_tool_timeout_seconds{tool="pay"}`:                                    "3",
		`pawl_open_operations{lane="review",status="UNKNOWN",tool="pay"}`:          "1",
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

// A store that does not answer is shown as such, and the scrape goes on.
func TestMetricsWithoutStore(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	store := storetest.NewMemory()
	store.SetFaults(storetest.Faults{Now: func() error { return pawl.ErrStoreFailed }})
	m.Observe(nil, store)
	if got := scrape(t, m)["pawl_open_complete"]; got != "0" {
		t.Errorf("got pawl_open_complete %q, want 0", got)
	}
}
