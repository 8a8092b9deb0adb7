package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// mcpTool is a tool of an MCP server as a pawl.Port.
type mcpTool struct {
	*tool
	file *File
}

var (
	_ pawl.Port        = (*mcpTool)(nil)
	_ pawl.Prober      = (*mcpTool)(nil)
	_ pawl.Fencer      = (*mcpTool)(nil)
	_ pawl.Snapshotter = (*mcpTool)(nil)
)

var errNoClient = errors.New("nothing speaks to the MCP servers here")

func (t *mcpTool) client() MCPClient {
	t.file.mu.Lock()
	defer t.file.mu.Unlock()
	return t.file.mcp
}

// as is the tool by the contract that the operation began under.
func (t *mcpTool) as(op *pawl.Operation) (*mcpTool, error) {
	own, err := t.asPinned(op)
	if err != nil {
		return nil, err
	}
	return &mcpTool{own, t.file}, nil
}

// Prepare computes the params that are stored and sent, and checks the arguments against
// the tool's schema as far as it is known.
func (t *mcpTool) Prepare(inv *pawl.Invocation) (pawl.Outbound, error) {
	s, err := t.ofInvocation(inv)
	if err != nil {
		return pawl.Outbound{}, err
	}
	attach := t.attachments(s.key)
	m := &toolMessage{server: t.upstream.name}
	meta := map[string]any{}
	for _, a := range attach {
		switch a.carrier {
		case "header":
			m.header = append(m.header, field{http.CanonicalHeaderKey(a.name), a.value})
		case "meta":
			meta[a.name] = a.value
		}
	}
	slices.SortFunc(m.header, func(a, b field) int { return strings.Compare(a.name, b.name) })
	if s, attach, err = t.wrapped(s, attach); err != nil {
		return pawl.Outbound{}, err
	}
	arguments, err := t.arguments(t.request, s, attach)
	if err != nil {
		return pawl.Outbound{}, err
	}
	if m.params, err = toolParams(t.request.call.tool, arguments, meta); err != nil {
		return pawl.Outbound{}, fmt.Errorf("call: %w", err)
	}
	text, err := m.text()
	if err != nil {
		return pawl.Outbound{}, fmt.Errorf("call: %w", err)
	}
	return pawl.Outbound{Request: text}, nil
}

// arguments computes the arguments of a call. The error says what does not fit the schema.
func (t *mcpTool) arguments(r *request, s *subject, attach []attachment) (any, error) {
	raw, err := r.content(s.vars, s.canonical, attach)
	if err != nil {
		return nil, fmt.Errorf("call: %w", err)
	}
	client := t.client()
	if client == nil {
		return nil, errNoClient
	}
	if err := client.CheckArguments(r.call.server, r.call.tool, raw); err != nil {
		return nil, err
	}
	return pawl.ParseJSONLimit(raw, len(raw))
}

// Send puts the stored call on the wire once.
func (t *mcpTool) Send(ctx context.Context, s *pawl.Sending) pawl.Evidence {
	own, err := t.as(s.Operation)
	if err != nil {
		return unsent("contract", err)
	}
	subject, err := own.ofOperation(s.Operation)
	if err != nil {
		return unsent("stored_request", err)
	}
	m, err := parseToolMessage(s.Operation.Request)
	if err != nil || m.server != own.upstream.name {
		return unsent("stored_request", errMessage)
	}
	client := own.client()
	if client == nil {
		return unsent("no_session", errNoClient)
	}
	call := &MCPCall{
		Server: m.server, Tool: own.request.call.tool, Params: m.params, Header: http.Header{},
		Effect: own.contract.WithDefaults().Class != pawl.Read,
	}
	for _, f := range m.header {
		call.Header.Set(f.name, f.value)
	}
	own.lateHeadersTo(call.Header, s)
	if d := own.terms.DeadlineTo; d != nil && d.Meta != "" && !s.Deadline.IsZero() {
		call.Meta = map[string]string{d.Meta: timeText(d.Format, s.Deadline)}
	}
	return own.classify(client.CallTool(ctx, call), subject)
}

// timeText is a deadline in the format that a server takes.
func timeText(format timeFormat, deadline time.Time) string {
	left := max(time.Until(deadline), 0)
	switch format {
	case "ms":
		return strconv.FormatInt(left.Milliseconds(), 10)
	case "seconds":
		return strconv.FormatInt(int64(left/time.Second), 10)
	}
	return instant(deadline)
}

// askTool calls a tool that looks at an effect. An error means that there is no answer.
func (t *mcpTool) askTool(ctx context.Context, r *request, s *subject, effect bool) (*toolAnswer, error) {
	arguments, err := t.arguments(r, s, nil)
	if err != nil {
		return nil, err
	}
	params, err := toolParams(r.call.tool, arguments, nil)
	if err != nil {
		return nil, fmt.Errorf("call: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.contract.WithDefaults().Timeout)
	defer cancel()
	a := t.client().CallTool(ctx, &MCPCall{Server: r.call.server, Tool: r.call.tool, Params: params, Effect: effect})
	return readToolAnswer(a), a.lost()
}

var errNoAnswer = errors.New("no answer came")

// lost is nil if a response came.
func (a *MCPAnswer) lost() error {
	switch {
	case a.Result != nil || a.Error != nil:
		return nil
	case a.Facts.Error != "":
		return fmt.Errorf("%w: %s", errNoAnswer, a.Facts.Error)
	}
	return errNoAnswer
}

// Probe asks the server whether the operation's effect exists.
func (t *mcpTool) Probe(ctx context.Context, op *pawl.Operation) pawl.ProbeResult {
	result := pawl.ProbeResult{Outcome: pawl.Inconclusive}
	err := func() error {
		own, err := t.as(op)
		if err != nil {
			return err
		}
		if own.probe == nil {
			return errors.New("the contract declares no probe")
		}
		s, err := own.ofOperation(op)
		if err != nil {
			return err
		}
		a, err := own.askTool(ctx, own.probe.request, s, false)
		if a != nil {
			result.Code, result.Body = a.seen()
		}
		if err != nil {
			return err
		}
		return own.probe.readTool(&result, s, a)
	}()
	if err != nil {
		result.Outcome, result.Error = pawl.Inconclusive, err.Error()
	}
	return result
}

// readTool fills the result from an answer. An error leaves it inconclusive.
func (p *probe) readTool(result *pawl.ProbeResult, s *subject, a *toolAnswer) error {
	vars := s.toolAnswered(a)
	if p.absent != nil {
		if gone, err := p.absent.holds(vars); gone && err == nil {
			result.Outcome = pawl.Absent
			return nil
		}
	}
	if err := a.complete(); err != nil {
		return err
	}
	matches, err := p.matches(vars)
	if err != nil {
		return err
	}
	return p.judge(result, vars, matches)
}

// Fence asks the server to see to it that the effect never happens.
func (t *mcpTool) Fence(ctx context.Context, op *pawl.Operation) pawl.FenceResult {
	result := pawl.FenceResult{Outcome: pawl.FenceInconclusive}
	err := func() error {
		own, err := t.as(op)
		if err != nil {
			return err
		}
		if own.fence == nil {
			return errors.New("the contract declares no fence")
		}
		s, err := own.ofOperation(op)
		if err != nil {
			return err
		}
		a, err := own.askTool(ctx, own.fence.request, s, true)
		if a != nil {
			result.Code, result.Body = a.seen()
		}
		if err != nil {
			return err
		}
		return own.fence.readTool(&result, s, a)
	}()
	if err != nil {
		result.Outcome, result.Error = pawl.FenceInconclusive, err.Error()
	}
	return result
}

func (f *fence) readTool(result *pawl.FenceResult, s *subject, a *toolAnswer) error {
	vars := s.toolAnswered(a)
	exists, err := f.found.holds(vars)
	if err != nil {
		return err
	}
	if exists {
		f.exists(result, vars)
		return nil
	}
	err = a.complete()
	held := err == nil
	if f.held != nil {
		if held, err = f.held.holds(vars); err != nil {
			return err
		}
	}
	if !held {
		return errors.Join(errRead, err)
	}
	result.Outcome = pawl.FenceHeld
	return nil
}

// Snapshot reads the state before the first attempt.
func (t *mcpTool) Snapshot(ctx context.Context, inv *pawl.Invocation) (json.RawMessage, error) {
	if t.before == nil {
		return nil, errors.New("the contract declares no snapshot")
	}
	s, err := t.ofInvocation(inv)
	if err != nil {
		return nil, err
	}
	a, err := t.askTool(ctx, t.before.request, s, false)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	vars := s.toolAnswered(a)
	if t.before.absent != nil {
		if gone, err := t.before.absent.holds(vars); gone && err == nil {
			return json.RawMessage("null"), nil
		}
	}
	if err := a.complete(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if t.before.result != nil {
		return t.before.result.raw(vars)
	}
	v, err := a.body()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return pawl.AppendJSON(nil, v)
}
