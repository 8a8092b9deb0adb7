package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway"
	"github.com/pawl-dev/pawl/gateway/wire"
	"github.com/pawl-dev/pawl/server"
)

// patience bounds every wait of a test.
const patience = 20 * time.Second

// front is a pawl with its store, served on loopback.
type front struct {
	t   *testing.T
	url string
	*server.Server
	// stop ends it as a signal does and waits for the end.
	stop func()
}

// serve starts pawl on a contract file until the test ends.
func serve(t *testing.T, file string, o *server.Options) *front {
	t.Helper()
	var opts server.Options
	if o != nil {
		opts = *o
	}
	opts.Config = filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(opts.Config, []byte("version: 1\nstore: pawl.db\n"+file), 0o600); err != nil {
		t.Fatal(err)
	}
	opts.Grace = 2 * time.Second
	opts.Executor.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	opts.Executor.SweepEvery = 20 * time.Millisecond
	s, err := server.Open(t.Context(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	f := &front{t: t, url: "http://" + ln.Addr().String() + "/mcp", Server: s}
	f.stop = sync.OnceFunc(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

// upstreamAt declares one upstream over HTTP.
func upstreamAt(name, url, terms string) string {
	return fmt.Sprintf("upstreams:\n  %s: {url: %q, mcp: {%s}}\n", name, url, terms)
}

// sdkServer serves an SDK server over HTTP: with sessions in the legacy era alone, without
// them in the modern one too.
func sdkServer(t *testing.T, s *mcp.Server, sessions bool) string {
	t.Helper()
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: !sessions}))
	t.Cleanup(web.Close)
	return web.URL
}

// connect connects an SDK client of a revision to a URL until the test ends.
func connect(t *testing.T, url, version string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, o)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	to := &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1, HTTPClient: &http.Client{Transport: ownTransport(t)}}
	session, err := client.Connect(ctx, to, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect, %s: %v", version, err)
	}
	t.Cleanup(func() { _ = session.Close() }) // the server may be gone by then
	return session
}

func ownTransport(t *testing.T) *http.Transport {
	web := &http.Transport{}
	t.Cleanup(web.CloseIdleConnections)
	return web
}

// operation is the envelope in a result's _meta.
func operation(t *testing.T, r *mcp.CallToolResult) pawl.Envelope {
	t.Helper()
	b, err := json.Marshal(r.Meta[gateway.MetaOperation])
	if err != nil {
		t.Fatal(err)
	}
	var env pawl.Envelope
	if err := json.Unmarshal(b, &env); err != nil {
		t.Fatalf("the _meta has no envelope: %v: %s", err, b)
	}
	return env
}

// raw is a client that writes messages as a test wants them, over HTTP.
type raw struct {
	t       *testing.T
	url     string
	token   string
	session string
	web     *http.Transport
}

func rawClient(t *testing.T, url string) *raw { return &raw{t: t, url: url, web: ownTransport(t)} }

// object is a JSON object of a test.
type object = map[string]any

// post sends a body and returns what came: the status, and each message.
func (c *raw) post(ctx context.Context, body string, headers ...string) (int, []object, error) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set(wire.HeaderSession, c.session)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	answer, err := c.web.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	if id := answer.Header.Get(wire.HeaderSession); id != "" {
		c.session = id
	}
	var messages []object
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		events := wire.NewEventReader(answer.Body, 0)
		for {
			e, err := events.Next()
			if err != nil {
				break
			}
			messages = append(messages, c.read(e.Data))
		}
		return answer.StatusCode, messages, nil
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return answer.StatusCode, nil, err
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
		messages = append(messages, c.read(text))
	}
	return answer.StatusCode, messages, nil
}

func (c *raw) read(text []byte) object {
	c.t.Helper()
	m, _ := numbers(c.t, text).(object)
	return m
}

// numbers decodes JSON and keeps numbers as they are spelled.
func numbers(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("no JSON: %v: %s", err, text)
	}
	return v
}

// modern sends a modern request and returns status and last message.
func (c *raw) modern(method string, params object, headers ...string) (int, object) {
	c.t.Helper()
	status, m, err := c.modernIn(c.t.Context(), method, params, headers...)
	if err != nil {
		c.t.Fatal(err)
	}
	return status, m
}

func (c *raw) modernIn(ctx context.Context, method string, params object, headers ...string) (int, object, error) {
	c.t.Helper()
	sent := object{}
	for k, v := range params {
		sent[k] = v
	}
	meta := object{wire.MetaVersion: wire.Version20260728, wire.MetaCapabilities: object{"elicitation": object{}}, wire.MetaClientInfo: object{"name": "raw", "version": "1"}}
	if own, ok := params["_meta"].(object); ok {
		for k, v := range own {
			meta[k] = v
		}
	}
	sent["_meta"] = meta
	all := []string{wire.HeaderVersion, wire.Version20260728, wire.HeaderMethod, method}
	for _, member := range []string{"name", "uri"} {
		if name, ok := params[member].(string); ok {
			all = append(all, wire.HeaderName, name)
		}
	}
	status, messages, err := c.post(ctx, encode(c.t, object{"jsonrpc": "2.0", "id": 1, "method": method, "params": sent}), append(all, headers...)...)
	if err != nil || len(messages) == 0 {
		return status, nil, err
	}
	return status, messages[len(messages)-1], nil
}

// legacy begins a session and sends a legacy request in it.
func (c *raw) legacy(method string, params object, headers ...string) (int, object) {
	c.t.Helper()
	if c.session == "" {
		hello := object{"protocolVersion": wire.Version20251125, "capabilities": object{}, "clientInfo": object{"name": "raw", "version": "1"}}
		if status, _, err := c.post(c.t.Context(), encode(c.t, object{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})); err != nil || status != http.StatusOK {
			c.t.Fatalf("initialize: %d, %v", status, err)
		}
	}
	status, messages, err := c.post(c.t.Context(), encode(c.t, object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), headers...)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(messages) == 0 {
		return status, nil
	}
	return status, messages[len(messages)-1]
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// member goes down into a message.
func member(m any, path ...string) any {
	for _, name := range path {
		o, _ := m.(object)
		m = o[name]
	}
	return m
}

// shop is an SDK server that counts what its tools do. Its effects wait where a test says so.
type shop struct {
	*mcp.Server
	orders atomic.Int32
	// arrived gets a word when an order comes; it then waits for one from go on. Both are nil
	// where nobody waits.
	arrived, goOn chan struct{}
	once          sync.Once
}

func newShop(wait bool) *shop {
	s := &shop{Server: mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)}
	if wait {
		s.arrived, s.goOn = make(chan struct{}, 16), make(chan struct{})
	}
	type order struct {
		ID string `json:"id"`
	}
	mcp.AddTool(s.Server, &mcp.Tool{Name: "order"}, func(ctx context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
		n := s.orders.Add(1)
		if s.arrived != nil {
			s.arrived <- struct{}{}
			select {
			case <-s.goOn:
			case <-time.After(patience):
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("order %s is number %d", in.ID, n)}}}, nil, nil
	})
	return s
}

// release lets every order go on.
func (s *shop) release() { s.once.Do(func() { close(s.goOn) }) }
