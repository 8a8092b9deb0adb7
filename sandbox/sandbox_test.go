package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/sandbox"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(serveChild())
	}
	goleak.VerifyTestMain(m)
}

// world is a sandbox that serves on a loopback port, with a clock that stands still.
type world struct {
	*sandbox.Sandbox
	t   *testing.T
	url string
}

// epoch is where the clock of a world stands.
var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func setup(t *testing.T, o *sandbox.Options) *world {
	t.Helper()
	if o == nil {
		o = &sandbox.Options{}
	}
	if o.Clock == nil {
		o.Clock = func() time.Time { return epoch }
	}
	s, err := sandbox.Open(o)
	if err != nil {
		t.Fatalf("open sandbox: %v", err)
	}
	return serve(t, s)
}

func serve(t *testing.T, s *sandbox.Sandbox) *world {
	t.Helper()
	return &world{Sandbox: s, t: t, url: listen(t, s)}
}

// listen serves s until the test ends and then closes it.
func listen(t testing.TB, s *sandbox.Sandbox) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: got %v, want nil", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: got %v, want nil", err)
		}
	})
	return "http://" + ln.Addr().String()
}

// seen is what a client observed of one request.
type seen struct {
	status int
	header http.Header
	body   []byte
	err    error // of the round trip or of reading the body
}

func (s seen) field(name string) any {
	var m map[string]any
	if json.Unmarshal(s.body, &m) != nil {
		return nil
	}
	return m[name]
}

func (s seen) code() string {
	e, _ := s.field("error").(map[string]any)
	code, _ := e["code"].(string)
	return code
}

func (s seen) String() string {
	return fmt.Sprintf("status %d, body %q, error %v", s.status, s.body, s.err)
}

type header map[string]string

// send makes one request on a connection of its own. A body that is no string is sent as
// JSON.
func (w *world) send(method, path string, body any, h header) seen {
	w.t.Helper()
	return send(w.t, w.url, method, path, body, h)
}

func send(t *testing.T, url, method, path string, body any, h header) seen {
	t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range h {
		r.Header.Set(k, v)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return seen{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return seen{status: resp.StatusCode, header: resp.Header, body: raw, err: err}
}

// effects returns the landed effects that f selects.
func (w *world) effects(f sandbox.Filter) []sandbox.Effect {
	w.t.Helper()
	list, err := w.Effects(f)
	if err != nil {
		w.t.Fatalf("effects: %v", err)
	}
	return list
}

func (w *world) wantEffects(want int, f sandbox.Filter) {
	w.t.Helper()
	if got := w.effects(f); len(got) != want {
		w.t.Fatalf("effects %+v: got %d, want %d: %+v", f, len(got), want, got)
	}
}

func (w *world) requests(f sandbox.Filter) []sandbox.Request {
	w.t.Helper()
	list, err := w.Requests(f)
	if err != nil {
		w.t.Fatalf("requests: %v", err)
	}
	return list
}

func (w *world) advance(d time.Duration) {
	w.t.Helper()
	if err := w.Advance(d); err != nil {
		w.t.Fatal(err)
	}
}

// setMode changes the mode of one service.
func (w *world) setMode(service string, change func(*sandbox.Mode)) {
	w.t.Helper()
	m := w.Modes()[service]
	change(&m)
	if err := w.SetModes(map[string]sandbox.Mode{service: m}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantStatus(got seen, status int, code string) seen {
	w.t.Helper()
	if got.err != nil || got.status != status || got.code() != code {
		w.t.Fatalf("got %v, want status %d and code %q", got, status, code)
	}
	return got
}

func (w *world) awaitHeld(n int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.AwaitHeld(ctx, n); err != nil {
		w.t.Fatal(err)
	}
}

var refundBody = map[string]any{"order_id": "A-1182", "amount": "49.90", "currency": "EUR", "reason": "damaged"}

func keyed(key string) header { return header{"Idempotency-Key": key} }

func TestRefund(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	got := w.wantStatus(w.send("POST", "/v1/refunds", refundBody, header{"Idempotency-Key": "k1", "Pawl-Run": "run-7", "Pawl-Step": "3"}), 201, "")
	if got.field("amount") != "49.90" || got.field("status") != "succeeded" {
		t.Errorf("got refund %s", got.body)
	}
	list := w.effects(sandbox.Filter{Kind: "refund.create"})
	if len(list) != 1 {
		t.Fatalf("got %d effects, want 1", len(list))
	}
	e := list[0]
	want := sandbox.Effect{
		Seq: e.Seq, At: epoch, LandAt: epoch, Service: "refunds", Kind: "refund.create", ObjectID: got.field("id").(string),
		Subject: "A-1182", Amount: 4990, Currency: "EUR", Key: "k1", Request: e.Request, Fingerprint: e.Fingerprint, Run: "run-7", Step: "3",
	}
	if e != want {
		t.Errorf("got effect %+v, want %+v", e, want)
	}
	q := w.requests(sandbox.Filter{Key: "k1"})
	if len(q) != 1 || q[0].Seq != e.Request || q[0].Status != 201 || q[0].Answer != "201" || q[0].Outcome != "done" || q[0].Effect != e.Seq || q[0].Fingerprint == "" {
		t.Errorf("got requests %+v", q)
	}
	w.wantStatus(w.send("POST", "/v1/refunds", map[string]any{"order_id": "A-1182", "amount": 0.01, "currency": "EUR"}, nil), 422, "amount_exceeds_charge")
	w.wantEffects(1, sandbox.Filter{})

	byKey := w.wantStatus(w.send("GET", "/v1/refunds?key=k1&order_id=A-1182", nil, nil), 200, "")
	if n := len(byKey.field("data").([]any)); n != 1 {
		t.Errorf("list by key: got %d, want 1", n)
	}
	charges := w.wantStatus(w.send("GET", "/v1/charges?order_id=A-1182", nil, nil), 200, "")
	c := charges.field("data").([]any)[0].(map[string]any)
	if c["status"] != "refunded" || c["refunded"] != "49.90" {
		t.Errorf("got charge %v, want refunded 49.90", c)
	}
}
