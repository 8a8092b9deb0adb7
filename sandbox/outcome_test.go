package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/sandbox"
)

// await polls until ok holds. The clock of a world stands still, so nothing else moves.
func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(15 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			w.t.Fatalf("%s: did not come", what)
		}
	}
}

// outcome returns the one request with the key.
func (w *world) request(key string) sandbox.Request {
	w.t.Helper()
	list := w.requests(sandbox.Filter{Key: key})
	if len(list) == 0 {
		return sandbox.Request{}
	}
	return list[0]
}

// inBackground sends a request that waits for something.
func (w *world) inBackground(method, path string, body any, h header) <-chan seen {
	w.t.Helper()
	done := make(chan seen, 1)
	go func() { done <- w.send(method, path, body, h) }()
	return done
}

func wantReset(t *testing.T, got seen) {
	t.Helper()
	if !errors.Is(got.err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a connection reset", got)
	}
}

func wantEOF(t *testing.T, got seen) {
	t.Helper()
	if !errors.Is(got.err, io.EOF) || got.status != 0 {
		t.Errorf("got %v, want EOF without an answer", got)
	}
}

func wantHTML(status int) func(*testing.T, seen) {
	return func(t *testing.T, got seen) {
		t.Helper()
		if got.err != nil || got.status != status || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") || !strings.HasPrefix(string(got.body), "<!DOCTYPE") {
			t.Errorf("got %v, want an HTML page with status %d", got, status)
		}
	}
}

func wantCode(status int, code string) func(*testing.T, seen) {
	return func(t *testing.T, got seen) {
		t.Helper()
		if got.err != nil || got.status != status || got.code() != code {
			t.Errorf("got %v, want status %d and code %q", got, status, code)
		}
	}
}

// Each fault that acts at once, by header and by queue: what the client sees, how many
// effects there are, and what the log of requests says.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		line    string
		effects int
		answer  string
		see     func(*testing.T, seen)
	}{
		{"refuse", 0, "refused", wantReset},
		{"reset before", 0, "reset", wantReset},
		{"reset after", 1, "reset", wantReset},
		{"fin before", 0, "fin", wantEOF},
		{"fin after", 1, "fin", wantEOF},
		{"status 503 before", 0, "503", wantCode(503, "unavailable")},
		{"status 500 after", 1, "500", wantCode(500, "service_failed")},
		{"status 429 before", 0, "429", wantCode(429, "rate_limited")},
		{"html 200 after", 1, "200", wantHTML(200)},
		{"html 502 before", 0, "502", wantHTML(502)},
		{"empty 201 after", 1, "201", func(t *testing.T, got seen) {
			if got.err != nil || got.status != 201 || len(got.body) != 0 || got.header.Get("Content-Length") != "0" {
				t.Errorf("got %v, want an empty 201", got)
			}
		}},
		{"empty 204 after", 1, "204", func(t *testing.T, got seen) {
			if got.err != nil || got.status != 204 || len(got.body) != 0 {
				t.Errorf("got %v, want an empty 204", got)
			}
		}},
		{"garbage after", 1, "201", func(t *testing.T, got seen) {
			if got.err != nil || got.status != 201 || json.Valid(got.body) || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("got %v, want a body that is no JSON", got)
			}
		}},
		{"cut 12 after", 1, "cut 12", func(t *testing.T, got seen) {
			if !errors.Is(got.err, io.ErrUnexpectedEOF) || got.status != 201 || len(got.body) != 12 {
				t.Errorf("got %v, want 12 bytes of a 201", got)
			}
		}},
		{"cut 0 after", 1, "cut 0", func(t *testing.T, got seen) {
			if !errors.Is(got.err, io.ErrUnexpectedEOF) || got.status != 201 || len(got.body) != 0 {
				t.Errorf("got %v, want no byte of a 201", got)
			}
		}},
		{"slow body 1000B/s", 1, "201", func(t *testing.T, got seen) {
			if got.err != nil || got.status != 201 || !json.Valid(got.body) {
				t.Errorf("got %v, want a whole 201", got)
			}
		}},
		{"duplicate", 1, "201", wantCode(201, "")},
		{"duplicate; reset after", 1, "reset", wantReset},
		{"accept 202 fails 10s", 0, "202", wantCode(202, "")},
	} {
		for _, queued := range []bool{false, true} {
			name := "header " + tc.line
			if queued {
				name = "queue " + tc.line
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := setup(t, nil)
				h := keyed("k1")
				if queued {
					match := sandbox.Match{Service: "refunds", Method: "POST", Path: "/v1/*", Key: "k1"}
					if _, err := w.AddFault(sandbox.QueuedFault{Match: match, Line: tc.line}); err != nil {
						t.Fatal(err)
					}
					w.wantStatus(w.send("POST", "/v1/refunds", map[string]any{"order_id": "A-1183", "amount": "1", "currency": "EUR"}, keyed("k0")), 201, "")
				} else {
					h["Pawl-Sandbox-Fault"] = tc.line
				}
				tc.see(t, w.send("POST", "/v1/refunds", refundBody, h))
				w.wantEffects(tc.effects, sandbox.Filter{Key: "k1"})
				q := w.request("k1")
				if q.Answer != tc.answer || q.Fault != tc.line {
					t.Errorf("got request %+v, want answer %q and fault %q", q, tc.answer, tc.line)
				}
				if queued {
					left, err := w.Faults()
					if err != nil || len(left) != 0 {
						t.Errorf("got queue %v, %v; want it empty", left, err)
					}
				}
			})
		}
	}
}

// Refuse answers the headers with RST: the body need not have come.
func TestRefuseDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	for _, queued := range []bool{false, true} {
		w := setup(t, nil)
		line := "Pawl-Sandbox-Fault: refuse\r\n"
		if queued {
			line = ""
			if _, err := w.AddFault(sandbox.QueuedFault{Line: "refuse", Match: sandbox.Match{Key: "k1"}}); err != nil {
				t.Fatal(err)
			}
		}
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST /v1/emails HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k1\r\n%sContent-Type: application/json\r\nContent-Length: 10\r\n\r\n", line); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("queued %v: got %v, want a connection reset", queued, err)
		}
		if q := w.request("k1"); q.Answer != "refused" || q.Bytes != 0 {
			t.Errorf("queued %v: got %+v, want it refused unread", queued, q)
		}
	}
}

// A client that goes away in the middle of its body leaves a trace and no effect.
func TestBodyThatDoesNotArriveWhole(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /v1/emails HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"to\":"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	w.await("trace", func() bool { return w.request("k1").Answer == "unread" })
	w.wantEffects(0, sandbox.Filter{})
}

func TestFaultOnRead(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	const path = "/v1/charges?order_id=A-1182"
	fault := func(line string) seen { return w.send("GET", path, nil, header{"Pawl-Sandbox-Fault": line}) }
	wantReset(t, fault("reset before"))
	wantReset(t, fault("refuse"))
	wantEOF(t, fault("fin after"))
	wantCode(503, "unavailable")(t, fault("status 503 before"))
	wantHTML(200)(t, fault("html 200 after"))
	if got := fault("cut 5 after"); !errors.Is(got.err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want a cut body", got)
	}
	for _, line := range []string{"work 1s", "accept 202 lands 1s", "duplicate", "edge 503 work 1s"} {
		got := w.wantStatus(fault(line), 400, "fault_invalid")
		if !strings.Contains(string(got.body), "the grammar is") {
			t.Errorf("got %s, want the grammar in it", got.body)
		}
		if _, err := w.AddFault(sandbox.QueuedFault{Line: line}); err != nil {
			t.Fatal(err)
		}
	}
	w.wantStatus(w.send("GET", path, nil, nil), 200, "") // none of the queued ones fits a read
	if left, err := w.Faults(); err != nil || len(left) != 4 {
		t.Errorf("got queue %v, %v; want all 4 left", left, err)
	}
	w.wantStatus(fault("nonsense"), 400, "fault_invalid")
	w.wantEffects(0, sandbox.Filter{})
}

func TestDelayBefore(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	h := keyed("k1")
	h["Pawl-Sandbox-Fault"] = "delay 3s before"
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", w.url+"/v1/refunds", strings.NewReader(`{"order_id":"A-1182","amount":"49.90","currency":"EUR"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for k, v := range h {
		r.Header.Set(k, v)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	done := make(chan error, 1)
	go func() {
		resp, err := tr.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	w.await("arrival", func() bool { return w.request("k1").Fault != "" })
	cancel() // the client gives up while its request is still on the way
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a cancelled request", err)
	}
	w.wantEffects(0, sandbox.Filter{Pending: true})
	w.await("late landing", func() bool {
		w.advance(time.Second)
		return len(w.effects(sandbox.Filter{Key: "k1"})) == 1
	})
	if e := w.effects(sandbox.Filter{Key: "k1"})[0]; e.At.Before(epoch.Add(3 * time.Second)) {
		t.Errorf("got the effect at %v, want it 3s late", e.At)
	}
}

func TestDelayAfter(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	h := keyed("k1")
	h["Pawl-Sandbox-Fault"] = "delay 3s after; status 500 after"
	done := w.inBackground("POST", "/v1/refunds", refundBody, h)
	w.await("work", func() bool { return w.request("k1").Outcome == "done" })
	w.wantEffects(1, sandbox.Filter{Key: "k1"})
	if q := w.request("k1"); q.Answer != "" {
		t.Errorf("got answer %q before the delay is over, want none", q.Answer)
	}
	// The key is known already: a second request is answered while the first one waits.
	got := w.wantStatus(w.send("POST", "/v1/refunds", refundBody, keyed("k1")), 201, "")
	if got.header.Get("Idempotent-Replayed") != "true" {
		t.Error("got no Idempotent-Replayed header")
	}
	w.advance(3 * time.Second)
	w.wantStatus(<-done, 500, "service_failed")
	w.wantEffects(1, sandbox.Filter{})
}

func TestHold(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	h := keyed("k1")
	h["Pawl-Sandbox-Fault"] = "hold before; hold after; reset after"
	done := w.inBackground("POST", "/v1/refunds", refundBody, h)
	w.awaitHeld(1)
	w.wantEffects(0, sandbox.Filter{Pending: true})
	if n := w.Release(w.Held()[0]); n != 1 {
		t.Fatalf("got %d released, want 1", n)
	}
	w.await("work", func() bool { return len(w.effects(sandbox.Filter{})) == 1 })
	w.awaitHeld(1)
	if n := w.Release(1 << 40); n != 0 {
		t.Errorf("got %d released of an unknown request, want 0", n)
	}
	w.Release(0)
	wantReset(t, <-done)
	w.wantEffects(1, sandbox.Filter{Key: "k1"})
}

func TestHeldRequestsEndWithServe(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	done := w.inBackground("POST", "/v1/emails", map[string]any{"to": "ana@example.com"}, header{"Pawl-Sandbox-Fault": "hold before"})
	w.awaitHeld(1)
	go func() {
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if got := <-done; got.err == nil {
		t.Errorf("got %v, want a broken connection", got)
	}
}

func TestWork(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	h := keyed("k1")
	h["Pawl-Sandbox-Fault"] = "work 10s"
	done := w.inBackground("POST", "/v1/charges", map[string]any{"order_id": "B-1", "amount": "5", "currency": "EUR"}, h)
	w.await("work", func() bool { return w.request("k1").Outcome == "done" })
	same := func() seen {
		return w.send("POST", "/v1/charges", map[string]any{"order_id": "B-1", "amount": "5", "currency": "EUR"}, keyed("k1"))
	}
	if got := w.wantStatus(same(), 409, "key_in_flight"); got.header.Get("Retry-After") != "10" {
		t.Errorf("got Retry-After %q, want 10", got.header.Get("Retry-After"))
	}
	// A mismatch is told before the work in flight is.
	w.wantStatus(w.send("POST", "/v1/charges", map[string]any{"order_id": "B-1", "amount": "6", "currency": "EUR"}, keyed("k1")), 422, "key_mismatch")
	w.wantEffects(0, sandbox.Filter{})
	w.wantEffects(1, sandbox.Filter{Pending: true})
	id := w.effects(sandbox.Filter{Pending: true})[0].ObjectID
	w.wantStatus(w.send("GET", "/v1/charges/"+id, nil, nil), 404, "not_found")
	list := w.send("GET", "/v1/charges?order_id=B-1", nil, nil)
	if n := len(list.field("data").([]any)); n != 0 {
		t.Errorf("got %d charges while the work goes on, want 0", n)
	}
	w.setMode("charges", func(m *sandbox.Mode) { m.OnInFlight = sandbox.OnInFlightWait })
	waiting := make(chan seen, 1)
	go func() { waiting <- same() }()
	w.await("waiter", func() bool { return len(w.requests(sandbox.Filter{Key: "k1"})) == 4 })
	w.advance(10 * time.Second)
	first := w.wantStatus(<-done, 201, "")
	second := w.wantStatus(<-waiting, 201, "")
	if string(first.body) != string(second.body) || second.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %v, want the replay of %v", second, first)
	}
	if first.field("status") != "succeeded" {
		t.Errorf("got %s, want status succeeded", first.body)
	}
	w.wantEffects(1, sandbox.Filter{Key: "k1"})
}

func TestEdge(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	h := keyed("k1")
	h["Pawl-Sandbox-Fault"] = "edge 503 work 2s"
	got := w.send("POST", "/v1/refunds", refundBody, h)
	wantHTML(503)(t, got)
	if got.header.Get("Retry-After") != "1" || got.header.Get("Server") != "edge" {
		t.Errorf("got headers %v", got.header)
	}
	w.wantEffects(0, sandbox.Filter{Key: "k1"})
	w.wantStatus(w.send("POST", "/v1/refunds", refundBody, keyed("k1")), 409, "key_in_flight")
	w.advance(2 * time.Second)
	w.wantEffects(1, sandbox.Filter{Key: "k1"})
	w.wantStatus(w.send("POST", "/v1/refunds", refundBody, keyed("k1")), 201, "")
	w.wantEffects(1, sandbox.Filter{Key: "k1"})
}

func TestAccept(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	h := keyed("k1")
	h["Pawl-Sandbox-Fault"] = "accept 202 lands 10s"
	got := w.wantStatus(w.send("POST", "/v1/refunds", refundBody, h), 202, "")
	id := got.field("id").(string)
	if got.field("status") != "pending" {
		t.Errorf("got %s, want status pending", got.body)
	}
	w.wantEffects(0, sandbox.Filter{})
	if got := w.send("GET", "/v1/refunds/"+id, nil, nil); got.field("status") != "pending" {
		t.Errorf("got %v, want a pending refund", got)
	}
	// It is spoken for already: a second refund does not fit beside it.
	w.wantStatus(w.send("POST", "/v1/refunds", refundBody, keyed("k2")), 422, "amount_exceeds_charge")
	if got := w.wantStatus(w.send("POST", "/v1/refunds", refundBody, keyed("k1")), 202, ""); got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %v, want a replay", got)
	}
	if n := len(w.send("GET", "/v1/refunds?key=k1", nil, nil).field("data").([]any)); n != 0 {
		t.Errorf("got %d refunds listed before landing, want 0", n)
	}
	w.advance(10 * time.Second)
	w.wantEffects(1, sandbox.Filter{})
	if n := len(w.send("GET", "/v1/refunds?key=k1", nil, nil).field("data").([]any)); n != 1 {
		t.Errorf("got %d refunds listed after landing, want 1", n)
	}
	if got := w.send("GET", "/v1/refunds/"+id, nil, nil); got.field("status") != "succeeded" {
		t.Errorf("got %v, want a refund that succeeded", got)
	}
}

func TestAcceptFails(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	h := keyed("k1")
	h["Pawl-Sandbox-Fault"] = "accept 202 fails 10s"
	got := w.wantStatus(w.send("POST", "/v1/refunds", refundBody, h), 202, "")
	id := got.field("id").(string)
	if got.field("status") != "pending" {
		t.Errorf("got %s, want status pending", got.body)
	}
	w.advance(10 * time.Second)
	if got := w.send("GET", "/v1/refunds/"+id, nil, nil); got.field("status") != "failed" {
		t.Errorf("got %v, want a failed refund", got)
	}
	w.wantEffects(0, sandbox.Filter{Pending: true})
	// Nothing was taken from the charge, and its number is not given out again.
	if got := w.wantStatus(w.send("POST", "/v1/refunds", refundBody, keyed("k2")), 201, ""); got.field("id") == id {
		t.Errorf("got %s twice", id)
	}
}

func TestAcceptedChange(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	body := map[string]any{"line1": "2 Hill Road", "city": "Porto", "postcode": "4000-001", "country": "PT"}
	city := func() any {
		return w.send("GET", "/v1/orders/A-1182", nil, nil).field("address").(map[string]any)["city"]
	}
	w.wantStatus(w.send("PUT", "/v1/orders/A-1182/address", body, header{"Pawl-Sandbox-Fault": "accept 202 lands 5s"}), 202, "")
	if got := city(); got != "Lisbon" {
		t.Errorf("got city %v before landing, want Lisbon", got)
	}
	w.wantEffects(0, sandbox.Filter{})
	w.advance(5 * time.Second)
	if got := city(); got != "Porto" {
		t.Errorf("got city %v after landing, want Porto", got)
	}
	w.wantEffects(1, sandbox.Filter{Kind: "order.address", Subject: "A-1182"})
	// The same again converges.
	w.wantStatus(w.send("PUT", "/v1/orders/A-1182/address", body, nil), 200, "")
	w.wantEffects(1, sandbox.Filter{})
}

func TestLie(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	listed := func() int {
		return len(w.wantStatus(w.send("GET", "/v1/refunds?key=k1", nil, nil), 200, "").field("data").([]any))
	}
	h := keyed("k1")
	h["Pawl-Sandbox-Fault"] = "lie 3 absent; reset after"
	wantReset(t, w.send("POST", "/v1/refunds", refundBody, h))
	id := w.effects(sandbox.Filter{})[0].ObjectID
	w.wantStatus(w.send("GET", "/v1/refunds/"+id, nil, nil), 404, "not_found")
	if got := listed() + listed(); got != 0 {
		t.Errorf("got %d found in spite of the lie, want 0", got)
	}
	if got := listed(); got != 1 {
		t.Errorf("got %d found after the lie, want 1", got)
	}
	w.wantStatus(w.send("GET", "/v1/charges?order_id=A-1182", nil, header{"Pawl-Sandbox-Fault": "lie 30s absent"}), 200, "")
	if got := w.send("GET", "/v1/charges?order_id=A-1182", nil, nil); len(got.field("data").([]any)) != 0 {
		t.Errorf("got %v, want nothing for 30s", got)
	}
	if got := listed(); got != 1 {
		t.Errorf("got %d refunds while charges lie, want 1", got)
	}
	w.advance(31 * time.Second)
	if got := w.send("GET", "/v1/charges?order_id=A-1182", nil, nil); len(got.field("data").([]any)) != 1 {
		t.Errorf("got %v, want the charge", got)
	}
}

func TestDuplicateWithoutKey(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.wantStatus(w.send("POST", "/v1/emails", map[string]any{"to": "ana@example.com", "body": "hello"}, header{"Pawl-Sandbox-Fault": "duplicate"}), 201, "")
	w.wantEffects(2, sandbox.Filter{Subject: "ana@example.com"})
	list := w.requests(sandbox.Filter{})
	if len(list) != 2 || list[0].Via != "" || list[1].Via != "duplicate" || list[1].Effect == list[0].Effect {
		t.Errorf("got requests %+v, want two deliveries", list)
	}
}

func TestSlowBodyTakesItsTime(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	start := time.Now()
	got := w.wantStatus(w.send("POST", "/v1/emails", map[string]any{"to": "a@example.com"}, header{"Pawl-Sandbox-Fault": "slow body 500B/s"}), 201, "")
	if took, want := time.Since(start), time.Duration(len(got.body))*time.Second/1000; took < want {
		t.Errorf("%d bytes took %v, want more than %v", len(got.body), took, want)
	}
}
