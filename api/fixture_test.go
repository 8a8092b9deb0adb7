package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/sqlite"
)

// shopContract has a tool that can be asked by its key, one that cannot be asked at all,
// and a read.
const shopContract = `version: 1
upstreams:
  shop: { url: "http://127.0.0.1:4110" }
tools:
  issue_refund:
    upstream: shop
    class: keyed
    effect: refund of {amount} {currency} on order {order_id}
    request: { method: POST, path: /v1/refunds, body: args }
    identity: { order_id: text, currency: upper }
    free: [reason]
    key: { carrier: header, name: Idempotency-Key }
    retention: 24h
    result_ref: /id
    probe:
      request: { path: /v1/refunds, query: { key: key } }
      by: key
      match: response.body.data
      complete: "!response.body.has_more"
      ref: match.id
      lag: 0s
      negative_proof: after_quiescence
    timeout: 500ms
    linger: 1s
  send_email:
    upstream: shop
    class: unsafe
    effect: mail to {to}
    request: { method: POST, path: /v1/emails, body: args }
    identity: { to: lower }
    free: [subject]
    timeout: 500ms
    linger: 1s
`

// site is the API over real HTTP with an executor, a store on disk, and the sandbox as
// the provider behind it.
type site struct {
	*client
	box  *sandbox.Sandbox
	db   *sqlite.DB
	ex   *pawl.Executor
	feed *Feed
	door *door
	stop chan struct{}
}

// setting changes what a site is made of before it is made.
type setting struct {
	api      Options
	feed     FeedOptions
	executor pawl.Options
	tools    []*pawl.Tool // instead of the shop's
}

func open(t *testing.T, change func(*setting)) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{stop: make(chan struct{})}
	quiet := slog.New(slog.DiscardHandler)
	set := setting{api: Options{Log: quiet, Stopping: s.stop}, executor: pawl.Options{Log: quiet, SweepEvery: 50 * time.Millisecond}}
	if change != nil {
		change(&set)
	}
	var err error
	if s.db, err = sqlite.Open(filepath.Join(dir, "pawl.db"), &sqlite.Options{WALSize: 1 << 20, Reserve: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	s.feed = NewFeed(&set.feed)
	set.api.Feed = s.feed
	set.api.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		io.WriteString(w, "pawl_open_complete 1\n")
	})
	set.executor.Observers = append(set.executor.Observers, s.feed.Observer())
	s.ex = pawl.New(s.db, &set.executor)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.ex.Stop(ctx)
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if set.tools == nil {
		set.tools = s.shop(t, dir)
	}
	if err := s.ex.Register(set.tools...); err != nil {
		t.Fatal(err)
	}
	s.door = newDoor(s.ex, s.db, &set.api)
	server := httptest.NewServer(s.door.handler())
	t.Cleanup(server.Close)
	s.client = newClient(t, server.URL)
	return s
}

// shop starts the sandbox and returns its tools.
func (s *site) shop(t *testing.T, dir string) []*pawl.Tool {
	t.Helper()
	var err error
	if s.box, err = sandbox.Open(&sandbox.Options{Ledger: filepath.Join(dir, "ledger.db")}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.box.Serve(ctx, ln) }()
	t.Cleanup(func() {
		s.box.Release(0)
		stop()
		if err := errors.Join(<-served, s.box.Close()); err != nil {
			t.Error(err)
		}
	})
	file, err := contract.Parse("pawl.yaml", []byte(strings.ReplaceAll(shopContract, "http://127.0.0.1:4110", "http://"+ln.Addr().String())), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Close)
	list, err := file.Tools()
	if err != nil {
		t.Fatal(err)
	}
	tools := make([]*pawl.Tool, len(list))
	for i := range list {
		tools[i] = &list[i]
	}
	return tools
}

func (s *site) fault(t *testing.T, service, line string) {
	t.Helper()
	if _, err := s.box.AddFault(sandbox.QueuedFault{Match: sandbox.Match{Service: service, Method: "POST"}, Line: line}); err != nil {
		t.Fatal(err)
	}
}

// effects counts what the provider's own ledger has.
func (s *site) effects(t *testing.T, want int) {
	t.Helper()
	list, err := s.box.Effects(sandbox.Filter{Pending: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != want {
		t.Errorf("got %d effects in the ledger, want %d: %v", len(list), want, list)
	}
}

// held waits until the provider holds a request.
func (s *site) held(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.box.AwaitHeld(ctx, 1); err != nil {
		t.Fatal(err)
	}
}

// client speaks to a site and holds every exchange to the published document.
type client struct {
	url   string
	token string
	doc   *document
}

func newClient(t *testing.T, url string) *client {
	t.Helper()
	return &client{url: url, doc: readDocument(t, url)}
}

// as is the same client with a token.
func (c *client) as(token string) *client { return &client{url: c.url, token: token, doc: c.doc} }

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   string
}

func (c *client) request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r
}

func (c *client) do(t *testing.T, method, path, body string) reply {
	t.Helper()
	return c.send(t, c.request(t, method, path, body), body)
}

func (c *client) send(t *testing.T, r *http.Request, body string) reply {
	t.Helper()
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := reply{answer.StatusCode, answer.Header, string(raw)}
	c.doc.check(t, r, body, &got)
	return got
}

// call makes a call and returns its envelope.
func (c *client) call(t *testing.T, body string) pawl.Envelope {
	t.Helper()
	var env pawl.Envelope
	c.do(t, "POST", "/v1/calls", body).into(t, http.StatusOK, &env)
	return env
}

// into reads an answer of the wanted status.
func (r reply) into(t *testing.T, status int, v any) {
	t.Helper()
	if r.status != status {
		t.Fatalf("got %d %s, want %d", r.status, r.body, status)
	}
	decode(t, r.body, v)
}

// wants checks that an answer is a problem.
func (r reply) wants(t *testing.T, status int, code Code) Problem {
	t.Helper()
	var p Problem
	if r.status == status {
		decode(t, r.body, &p)
	}
	if r.status != status || p.Code != code || p.Status != status || r.header.Get("Content-Type") != problemType {
		t.Errorf("got %d %s %s, want a problem %d %s", r.status, r.header.Get("Content-Type"), r.body, status, code)
	}
	return p
}

func wantEnvelope(t *testing.T, env pawl.Envelope, status pawl.Status, reason pawl.Reason, action pawl.ActionTaken) {
	t.Helper()
	if env.Status != status || reason != "" && env.Reason != reason || action != "" && env.ActionTaken != action {
		t.Errorf("got %s %s %s (%s), want %s %s %s", env.Status, env.Reason, env.ActionTaken, env.Message, status, reason, action)
	}
}
