package telemetry

import (
	"context"
	"regexp"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl"
)

// Names of span attributes. Those that begin with gen_ai, http and error are of the semantic
// conventions of OpenTelemetry (semantic-conventions-genai 0.1.0), which the Go module of the
// conventions does not have; the others are ours. Arguments, results, effects in words and
// error texts are in no span.
const (
	attrGenAIOperation  = attribute.Key("gen_ai.operation.name")
	attrGenAITool       = attribute.Key("gen_ai.tool.name")
	attrGenAIToolType   = attribute.Key("gen_ai.tool.type")
	attrGenAIToolCallID = attribute.Key("gen_ai.tool.call.id")
	attrHTTPStatus      = attribute.Key("http.response.status_code")
	attrErrorType       = attribute.Key("error.type")

	attrOperation  = attribute.Key("pawl.operation.id")
	attrKey        = attribute.Key("pawl.operation.key")
	attrGeneration = attribute.Key("pawl.operation.generation")
	attrRun        = attribute.Key("pawl.run.id")
	attrStep       = attribute.Key("pawl.step")
	attrStatus     = attribute.Key("pawl.status")
	attrReason     = attribute.Key("pawl.reason")
	attrAction     = attribute.Key("pawl.action_taken")
	attrSettledBy  = attribute.Key("pawl.settled_by")
	attrAttempt    = attribute.Key("pawl.attempt")
	attrClass      = attribute.Key("pawl.attempt.class")
	attrProof      = attribute.Key("pawl.attempt.proof")
	attrProbe      = attribute.Key("pawl.probe.outcome")
	attrFence      = attribute.Key("pawl.fence.outcome")
)

// toolCallID is the attribute of a call that names the model's tool call.
const toolCallID = "tool_call_id"

// Spans returns an observer that makes spans of what an executor does:
//
//	execute_tool NAME             a call, inside the trace that it came with
//	├─ snapshot NAME              each exchange with the provider
//	├─ attempt NAME
//	├─ probe NAME, fence NAME
//	└─ resend NAME
//	reconcile NAME                what the sweeper does for one operation: a trace of its
//	├─ probe NAME, …              own, linked to the one that the operation began in
//
// Each span of an operation has its id and its key. A request to a provider carries the trace
// context of its span.
func Spans(p trace.TracerProvider) *pawl.Observer {
	s := &spans{tracer: p.Tracer("github.com/pawl-dev/pawl")}
	return &pawl.Observer{Began: s.began}
}

type spans struct{ tracer trace.Tracer }

var traceContext propagation.TraceContext

func (s *spans) began(ctx context.Context, w *pawl.Work) (context.Context, func()) {
	var span trace.Span
	switch w.Kind {
	case pawl.WorkCall:
		ctx, span = s.call(ctx, w.Call)
	default:
		ctx, span = s.exchange(ctx, w)
	}
	carrier := propagation.MapCarrier{}
	traceContext.Inject(ctx, carrier)
	return pawl.WithTrace(ctx, carrier.Get("traceparent")), func() {
		if span.IsRecording() {
			finish(ctx, span, w)
		}
		span.End()
	}
}

// call begins the span of a call: inside the trace that came with it, or else of what the
// host application traces.
func (s *spans) call(ctx context.Context, c *pawl.Call) (context.Context, trace.Span) {
	if from := remote(pawl.TraceOf(ctx)); from.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, from)
	}
	attrs := append(placeOf(c.Tool, c.Run, c.Step), attrGenAIOperation.String("execute_tool"), attrGenAIToolType.String("function"))
	if id := c.Attributes[toolCallID]; id != "" {
		attrs = append(attrs, attrGenAIToolCallID.String(id))
	}
	return s.tracer.Start(ctx, named("execute_tool", c.Tool), trace.WithAttributes(attrs...))
}

// exchange begins the span of work on an operation.
func (s *spans) exchange(ctx context.Context, w *pawl.Work) (context.Context, trace.Span) {
	op := w.Operation
	attrs := append(placeOf(op.Tool, op.Run, op.Step), about(op)...)
	if w.Attempt > 0 {
		attrs = append(attrs, attrAttempt.Int(w.Attempt))
	}
	kind := trace.SpanKindClient
	if w.Kind == pawl.WorkReconcile {
		kind = trace.SpanKindInternal
	}
	opts := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(attrs...)}
	if from := elsewhere(ctx, op); from.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	return s.tracer.Start(ctx, named(string(w.Kind), op.Tool), opts...)
}

// finish adds what came of a piece of work.
func finish(ctx context.Context, span trace.Span, w *pawl.Work) {
	wrong := ""
	switch {
	case w.Envelope != nil:
		wrong = finishCall(ctx, span, w)
	case w.Evidence != nil:
		e := w.Evidence
		span.SetAttributes(attrClass.String(string(e.Class)), attrProof.String(e.Proof))
		setCode(span, e.Code)
		if e.Class != pawl.ClassSucceeded {
			wrong = string(e.Class)
		}
	case w.Probe != nil:
		span.SetAttributes(attrProbe.String(string(w.Probe.Outcome)))
		setCode(span, w.Probe.Code)
		if w.Probe.Outcome == pawl.Inconclusive {
			wrong = string(pawl.Inconclusive)
		}
	case w.Fence != nil:
		span.SetAttributes(attrFence.String(string(w.Fence.Outcome)))
		setCode(span, w.Fence.Code)
		if w.Fence.Outcome == pawl.FenceInconclusive {
			wrong = string(pawl.FenceInconclusive)
		}
	case w.Kind == pawl.WorkReconcile:
		span.SetAttributes(outcome(w.Operation)...)
	case w.Err != nil:
		wrong = "unread"
	}
	if wrong != "" {
		span.SetAttributes(attrErrorType.String(wrong))
		span.SetStatus(codes.Error, wrong)
	}
}

// finishCall adds the envelope and its operation, and says what was wrong with the call.
func finishCall(ctx context.Context, span trace.Span, w *pawl.Work) (wrong string) {
	env := w.Envelope
	span.SetAttributes(attrStatus.String(string(env.Status)), attrReason.String(string(env.Reason)), attrAction.String(string(env.ActionTaken)))
	if env.Reason == pawl.ReasonUnknownTool {
		span.SetName("execute_tool") // a name that no contract has is the caller's alone
	}
	if op := w.Operation; op != nil && op.ID != (pawl.ID{}) {
		span.SetAttributes(about(op)...)
		span.SetAttributes(outcome(op)...)
		if from := elsewhere(ctx, op); from.IsValid() {
			span.AddLink(trace.Link{SpanContext: from})
		}
	}
	switch {
	case w.Err != nil:
		return "store"
	case env.Status == pawl.Unknown || env.Status == pawl.FailedNoEffect:
		return string(env.Reason)
	}
	return ""
}

// placeOf says which tool is called and where in a plan.
func placeOf(tool, run, step string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attrGenAITool.String(tool)}
	if run != "" {
		attrs = append(attrs, attrRun.String(run))
	}
	if step != "" {
		attrs = append(attrs, attrStep.String(step))
	}
	return attrs
}

// about names an operation. A read has none.
func about(op *pawl.Operation) []attribute.KeyValue {
	if op.ID == (pawl.ID{}) {
		return nil
	}
	attrs := []attribute.KeyValue{attrOperation.String(op.ID.String()), attrKey.String(op.Key.String())}
	if op.Gen > 0 {
		attrs = append(attrs, attrGeneration.Int(op.Gen))
	}
	return attrs
}

// outcome is how an operation stands.
func outcome(op *pawl.Operation) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attrStatus.String(string(op.Status))}
	if op.SettledBy != "" {
		attrs = append(attrs, attrSettledBy.String(string(op.SettledBy)))
	}
	return attrs
}

func setCode(span trace.Span, code int) {
	if code > 0 {
		span.SetAttributes(attrHTTPStatus.Int(code))
	}
}

// elsewhere is the span that an operation began in, where it is of another trace than ctx.
func elsewhere(ctx context.Context, op *pawl.Operation) trace.SpanContext {
	from := remote(op.Trace)
	if from.TraceID() == trace.SpanContextFromContext(ctx).TraceID() {
		return trace.SpanContext{}
	}
	return from
}

// remote reads a trace context; it is not valid where there is none.
func remote(parent string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	ctx := traceContext.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
	return trace.SpanContextFromContext(ctx)
}

// plainName is what may be part of a span's name.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_./:-]{1,128}$`)

func named(what, tool string) string {
	if !plainName.MatchString(tool) {
		return what
	}
	return what + " " + tool
}
