package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway"
	"github.com/pawl-dev/pawl/gateway/wire"
	"github.com/pawl-dev/pawl/server"
)

func callOrder(id string) object {
	return object{"name": "order", "arguments": object{"id": id}}
}

// TestHangUp: a client that hangs up in the middle of a call ends nothing. It asks again, in
// another connection and, in the legacy era, another session, and gets the answer of the one
// effect.
func TestHangUp(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern %v", modern), func(t *testing.T) {
			t.Parallel()
			s := newShop(true)
			defer s.release()
			f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), ""), nil)
			ctx, hangUp := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			first := rawClient(t, f.url)
			if !modern {
				first.legacy(wire.MethodListTools, object{})
			}
			go func() {
				var err error
				if modern {
					_, _, err = first.modernIn(ctx, wire.MethodCallTool, callOrder("A-1"))
				} else {
					_, _, err = first.post(ctx, encode(t, object{"jsonrpc": "2.0", "id": 1, "method": wire.MethodCallTool, "params": callOrder("A-1")}))
				}
				gone <- err
			}()
			<-s.arrived
			hangUp()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v, want a connection that was given up", err)
			}
			answer := make(chan object, 1)
			go func() {
				c := rawClient(t, f.url)
				ask := c.legacy
				if modern {
					ask = c.modern
				}
				_, m := ask(wire.MethodCallTool, callOrder("A-1"))
				answer <- m
			}()
			s.release()
			m := <-answer
			if got := member(m, "result", "_meta", gateway.MetaOperation, "status"); got != "SUCCEEDED" {
				t.Errorf("got %v in %v, want SUCCEEDED", got, m)
			}
			if n := s.orders.Load(); n != 1 {
				t.Errorf("got %d orders, want 1", n)
			}
		})
	}
}

// TestOpenCallsOfUndeclaredTools: what a gateway leaves open is settled by the next one,
// although nobody has declared the tool and nobody calls.
func TestOpenCallsOfUndeclaredTools(t *testing.T) {
	t.Parallel()
	s := newShop(true)
	defer s.release()
	file := upstreamAt("shop", sdkServer(t, s.Server, false), "")
	store := filepath.Join(t.TempDir(), "pawl.db")
	first := serve(t, file, &server.Options{Store: store})
	hung, hangUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _, _ = rawClient(t, first.url).modernIn(hung, wire.MethodCallTool, callOrder("A-1")) // cut off by the end
	}()
	<-s.arrived
	hangUp()
	<-gone
	first.stop()
	second := serve(t, file, &server.Options{Store: store})
	for end := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		ops, err := second.Store().Find(t.Context(), pawl.Query{Review: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(ops) == 1 && ops[0].Tool == "shop/order" && ops[0].Status == pawl.Unknown {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("got %d operations before a person, want the one that is open", len(ops))
		}
	}
	if !slices.ContainsFunc(second.Executor().Contracts(), func(c pawl.Contract) bool { return c.Tool == "shop/order" }) {
		t.Error("the tool of an open operation is not known")
	}
}

// TestBudget: a caller is told what is known when its time is over, and shown meanwhile that
// it is waited for; the late answer settles the record.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := newShop(true)
	defer s.release()
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), ""), &server.Options{
		Gateway:  &gateway.Options{Budgets: map[string]time.Duration{"raw": 1500 * time.Millisecond}, Beat: 50 * time.Millisecond},
		Executor: pawl.Options{Reserve: 100 * time.Millisecond},
	})
	c := rawClient(t, f.url)
	c.legacy(wire.MethodListTools, object{})
	params := callOrder("A-1")
	params["_meta"] = object{"progressToken": "p1", "dev.pawl/run": "run-7", "claudecode/toolUseId": "toolu_1"}
	_, messages, err := c.post(t.Context(), encode(t, object{"jsonrpc": "2.0", "id": 1, "method": wire.MethodCallTool, "params": params}))
	if err != nil {
		t.Fatal(err)
	}
	last := -1.0
	for _, m := range messages[:len(messages)-1] {
		n, err := member(m, "params", "progress").(json.Number).Float64()
		if m["method"] != wire.NotifyProgress || member(m, "params", "progressToken") != "p1" || err != nil || n <= last {
			t.Errorf("got %v, want growing progress under the caller's token", m)
		}
		last = n
	}
	if len(messages) < 3 {
		t.Errorf("got %d messages, want progress before the answer", len(messages))
	}
	answer := messages[len(messages)-1]
	env, _ := member(answer, "result", "_meta", gateway.MetaOperation).(object)
	if env["status"] != "PENDING" && env["status"] != "UNKNOWN" {
		t.Fatalf("got %v, want what is known", answer)
	}
	if env["retry_safe"] != false {
		t.Errorf("got %v, want no repeat advised", env)
	}
	s.release()
	id := env["operation_id"].(string)
	status := func() string {
		_, m := c.legacy(wire.MethodCallTool, object{"name": "pawl_status", "arguments": object{"operation_id": id}})
		var env pawl.Envelope
		text := member(m, "result", "content").([]any)[0].(object)["text"].(string)
		if err := json.Unmarshal([]byte(text), &env); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return string(env.Status)
	}
	for end := time.Now().Add(patience); status() != "SUCCEEDED"; {
		if time.Now().After(end) {
			t.Fatalf("got %s, want the late answer to settle it", status())
		}
		<-time.After(10 * time.Millisecond)
	}
	pid, err := pawl.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	op, err := f.Store().Get(t.Context(), "", pid)
	if err != nil {
		t.Fatal(err)
	}
	if op.Run != "run-7" || op.Attributes["claudecode/toolUseId"] != "toolu_1" || op.Attributes["mcp.client"] != "raw" {
		t.Errorf("got run %q and attributes %v", op.Run, op.Attributes)
	}
}

// TestPlacesOfRunAndStep: the host says run and step in _meta, a header, the URL or a key of
// a known client, in this order; where it says none the client is its own run.
func TestPlacesOfRunAndStep(t *testing.T) {
	t.Parallel()
	s := newShop(false)
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), ""), nil)
	for i, c := range []struct {
		query     string
		meta      object
		headers   []string
		run, step string
	}{
		{"?run=u&step=us", object{"dev.pawl/run": "m", "dev.pawl/step": "ms"}, []string{"Pawl-Run", "h", "Pawl-Step", "hs"}, "m", "ms"},
		{"?run=u&step=us", object{"vscode.conversationId": "v"}, []string{"Pawl-Run", "h", "Pawl-Step", "hs"}, "h", "hs"},
		{"?run=u&step=us", object{"vscode.conversationId": "v"}, nil, "u", "us"},
		{"", object{"vscode.conversationId": "v"}, nil, "v", ""},
		{"", nil, nil, "mcp::raw", ""},
	} {
		params := callOrder(fmt.Sprint(i))
		if c.meta != nil {
			params["_meta"] = c.meta
		}
		_, m := rawClient(t, f.url+c.query).modern(wire.MethodCallTool, params, c.headers...)
		id, err := pawl.ParseID(fmt.Sprint(member(m, "result", "_meta", gateway.MetaOperation, "operation_id")))
		if err != nil {
			t.Fatalf("case %d: %v in %v", i, err, m)
		}
		op, err := f.Store().Get(t.Context(), "", id)
		if err != nil {
			t.Fatal(err)
		}
		if op.Run != c.run || op.Step != c.step {
			t.Errorf("case %d: got run %q step %q, want %q %q", i, op.Run, op.Step, c.run, c.step)
		}
	}
}

// tokensFile lets two tenants in and returns their tokens.
func tokensFile(t *testing.T) (path, acme, other string) {
	t.Helper()
	var lines []string
	make := func(tenant string) string {
		token, line, err := server.NewToken(server.Grant{Tenant: tenant, Actor: "agent", Scopes: []string{"call"}})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
		return token
	}
	acme, other = make("acme"), make("other")
	path = filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, acme, other
}

// TestTenantsAreApart: a tenant sees neither the operations nor the sessions nor the waiting
// calls of another, and cannot name another as its own.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	s := newShop(false)
	path, acme, other := tokensFile(t)
	f := serve(t, upstreamAt("shop", sdkServer(t, s.Server, false), "")+
		"tools:\n  shop/order: {upstream: shop, identity: [id], confirm: {when: 'args.id == \"asked\"'}}\n", &server.Options{Tokens: path})
	as := func(token string) *raw {
		c := rawClient(t, f.url)
		c.token = token
		return c
	}
	if status, _ := as("").modern(wire.MethodListTools, nil); status != http.StatusUnauthorized {
		t.Errorf("without a token: got %d, want 401", status)
	}
	_, m := as(acme).modern(wire.MethodCallTool, callOrder("A-1"))
	id := fmt.Sprint(member(m, "result", "_meta", gateway.MetaOperation, "operation_id"))
	ask := object{"name": "pawl_status", "arguments": object{"operation_id": id}}
	if _, m := as(acme).modern(wire.MethodCallTool, ask); member(m, "result", "isError") != nil {
		t.Errorf("its own operation: got %v", m)
	}
	if _, m := as(other).modern(wire.MethodCallTool, ask); member(m, "result", "isError") != true || strings.Contains(encode(t, m), "A-1") {
		t.Errorf("another's operation: got %v, want that there is none", m)
	}
	if _, m := as(other).modern(wire.MethodCallTool, callOrder("A-1")); member(m, "result", "_meta", gateway.MetaOperation, "action_taken") != "executed" {
		t.Errorf("the same call of another tenant: got %v, want an effect of its own", m)
	}
	params := callOrder("A-1")
	params["_meta"] = object{"dev.pawl/tenant": "acme"}
	if _, m := as(other).modern(wire.MethodCallTool, params); member(m, "error", "code") != json.Number("-32602") {
		t.Errorf("another tenant named: got %v, want it refused", m)
	}

	mine := as(acme)
	mine.legacy(wire.MethodListTools, object{})
	theirs := as(other)
	theirs.session = mine.session
	if status, _ := theirs.legacy(wire.MethodListTools, object{}); status != http.StatusNotFound {
		t.Errorf("another's session: got %d, want 404", status)
	}

	_, asked := as(acme).modern(wire.MethodCallTool, callOrder("asked"))
	state, _ := member(asked, "result", "requestState").(string)
	if state == "" {
		t.Fatalf("got %v, want a question", asked)
	}
	yes := callOrder("asked")
	yes["requestState"] = state
	yes["inputResponses"] = object{"pawl-1": object{"action": "accept", "content": object{"confirm": true}}}
	if _, m := as(other).modern(wire.MethodCallTool, yes); member(m, "error", "code") != json.Number("-32602") {
		t.Errorf("another's question: got %v, want it refused", m)
	}
	if n := s.orders.Load(); n != 2 {
		t.Errorf("got %d orders, want 2", n)
	}
}
