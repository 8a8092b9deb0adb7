// Package telemetry makes what an executor does visible: metrics for Prometheus, and spans for
// OpenTelemetry. Both are observers and know nothing else. Labels of metrics come from the
// contracts and from closed lists, never from a caller: no key, run, operation or argument is
// ever in a metric. Spans have key, operation, run and step, and no argument either.
package telemetry

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawl-dev/pawl"
)

// Metrics counts what an executor does and looks at its open operations when it is scraped.
// All methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	begun, settled, unknown, unknownSettled, refused, suppressed *prometheus.CounterVec
	attempts, probes, fences, resends, reviews, decisions        *prometheus.CounterVec
	alarms, failures, calls                                      *prometheus.CounterVec
	attemptTime, outcomeTime, callTime                           *prometheus.HistogramVec
	timeout                                                      *prometheus.GaugeVec
	swept                                                        prometheus.Gauge

	mu    sync.Mutex
	tools []string
}

// New returns metrics that count nothing yet.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_" + name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pawl_" + name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.calls = counter("calls_total", "Calls, by the status that they were answered with and by what was done for them: executed, replayed, attached or refused.", "tool", "status", "action")
	m.begun = counter("operations_begun_total", "Operations whose intent was recorded.", "tool")
	m.settled = counter("operations_settled_total", "Operations that were settled, by status and by what settled them.", "tool", "status", "by")
	m.unknown = counter("unknown_total", "Operations that became UNKNOWN, by reason.", "tool", "reason")
	m.unknownSettled = counter("unknown_settled_total", "UNKNOWN operations that were settled: by late_news, probe, resend, fence, answer or person.", "tool", "status", "by")
	m.refused = counter("calls_refused_total", "Calls that were answered without an operation of their own, by reason.", "tool", "reason")
	m.suppressed = counter("duplicates_suppressed_total", "Calls that were answered from an earlier operation, with nothing sent.", "tool")
	m.attempts = counter("attempts_total", "Attempts that ended, by what they prove.", "tool", "class")
	m.probes = counter("probes_total", "Probes, by outcome.", "tool", "outcome")
	m.fences = counter("fences_total", "Fences, by outcome.", "tool", "outcome")
	m.resends = counter("resends_total", "Requests that were sent again under the same key.", "tool")
	m.reviews = counter("reviews_opened_total", "Operations that a person was asked about, by reason.", "tool", "reason")
	m.decisions = counter("decisions_total", "Decisions of people; waiver is true where one said that it did not happen before that was safe.", "tool", "choice", "waiver")
	m.alarms = counter("alarms_total", "What must never happen and did.", "tool", "alarm")
	m.failures = counter("background_failures_total", "Background steps that could not be done and are tried again, such as a store that does not answer.", "step")
	m.attemptTime = histogram("attempt_duration_seconds", "Time from the permit of an attempt to its end; pawl_tool_timeout_seconds has the wait that the contract allows.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30}, "tool")
	m.outcomeTime = histogram("outcome_duration_seconds", "Time from the intent of an operation to its settlement, by what settled it.",
		[]float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 24 * 3600}, "tool", "by")
	m.callTime = histogram("call_duration_seconds", "Time from a call to its envelope, by the status in it.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "tool", "status")
	m.swept = prometheus.NewGauge(prometheus.GaugeOpts{Name: "pawl_sweeper_last_run_timestamp_seconds", Help: "When this process last looked for operations that are due and took all of them; 0 if it never did."})
	m.registry.MustRegister(m.swept)
	m.timeout = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pawl_tool_timeout_seconds", Help: "Longest wait for the answer of a tool, from its contract."}, []string{"tool"})
	m.registry.MustRegister(m.timeout)
	return m
}

// Observe takes the tools of an executor and the store it records in. It is called once,
// before the first scrape.
func (m *Metrics) Observe(contracts []pawl.Contract, store pawl.Store) {
	m.mu.Lock()
	for _, c := range contracts {
		m.tools = append(m.tools, c.Tool)
		m.timeout.WithLabelValues(c.Tool).Set(c.WithDefaults().Timeout.Seconds())
	}
	m.mu.Unlock()
	m.registry.MustRegister(&open{store: store, tool: m.tool})
}

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// tool is a label for a tool: a name that no contract has is "other".
func (m *Metrics) tool(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.tools, name) {
		return name
	}
	return "other"
}

// Observer tells the metrics what an executor does.
func (m *Metrics) Observer() *pawl.Observer {
	return &pawl.Observer{
		Changed: m.changed,
		Answered: func(_ context.Context, call *pawl.Call, env *pawl.Envelope, took time.Duration) {
			tool := m.tool(call.Tool)
			m.calls.WithLabelValues(tool, string(env.Status), string(env.ActionTaken)).Inc()
			m.callTime.WithLabelValues(tool, string(env.Status)).Observe(took.Seconds())
		},
		Swept: func(context.Context) { m.swept.SetToCurrentTime() },
		Refused: func(_ context.Context, call *pawl.Call, env *pawl.Envelope) {
			m.refused.WithLabelValues(m.tool(call.Tool), string(env.Reason)).Inc()
		},
		Replayed: func(_ context.Context, call *pawl.Call, _ *pawl.Operation) {
			m.suppressed.WithLabelValues(m.tool(call.Tool)).Inc()
		},
		Alarm: func(_ context.Context, op *pawl.Operation, what pawl.Alarm) {
			m.alarms.WithLabelValues(m.tool(op.Tool), string(what)).Inc()
		},
		Failed: func(_ context.Context, what string, _ error) { m.failures.WithLabelValues(what).Inc() },
	}
}

func (m *Metrics) changed(_ context.Context, op *pawl.Operation, e *pawl.Entry) {
	tool := m.tool(op.Tool)
	switch pawl.EventKind(e.Event) {
	case pawl.EventBegin:
		m.begun.WithLabelValues(tool).Inc()
	case pawl.EventResend:
		m.resends.WithLabelValues(tool).Inc()
	case pawl.EventReview:
		m.reviews.WithLabelValues(tool, string(op.ReviewReason)).Inc()
	}
	if e.Probe != nil {
		m.probes.WithLabelValues(tool, string(e.Probe.Outcome)).Inc()
	}
	if e.Fence != nil {
		m.fences.WithLabelValues(tool, string(e.Fence.Outcome)).Inc()
	}
	if e.Decision != nil {
		m.decisions.WithLabelValues(tool, string(e.Decision.Choice), yes(e.Decision.Waiver != "")).Inc()
	}
	if e.Evidence != nil {
		m.attempts.WithLabelValues(tool, string(e.Evidence.Class)).Inc()
		if i := e.Attempt - 1; i >= 0 && i < len(op.Attempts) {
			if a := op.Attempts[i]; !a.Ended.IsZero() {
				m.attemptTime.WithLabelValues(tool).Observe(a.Ended.Sub(a.Permit).Seconds())
			}
		}
	}
	if e.To == pawl.Unknown && e.From != pawl.Unknown {
		m.unknown.WithLabelValues(tool, string(op.Reason)).Inc()
	}
	if e.From.Open() && !e.To.Open() {
		by := string(op.SettledBy)
		m.settled.WithLabelValues(tool, string(e.To), by).Inc()
		m.outcomeTime.WithLabelValues(tool, by).Observe(e.At.Sub(op.Created).Seconds())
		if e.From == pawl.Unknown {
			m.unknownSettled.WithLabelValues(tool, string(e.To), by).Inc()
		}
	}
}

func yes(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
