package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/storetest"
)

// TestMovesThroughThePreset: against the service with the receiver a lost answer is found, a
// lost request is fenced, and neither asks a person.
func TestMovesThroughThePreset(t *testing.T) {
	t.Parallel()
	box, err := sandbox.Open(&sandbox.Options{NoDemo: true})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(box.Handler())
	f, err := contract.Parse("pawl.yaml", []byte(`version: 1
upstreams:
  stock: {url: `+server.URL+`}
tools:
  move:
    use: pawl-receiver/operation
    upstream: stock
    identity: [move_id]
    request: {path: /v1/stock/moves}
    probe: {request: {path: "/v1/stock/moves/{key}"}, lag: 0s} # one clock
    fence: {request: {path: "/v1/stock/moves/{key}"}}
    not_after: {after: 1s}
    timeout: 500ms
    linger: 100ms
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	ex := pawl.New(storetest.NewMemory(), &pawl.Options{SweepEvery: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	if err := ex.Register(&tools[0]); err != nil {
		t.Fatal(err)
	}
	ex.Start()
	t.Cleanup(func() {
		ex.Stop(context.Background())
		f.Close()
		if err := box.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	for i, fault := range []string{"reset after", "reset before", "status 500 after", "html 502 before"} {
		if _, err := box.AddFault(sandbox.QueuedFault{Line: fault, Match: sandbox.Match{Path: "/v1/stock/moves"}}); err != nil {
			t.Fatal(err)
		}
		var env pawl.Envelope
		for until := time.Now().Add(30 * time.Second); env.Status != pawl.Succeeded && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			env, err = ex.Do(t.Context(), pawl.Call{Tool: "move", Run: "run", Step: fault, Args: []byte(`{"sku":"A","delta":1,"move_id":"` + fault + `"}`)})
			if err != nil {
				t.Fatal(err)
			}
			if env.Reason == pawl.ReasonReviewOpen {
				t.Fatalf("%s: a person is asked", fault)
			}
		}
		if effects, err := box.Effects(sandbox.Filter{Kind: "stock.adjust"}); err != nil || len(effects) != i+1 {
			t.Errorf("%s: got %s and %d effects, %v; want %d", fault, env.Status, len(effects), err, i+1)
		}
	}
}

// A fence on a key that never came refuses it for good.
func TestMovesFence(t *testing.T) {
	t.Parallel()
	box, err := sandbox.Open(&sandbox.Options{NoDemo: true})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(box.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	do := func(method, path, key, body string) (int, map[string]any) {
		t.Helper()
		r, err := http.NewRequest(method, server.URL+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Idempotency-Key", `"`+key+`"`)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, _ := io.ReadAll(res.Body)
		var v map[string]any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("got %d %s", res.StatusCode, raw)
		}
		return res.StatusCode, v
	}
	const move = `{"sku":"A","delta":1}`
	for _, c := range []struct {
		method, path, key, body string
		status                  int
		field, want             string
	}{
		{"GET", "/v1/stock/moves/k", "", "", 200, "state", "absent"},
		{"GET", "/v1/stock/moves/k?fence=1", "", "", 200, "state", "fenced"},
		{"POST", "/v1/stock/moves", "k", move, 409, "code", "key_fenced"},
		{"POST", "/v1/stock/moves", "", move, 400, "code", "idempotency_key_required"},
		{"POST", "/v1/stock/moves", "l", move, 201, "status", "done"},
		{"POST", "/v1/stock/moves", "l", move, 201, "status", "done"},
		{"POST", "/v1/stock/moves", "l", `{"sku":"A","delta":2}`, 422, "code", "idempotency_conflict"},
		{"GET", "/v1/stock/moves/l?fence=1", "", "", 200, "state", "done"},
	} {
		if status, got := do(c.method, c.path, c.key, c.body); status != c.status || got[c.field] != c.want {
			t.Errorf("%s %s %s: got %d %v, want %d %s %s", c.method, c.path, c.key, status, got, c.status, c.field, c.want)
		}
	}
	if effects, err := box.Effects(sandbox.Filter{}); err != nil || len(effects) != 1 {
		t.Errorf("got %d effects, %v; want 1", len(effects), err)
	}
}
