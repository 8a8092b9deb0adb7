package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// ErrExport: the OTEL_* variables ask for something that pawl does not do.
var ErrExport = errors.New("OpenTelemetry cannot be set up")

// Export sends spans to a collector by OTLP over HTTP. It never holds anybody up: spans wait
// in a queue that is bounded, and those that find it full are lost.
type Export struct {
	provider *sdktrace.TracerProvider
}

// OpenExport sets up what the standard OTEL_* variables ask for. It is nil, without error,
// where they do not ask: OTEL_TRACES_EXPORTER is "otlp", or it is not set and an endpoint is
// (OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT). OTEL_SDK_DISABLED
// turns all off. What else the variables say of endpoint, headers, TLS, sampling, batches and
// resource counts as their specification has it; service.name is pawl where they say nothing.
// Spans that a collector does not take are lost, and log says so.
func OpenExport(ctx context.Context, log *slog.Logger) (*Export, error) {
	if on, err := wanted(); err != nil || !on {
		return nil, err
	}
	out, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExport, err)
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", "pawl")), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("%w: resource: %w", ErrExport, errors.Join(err, out.Shutdown(ctx)))
	}
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxAttribute
	}
	return &Export{sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&reporting{SpanExporter: out, log: log}),
		sdktrace.WithResource(res),
		sdktrace.WithRawSpanLimits(limits),
	)}, nil
}

// maxAttribute caps the values of attributes, some of which are callers'.
const maxAttribute = 256

// wanted reads whether the environment asks for spans.
func wanted() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); {
	case exporter == "none", exporter == "" && !endpoint:
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("%w: OTEL_TRACES_EXPORTER: want otlp or none", ErrExport)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch os.Getenv(name) {
		case "":
			continue
		case "http/protobuf", "http/json":
			return true, nil
		}
		return false, fmt.Errorf("%w: %s: want http/protobuf or http/json", ErrExport, name)
	}
	return true, nil
}

// Provider makes tracers whose spans are sent.
func (e *Export) Provider() trace.TracerProvider { return e.provider }

// Close sends what waits, until ctx ends; what is left then is lost. It may be called twice.
func (e *Export) Close(ctx context.Context) error {
	if err := e.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// reporting is an exporter whose failures are logged, the first of each minute.
type reporting struct {
	sdktrace.SpanExporter
	log *slog.Logger

	mu    sync.Mutex
	lost  int
	spoke time.Time
}

const reportEvery = time.Minute

// ExportSpans sends spans once. The exporter tries again by itself for as long as it may.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost += len(spans)
	if time.Since(r.spoke) >= reportEvery {
		r.log.LogAttrs(ctx, slog.LevelWarn, "spans are lost", slog.Int("spans", r.lost), slog.Any("error", err))
		r.lost, r.spoke = 0, time.Now()
	}
	return nil // it is told; the framework would tell it again, on standard error
}
