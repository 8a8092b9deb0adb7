package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/evidence"
	"github.com/pawl-dev/pawl/internal/rule"
)

var (
	_ pawl.Port        = (*tool)(nil)
	_ pawl.Prober      = (*tool)(nil)
	_ pawl.Fencer      = (*tool)(nil)
	_ pawl.Snapshotter = (*tool)(nil)
	_ pawl.Confirmer   = (*tool)(nil)
)

// Prepare computes the request that is stored and sent.
func (t *tool) Prepare(inv *pawl.Invocation) (pawl.Outbound, error) {
	s, err := t.ofInvocation(inv)
	if err != nil {
		return pawl.Outbound{}, err
	}
	attach := t.attachments(s.key)
	if d := t.terms.DeadlineTo; d != nil && d.JSONPointer != "" {
		attach = append(attach, attachment{"json_pointer", d.JSONPointer, instant(inv.Deadline)})
	}
	if s, attach, err = t.wrapped(s, attach); err != nil {
		return pawl.Outbound{}, err
	}
	m, err := t.request.build(s.vars, s.canonical, attach)
	if err != nil {
		return pawl.Outbound{}, fmt.Errorf("request: %w", err)
	}
	if !rule.Holds(rule.CredentialsJoinAtSend) {
		for i, f := range m.header {
			joined, _, _ := join(f.value, t.references(), t.wire.vault)
			m.header[i].value = literalValue(joined)
		}
	}
	text, err := m.text()
	if err != nil {
		return pawl.Outbound{}, fmt.Errorf("request: %w", err)
	}
	return pawl.Outbound{Request: text}, nil
}

// instant is a point in time as providers and receivers get it.
func instant(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Send parses the stored request, joins credentials and late headers, and makes one
// attempt. What keeps the request from being sent is NOT_SENT.
func (t *tool) Send(ctx context.Context, s *pawl.Sending) pawl.Evidence {
	own, err := t.asPinned(s.Operation)
	if err != nil {
		return unsent("contract", err)
	}
	subject, err := own.ofOperation(s.Operation)
	if err != nil {
		return unsent("stored_request", err)
	}
	m, err := parseMessage(s.Operation.Request)
	if err != nil {
		return unsent("stored_request", err)
	}
	own.withTodaysCredentials(m)
	req, err := own.outgoing(m)
	if err != nil {
		return unsent("credential", err)
	}
	own.lateHeadersTo(req.Header, s)
	if err := own.upstream.aws.sign(ctx, req, own.wire.vault); err != nil {
		return unsent("credential", err)
	}
	traced(ctx, req.Header)
	req.ExpectContinue = own.terms.ExpectContinue
	o := own.wire.transport.Attempt(ctx, req)
	ev := evidence.Classify(o, own.evidenceRules(subject), s.Attempt)
	own.adoptDuplicate(ctx, &ev, o, s.Operation, subject)
	return ev
}

// unsent is the evidence of an attempt that ended before a connection was asked for.
func unsent(proof string, err error) pawl.Evidence {
	return pawl.Evidence{Class: pawl.ClassNotSent, Strength: pawl.P1, Proof: proof, Error: err.Error()}
}

// errMoved: the operation began at another origin than the upstream has today.
var errMoved = errors.New("the upstream has moved since the operation began")

// outgoing turns a message into a request with credentials. They go to the upstream's own
// origin and nowhere else.
func (t *tool) outgoing(m *message) (*evidence.Request, error) {
	u, err := url.Parse(m.url)
	if err != nil {
		return nil, errMessage
	}
	if origin(u) != t.wire.origin {
		return nil, errMoved
	}
	req := &evidence.Request{Method: m.method, URL: m.url, Header: http.Header{}, Body: m.body}
	declared := t.references()
	for _, f := range m.header {
		v, secrets, err := join(f.value, declared, t.wire.vault)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", f.name, err)
		}
		req.Header.Set(f.name, v)
		req.Secrets = append(req.Secrets, secrets...)
	}
	return req, nil
}

// withTodaysCredentials renames the credentials of a stored message to those that its
// headers have today.
func (t *tool) withTodaysCredentials(m *message) {
	for i, f := range m.header {
		today := t.request.headers[f.name]
		if named(today) && !slices.ContainsFunc(today, func(p part) bool { return p.expr != nil }) {
			m.header[i].value, _ = storedValue(today, nil) // cannot fail without an expression
		}
	}
}

// named reports whether a header names a credential.
func named(parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return p.ref != nil })
}

// lateHeadersTo sets what belongs to the attempt and not to the operation.
func (t *tool) lateHeadersTo(h http.Header, s *pawl.Sending) {
	if n := t.terms.NotAfter; n != nil {
		h.Set(n.Header, instant(s.Permit.Add(time.Duration(n.After))))
	}
	d := t.terms.DeadlineTo
	if d == nil || d.Header == "" || s.Deadline.IsZero() {
		return
	}
	left := max(time.Until(s.Deadline), 0)
	switch d.Format {
	case "ms":
		h.Set(d.Header, strconv.FormatInt(left.Milliseconds(), 10))
	case "seconds":
		h.Set(d.Header, strconv.FormatInt(int64(left/time.Second), 10))
	default:
		h.Set(d.Header, instant(s.Deadline))
	}
}

// errRead: the answer of a read is none to rely on.
var errRead = errors.New("the answer is no complete success")

// readBy makes a read about an operation and returns its successful answer.
func (t *tool) readBy(ctx context.Context, r *request, op *pawl.Operation) (*evidence.Response, error) {
	s, err := t.ofOperation(op)
	if err != nil {
		return nil, err
	}
	res, err := t.ask(ctx, r, s)
	if err == nil && !complete(res.Status) {
		err = fmt.Errorf("status %d: %w", res.Status, errRead)
	}
	return res, err
}

// ask makes a read; the answer may have any status.
func (t *tool) ask(ctx context.Context, r *request, s *subject) (*evidence.Response, error) {
	m, err := r.build(s.vars, s.canonical, nil)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	req, err := t.outgoing(m)
	if err != nil {
		return nil, err
	}
	if req.Header.Get("Cache-Control") == "" {
		req.Header.Set("Cache-Control", "no-cache") // a state of the past settles nothing
	}
	if err := t.upstream.aws.sign(ctx, req, t.wire.vault); err != nil {
		return nil, err
	}
	traced(ctx, req.Header)
	ctx, cancel := context.WithTimeout(ctx, t.contract.WithDefaults().Timeout)
	defer cancel()
	return t.wire.transport.Read(ctx, req)
}

// traced adds the trace context of an exchange, where one is observed and the contract has
// none of its own. It is not signed: what is between here and the provider may continue it.
func traced(ctx context.Context, h http.Header) {
	if parent := pawl.TraceOf(ctx); parent != "" && h.Get("Traceparent") == "" {
		h.Set("Traceparent", parent)
	}
}

// complete reports whether a status speaks of the whole and of now: not accepted for
// later, altered, partial, or one of many.
func complete(status int) bool {
	switch status {
	case 202, 203, 206, 207, 208, 226:
		return false
	}
	return 200 <= status && status < 300
}

// Snapshot reads the state before the first attempt. It is null where nothing was there.
func (t *tool) Snapshot(ctx context.Context, inv *pawl.Invocation) (json.RawMessage, error) {
	if t.before == nil {
		return nil, errors.New("the contract declares no snapshot")
	}
	s, err := t.ofInvocation(inv)
	if err != nil {
		return nil, err
	}
	res, err := t.ask(ctx, t.before.request, s)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	switch gone, err := t.before.isAbsent(s.answered(res), res); {
	case err != nil:
		return nil, err
	case gone:
		return json.RawMessage("null"), nil
	}
	if !complete(res.Status) {
		return nil, fmt.Errorf("snapshot: status %d: %w", res.Status, errRead)
	}
	if t.before.result != nil {
		return t.before.result.raw(s.answered(res))
	}
	v, err := res.JSON()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return pawl.AppendJSON(nil, v)
}

// isAbsent reports whether an answer says that nothing was there. It counts under the same
// conditions as that of a probe.
func (b *snapshot) isAbsent(vars map[string]any, res *evidence.Response) (bool, error) {
	if b.absent == nil || res.Page() || !speaks(res.Status) {
		return false, nil
	}
	if gone, err := b.absent.holds(vars); !gone || err != nil {
		return false, nil
	}
	if err := fromUpstream(b.errorShape, vars, res); err != nil {
		return false, fmt.Errorf("snapshot: status %d: %w", res.Status, err)
	}
	return true, nil
}
