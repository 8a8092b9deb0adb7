package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
	"github.com/pawl-dev/pawl/telemetry"
)

// span is one that a collector received.
type span struct {
	name, trace, id, parent string
	kind                    tracepb.Span_SpanKind
	failed                  bool
	links                   []string // trace ids
	attrs                   map[string]string
}

// collector takes spans by OTLP over HTTP, as a collector of OpenTelemetry does.
type collector struct {
	*httptest.Server
	status int // what it answers; 0 means 200

	mu       sync.Mutex
	spans    []span
	resource map[string]string
	raw      bytes.Buffer
}

func newCollector(t *testing.T) *collector {
	c := &collector{resource: map[string]string{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != 0 {
		w.WriteHeader(c.status)
		return
	}
	body, err := io.ReadAll(r.Body)
	var got collectorpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &got)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	c.raw.Write(body)
	for _, of := range got.ResourceSpans {
		add(c.resource, of.Resource.Attributes)
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				one := span{
					name: s.Name, trace: fmt.Sprintf("%x", s.TraceId), id: fmt.Sprintf("%x", s.SpanId), parent: fmt.Sprintf("%x", s.ParentSpanId),
					kind: s.Kind, failed: s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR, attrs: map[string]string{},
				}
				for _, l := range s.Links {
					one.links = append(one.links, fmt.Sprintf("%x", l.TraceId))
				}
				add(one.attrs, s.Attributes)
				c.spans = append(c.spans, one)
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func add(to map[string]string, attrs []*commonpb.KeyValue) {
	for _, a := range attrs {
		to[a.Key] = a.Value.GetStringValue()
		if _, number := a.Value.Value.(*commonpb.AnyValue_IntValue); number {
			to[a.Key] = fmt.Sprint(a.Value.GetIntValue())
		}
	}
}

// one returns the only span of a name.
func (c *collector) one(t *testing.T, name string) span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []span
	for _, s := range c.spans {
		if s.name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("got %d spans %q, want 1, of %v", len(found), name, c.spans)
	}
	return found[0]
}

// export sends to a collector that the environment names.
func export(t *testing.T, c *collector, log *slog.Logger) *telemetry.Export {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	e, err := telemetry.OpenExport(t.Context(), log)
	if err != nil || e == nil {
		t.Fatalf("got %v, %v, want an export", e, err)
	}
	return e
}

func closeExport(t *testing.T, e *telemetry.Export) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

type order struct {
	Order string `json:"order"`
}

// payTool is a tool whose first answer is lost; sent gets the trace context of each exchange.
func payTool(found func() bool, sent func(string)) *pawl.Tool {
	return pawl.NewFunc(pawl.Contract{
		Tool: "pay", Class: pawl.Keyed, Retention: time.Hour, Identity: []pawl.Field{pawl.Text("order")},
		MinTime: time.Millisecond, Timeout: time.Second, Probe: &pawl.ProbeTerms{},
	}, func(ctx context.Context, a order) (map[string]string, error) {
		sent(pawl.TraceOf(ctx))
		return nil, errors.New("no answer about ana@example.com")
	}, &pawl.FuncOptions{Probe: func(ctx context.Context, _ *pawl.Operation) pawl.ProbeResult {
		sent(pawl.TraceOf(ctx))
		if !found() {
			return pawl.ProbeResult{Outcome: pawl.Inconclusive, Code: 503, Error: "ana@example.com"}
		}
		return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchKey, Count: 1, Result: json.RawMessage(`{"id":"p-1"}`)}
	}})
}

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
)

// TestSpans loses an answer inside a trace that the caller began, has the sweeper find the
// effect, and reads what a collector was sent.
func TestSpans(t *testing.T) {
	c := newCollector(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	e := export(t, c, slog.New(slog.DiscardHandler))
	var mu sync.Mutex
	var sent []string
	there := false
	settled := make(chan struct{})
	store := storetest.NewMemory()
	ex := pawl.New(store, &pawl.Options{
		Reserve: 50 * time.Millisecond, SweepEvery: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Observers: []*pawl.Observer{telemetry.Spans(e.Provider()), {Changed: func(_ context.Context, op *pawl.Operation, _ *pawl.Entry) {
			if op.Status == pawl.Succeeded {
				close(settled)
			}
		}}},
	})
	if err := ex.Register(payTool(func() bool {
		mu.Lock()
		defer mu.Unlock()
		return there
	}, func(parent string) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, parent)
	})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	env, err := ex.Do(ctx, pawl.Call{
		Tool: "pay", Run: "run-7", Step: "3", Args: []byte(`{"order":"SECRET-ORDER"}`),
		Attributes: map[string]string{"tool_call_id": "call_1"}, Trace: "00-" + callersTrace + "-" + callersSpan + "-01",
	})
	if err != nil || env.Status != pawl.Unknown {
		t.Fatalf("got %s, %v, want UNKNOWN", env.Status, err)
	}
	mu.Lock()
	there = true
	mu.Unlock()
	ex.Start()
	<-settled
	ex.Stop(t.Context())
	closeExport(t, e)

	call, attempt, back := c.one(t, "execute_tool pay"), c.one(t, "attempt pay"), c.one(t, "reconcile pay")
	var probes []span
	for _, s := range c.spans {
		if s.name == "probe pay" {
			probes = append(probes, s)
		}
	}
	if len(probes) != 2 {
		t.Fatalf("got %d probes, want 2", len(probes))
	}
	if call.trace != callersTrace || call.parent != callersSpan || call.kind != tracepb.Span_SPAN_KIND_INTERNAL || !call.failed {
		t.Errorf("got %+v, want a failed span inside the caller's", call)
	}
	for _, s := range []span{attempt, probes[0]} {
		if s.trace != callersTrace || s.parent != call.id || s.kind != tracepb.Span_SPAN_KIND_CLIENT || len(s.links) > 0 {
			t.Errorf("got %+v, want a client's span inside the call", s)
		}
	}
	if back.trace == callersTrace || back.parent != "" || !slices.Equal(back.links, []string{callersTrace}) {
		t.Errorf("got %+v, want a trace of its own, linked to the call's", back)
	}
	if probes[1].trace != back.trace || probes[1].parent != back.id {
		t.Errorf("got %+v, want a span inside the reconciliation", probes[1])
	}
	for i, s := range []span{attempt, probes[0], probes[1]} {
		if want := "00-" + s.trace + "-" + s.id + "-01"; sent[i] != want {
			t.Errorf("exchange %d: got trace context %q at the provider, want %q", i, sent[i], want)
		}
	}
	op, err := store.Get(t.Context(), "", mustID(t, env.OperationID))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []span{call, attempt, back, probes[0], probes[1]} {
		for name, want := range map[string]string{
			"pawl.operation.id": env.OperationID, "pawl.operation.key": op.Key.String(), "pawl.run.id": "run-7", "pawl.step": "3", "gen_ai.tool.name": "pay",
		} {
			if s.attrs[name] != want {
				t.Errorf("%s: got %s %q, want %q", s.name, name, s.attrs[name], want)
			}
		}
	}
	for _, w := range []struct {
		of         span
		name, want string
	}{
		{call, "gen_ai.operation.name", "execute_tool"},
		{call, "gen_ai.tool.type", "function"},
		{call, "gen_ai.tool.call.id", "call_1"},
		{call, "pawl.status", "UNKNOWN"},
		{call, "pawl.action_taken", "executed"},
		{call, "error.type", string(env.Reason)},
		{attempt, "pawl.attempt", "1"},
		{attempt, "pawl.attempt.class", "AMBIGUOUS"},
		{attempt, "error.type", "AMBIGUOUS"},
		{probes[0], "pawl.probe.outcome", "inconclusive"},
		{probes[0], "http.response.status_code", "503"},
		{probes[1], "pawl.probe.outcome", "found"},
		{back, "pawl.status", "SUCCEEDED"},
		{back, "pawl.settled_by", "probe"},
	} {
		if got := w.of.attrs[w.name]; got != w.want {
			t.Errorf("%s: got %s %q, want %q", w.of.name, w.name, got, w.want)
		}
	}
	if c.resource["service.name"] != "pawl" || c.resource["deployment.environment.name"] != "test" {
		t.Errorf("got resource %v, want pawl in its environment", c.resource)
	}
	for _, secret := range []string{"SECRET-ORDER", "ana@example.com"} {
		if strings.Contains(c.raw.String(), secret) {
			t.Errorf("the spans hold %q", secret)
		}
	}
}

func mustID(t *testing.T, s string) pawl.ID {
	t.Helper()
	id, err := pawl.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A name that no contract has names no span, and a call that was answered from another trace
// is linked to it.
func TestSpansOfOtherCalls(t *testing.T) {
	c := newCollector(t)
	e := export(t, c, slog.New(slog.DiscardHandler))
	ex := pawl.New(storetest.NewMemory(), &pawl.Options{Observers: []*pawl.Observer{telemetry.Spans(e.Provider())}})
	if err := ex.Register(pawl.NewFunc(pawl.Contract{Tool: "pay", Identity: []pawl.Field{pawl.Text("order")}},
		func(context.Context, order) (string, error) { return "done", nil }, nil)); err != nil {
		t.Fatal(err)
	}
	defer ex.Stop(t.Context())
	for _, call := range []pawl.Call{
		{Tool: "pay", Run: "r", Args: []byte(`{"order":"A"}`), Trace: "00-" + callersTrace + "-" + callersSpan + "-01"},
		{Tool: "pay", Run: "r", Args: []byte(`{"order":"A"}`)},
		{Tool: "ana@example.com", Run: "r", Args: []byte(`{}`)},
	} {
		if _, err := ex.Do(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	closeExport(t, e)
	closeExport(t, e)
	for _, s := range c.spans {
		if s.name == "execute_tool pay" && s.attrs["pawl.action_taken"] == "replayed" && slices.Equal(s.links, []string{callersTrace}) {
			if got := c.one(t, "execute_tool"); got.attrs["pawl.reason"] != string(pawl.ReasonUnknownTool) {
				t.Errorf("got %+v, want the call of an unknown tool", got)
			}
			return
		}
	}
	t.Errorf("no replayed call is linked to the first: %+v", c.spans)
}

// A collector that refuses, or that never answers, costs its spans and nothing else.
func TestSpansAreLostAndNothingElse(t *testing.T) {
	c := newCollector(t)
	c.status = http.StatusBadRequest
	var mu sync.Mutex
	var log strings.Builder
	e := export(t, c, slog.New(slog.NewTextHandler(&locked{&mu, &log}, nil)))
	ex := pawl.New(storetest.NewMemory(), &pawl.Options{Observers: []*pawl.Observer{telemetry.Spans(e.Provider())}})
	defer ex.Stop(t.Context())
	if err := ex.Register(pawl.NewFunc(pawl.Contract{Tool: "pay", IdentityNone: true}, func(context.Context, struct{}) (string, error) { return "done", nil }, nil)); err != nil {
		t.Fatal(err)
	}
	if env, err := ex.Do(t.Context(), pawl.Call{Tool: "pay", Run: "r", Args: []byte(`{}`)}); err != nil || env.Status != pawl.Succeeded {
		t.Fatalf("got %s, %v, want SUCCEEDED", env.Status, err)
	}
	closeExport(t, e)
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(log.String(), "spans are lost") || !strings.Contains(log.String(), "spans=2") {
		t.Errorf("got log %q, want two spans told as lost", log.String())
	}
}

func TestCloseIsBounded(t *testing.T) {
	stuck := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	defer s.Close()
	defer close(stuck)
	e := export(t, &collector{Server: s}, slog.New(slog.DiscardHandler))
	_, span := e.Provider().Tracer("test").Start(t.Context(), "one")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("got %v after %v, want the bound", err, time.Since(began))
	}
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Nothing is exported that nobody asked for, and what cannot be done is refused.
func TestOpenExport(t *testing.T) {
	for _, c := range []struct {
		env string
		on  bool
		err error
	}{
		{"", false, nil},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", true, nil},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1/v1/traces OTEL_EXPORTER_OTLP_PROTOCOL=http/json", true, nil},
		{"OTEL_TRACES_EXPORTER=otlp", true, nil},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", false, nil},
		{"OTEL_SDK_DISABLED=true OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", false, nil},
		{"OTEL_TRACES_EXPORTER=zipkin", false, telemetry.ErrExport},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, telemetry.ErrExport},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", false, telemetry.ErrExport},
	} {
		t.Run(c.env, func(t *testing.T) {
			for _, set := range strings.Fields(c.env) {
				name, value, _ := strings.Cut(set, "=")
				t.Setenv(name, value)
			}
			e, err := telemetry.OpenExport(t.Context(), slog.New(slog.DiscardHandler))
			if (e != nil) != c.on || !errors.Is(err, c.err) {
				t.Errorf("got %v, %v, want on: %v, %v", e, err, c.on, c.err)
			}
			if e != nil {
				closeExport(t, e)
			}
		})
	}
}
