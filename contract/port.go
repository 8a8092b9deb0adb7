package contract

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/evidence"
)

var (
	_ pawl.Port        = (*tool)(nil)
	_ pawl.Prober      = (*tool)(nil)
	_ pawl.Fencer      = (*tool)(nil)
	_ pawl.Snapshotter = (*tool)(nil)
)

// wire is the way to one upstream, shared by its tools.
type wire struct {
	transport *evidence.Transport
	vault     *vault
	origin    string
}

func newWire(up *upstream, o *Options) (*wire, error) {
	eo := &evidence.Options{
		DialTimeout: time.Duration(up.terms.ConnectTimeout), MaxResponse: int64(up.terms.MaxResponse), Allow: o.Allow,
	}
	if up.terms.Network == "public" {
		eo.Allow = func(a netip.AddrPort) error {
			err := evidence.PublicOnly(a)
			if err == nil && o.Allow != nil {
				err = o.Allow(a)
			}
			return err
		}
	}
	if up.terms.Proxy != "" {
		eo.Proxy, _ = url.Parse(up.terms.Proxy) // checked when the file was read
	}
	if t := up.terms.TLS; t != nil {
		var err error
		if eo.TLS, err = t.config(o); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
	}
	return &wire{evidence.New(eo), &vault{o.Getenv, o.ReadFile}, origin(up.url)}, nil
}

func (t *tlsTerms) config(o *Options) (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := o.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("ca_file: no certificate in it")
		}
	}
	if t.CertFile != "" {
		cert, err := o.ReadFile(t.CertFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file: %w", err)
		}
		key, err := o.ReadFile(t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("key_file: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

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
	m, err := t.request.build(s.vars, s.canonical, attach)
	if err != nil {
		return pawl.Outbound{}, fmt.Errorf("request: %w", err)
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
	header, declared := http.Header{}, t.references()
	for _, f := range m.header {
		v, err := join(f.value, declared, t.wire.vault)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", f.name, err)
		}
		header.Set(f.name, v)
	}
	return &evidence.Request{Method: m.method, URL: m.url, Header: header, Body: m.body}, nil
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

// evidenceRules binds the compiled rules to one operation. Whatever cannot be evaluated
// never helps.
func (t *tool) evidenceRules(s *subject) *evidence.Rules {
	r := &t.rules
	ask := func(p *program) func(*evidence.Response) (bool, error) {
		if p == nil {
			return nil
		}
		return func(res *evidence.Response) (bool, error) { return p.holds(s.answered(res)) }
	}
	sure := func(p *program) func(*evidence.Response) bool {
		if p == nil {
			return nil
		}
		return func(res *evidence.Response) bool {
			yes, err := p.holds(s.answered(res))
			return yes && err == nil
		}
	}
	rules := &evidence.Rules{
		NeedsBody: r.needsBody, ExpectBody: r.expectBody, BodyMayFail: t.terms.BodyMayFail,
		Success: ask(r.success), InFlight: sure(r.onConcurrent), Mismatch: sure(r.onMismatch),
		OwnShape: sure(r.errorShape), Replayed: sure(r.replaySignal),
		Result: func(res *evidence.Response) (json.RawMessage, string, error) { return t.result(s, res) },
	}
	if accepted := sure(r.accepted); accepted != nil {
		rules.Accepted = func(res *evidence.Response) (bool, error) {
			return res.Status == http.StatusAccepted || accepted(res), nil
		}
	}
	if len(r.noEffect) > 0 {
		rules.NoEffect = func(res *evidence.Response) (match, transient bool) {
			vars := s.answered(res)
			for _, n := range r.noEffect {
				if yes, err := n.when.holds(vars); yes && err == nil {
					return true, n.transient
				}
			}
			return false, false
		}
	}
	return rules
}

// result takes the result and the provider's id out of an answer.
func (t *tool) result(s *subject, res *evidence.Response) (result json.RawMessage, ref string, err error) {
	vars := s.answered(res)
	if t.rules.result != nil {
		if result, err = t.rules.result.raw(vars); err != nil {
			return nil, "", fmt.Errorf("result: %w", err)
		}
	} else if _, err := res.JSON(); err == nil {
		result = res.Body
	}
	if t.rules.ref != nil {
		if ref, err = t.rules.ref.find(vars, res); err != nil {
			return nil, "", fmt.Errorf("result_ref: %w", err)
		}
	}
	return result, ref, nil
}

// raw evaluates an expression to canonical JSON; nil for an optional without a value.
func (p *program) raw(vars map[string]any) (json.RawMessage, error) {
	v, err := p.json(vars)
	if err != nil {
		return nil, err
	}
	if _, none := v.(absent); none {
		return nil, nil
	}
	return pawl.AppendJSON(nil, v)
}

// errNoRef: the answer does not have the id where the contract says.
var errNoRef = errors.New("the answer has no id there")

func (l *locator) find(vars map[string]any, res *evidence.Response) (string, error) {
	var v any
	var err error
	if l.expr != nil {
		v, err = l.expr.json(vars)
	} else if v, err = res.JSON(); err == nil {
		v = atPointer(v, l.pointer)
	}
	if err != nil {
		return "", err
	}
	return refText(v)
}

// refText is an id as text.
func refText(v any) (string, error) {
	switch v.(type) {
	case string, json.Number:
		if s, err := scalar(v); err == nil && s != "" {
			return s, nil
		}
	}
	return "", errNoRef
}

// adoptDuplicate takes the effect that the provider says our key already had.
func (t *tool) adoptDuplicate(ctx context.Context, ev *pawl.Evidence, o *evidence.Observation, op *pawl.Operation, s *subject) {
	d, res := t.rules.duplicate, o.Response
	if d == nil || res == nil || o.Early || o.BytesBegun == 0 || res.Intact() != nil {
		return
	}
	vars := s.answered(res)
	if yes, err := d.when.holds(vars); !yes || err != nil {
		return
	}
	id, err := d.id.find(vars, res)
	if err != nil {
		return
	}
	ev.Class, ev.Strength, ev.Proof = pawl.ClassSucceeded, "", "contract_duplicate"
	ev.Conflict, ev.InFlight, ev.KeyMismatch, ev.Transient = false, false, false, false
	ev.Replayed, ev.Ref, ev.Result = true, id, nil
	if d.read == nil {
		return
	}
	known := *op
	known.Ref = id
	found, err := t.readBy(ctx, d.read, &known)
	if err == nil {
		var at *subject
		if at, err = t.ofOperation(&known); err == nil {
			ev.Result, _, err = t.result(at, found)
		}
	}
	if err != nil {
		ev.Class, ev.Error = pawl.ClassResultLost, err.Error()
	}
	ev.Ref = id
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
	ctx, cancel := context.WithTimeout(ctx, t.contract.WithDefaults().Timeout)
	defer cancel()
	return t.wire.transport.Read(ctx, req)
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

// Snapshot reads the state before the first attempt.
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

// pinnedTools keeps the tools that were compiled from the contracts of earlier operations.
type pinnedTools struct {
	mu    sync.Mutex
	tools map[string]*tool
}

// maxPinned caps them; an operator seldom has more versions of one tool in flight.
const maxPinned = 64

// asPinned is the tool by the contract that the operation began under.
func (t *tool) asPinned(op *pawl.Operation) (*tool, error) {
	if op.Contract == nil || op.Contract.Source == t.contract.Source {
		return t, nil
	}
	source := op.Contract.Source
	t.pinned.mu.Lock()
	defer t.pinned.mu.Unlock()
	if old, ok := t.pinned.tools[source]; ok {
		return old, nil
	}
	f, err := parse("contract of "+op.ID.String(), []byte(source), nil, t.upstream)
	if err != nil {
		return nil, fmt.Errorf("the contract that the operation began under: %w", err)
	}
	if len(f.tools) != 1 || f.tools[0].contract.Tool != op.Tool {
		return nil, errors.New("the contract that the operation began under is not of its tool")
	}
	old := f.tools[0]
	if strings.TrimRight(old.upstream.url.String(), "/") != strings.TrimRight(t.upstream.url.String(), "/") {
		return nil, errMoved
	}
	old.wire, old.pinned = t.wire, t.pinned
	if t.pinned.tools == nil || len(t.pinned.tools) >= maxPinned {
		t.pinned.tools = map[string]*tool{}
	}
	t.pinned.tools[source] = old
	return old, nil
}
