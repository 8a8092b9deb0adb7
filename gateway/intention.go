package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// Keys of a request's _meta that are pawl's. The same can be said by headers and, but for
// the last three, in the query of the URL.
const (
	MetaRun        = "dev.pawl/run"
	MetaStep       = "dev.pawl/step"
	MetaParentRun  = "dev.pawl/parent_run"
	MetaDeadlineMS = "dev.pawl/deadline_ms"
	MetaAgain      = "dev.pawl/again"
	MetaTenant     = "dev.pawl/tenant"
	// MetaOperation is in the _meta of a result: the envelope.
	MetaOperation = "dev.pawl/operation"

	metaPrefix = "dev.pawl/"
)

// ours reports whether a key of _meta is pawl's: upstreams do not get it.
func ours(key string) bool { return strings.HasPrefix(key, metaPrefix) }

// DefaultRunKeys are the keys by which known clients name a conversation.
var DefaultRunKeys = []string{"vscode.conversationId", "openai/session", "ai.opencode/sessionID", "antigravity.google/conversation_id"}

// attributeKeys are the keys by which known clients name one call of a tool. They repeat
// and reuse them, so they are for the record alone.
var attributeKeys = []string{"claudecode/toolUseId", "vscode.requestId", "vscode.conversationId", "openai/session", "callId"}

// maxAttribute is the number of bytes that the executor lets an attribute have.
const maxAttribute = 256

// places are where a caller may say one thing.
func (x *exchange) said(meta, header, query string) string {
	if v, ok := x.meta.Text(meta); ok && v != "" {
		return v
	}
	if x.header != nil && header != "" {
		if v := x.header.Get(header); v != "" {
			return v
		}
	}
	if query != "" {
		return x.query.Get(query)
	}
	return ""
}

// intention makes a call of a request. Its run, step and deadline come from the host, in
// the request's _meta, its headers or the URL; its tenant and actor from who sent it.
func (x *exchange) intention(t *tool, args json.RawMessage) (pawl.Call, *wire.Error) {
	if tenant := x.said(MetaTenant, "Pawl-Tenant", "tenant"); tenant != "" && tenant != x.who.Tenant {
		return pawl.Call{}, invalid("the request names another tenant than its token's")
	}
	call := pawl.Call{
		Tool: t.pawl, Args: strip(args, t.hidden), Tenant: x.who.Tenant, Actor: x.who.Actor,
		Run: x.said(MetaRun, "Pawl-Run", "run"), Step: x.said(MetaStep, "Pawl-Step", "step"), ParentRun: x.said(MetaParentRun, "Pawl-Parent-Run", "parent_run"),
		Again: x.saidAgain(), Attributes: x.attributes(),
	}
	call.Trace, _ = x.meta.Text("traceparent")
	for _, key := range x.g.opts.RunKeys {
		if call.Run != "" {
			break
		}
		call.Run, _ = x.meta.Text(key)
	}
	if call.Run == "" {
		call.Run = x.g.opts.Run
	}
	if call.Run == "" {
		call.Run = x.defaultRun()
	}
	return call, nil
}

func (x *exchange) saidAgain() bool {
	if bytes.Equal(x.meta.Get(MetaAgain), []byte("true")) {
		return true
	}
	return x.header != nil && x.header.Get("Pawl-Again") == "true"
}

// attributes are what the record says of the request beside what it wants.
func (x *exchange) attributes() map[string]string {
	a := map[string]string{"mcp.request_id": string(x.id), "mcp.client": x.name}
	for _, key := range attributeKeys {
		if v, ok := x.meta.Text(key); ok {
			a[key] = v
		}
	}
	for name, value := range a {
		if value == "" || len(value) > maxAttribute {
			delete(a, name)
		}
	}
	return a
}

// deadline is the end of the turn of a call that arrives now.
func (x *exchange) deadline() time.Time {
	left := x.g.budget(x.client)
	ms, _ := strconv.ParseInt(string(x.meta.Get(MetaDeadlineMS)), 10, 64)
	if ms <= 0 && x.header != nil {
		ms, _ = strconv.ParseInt(x.header.Get("Pawl-Deadline-Ms"), 10, 64)
	}
	if ms > 0 && ms < int64(maxTurn/time.Millisecond) {
		left = time.Duration(ms) * time.Millisecond
	}
	return x.arrived.Add(left)
}

// maxTurn is the longest turn that a caller may ask for.
const maxTurn = 10 * time.Minute

// turn is the context of one call of an effect: it has the turn's deadline, and ends with the
// client's wait only as long as the client waits in this request.
func (x *exchange) turn() (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.WithoutCancel(x.ctx), x.deadline())
}
