package sandbox_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/sandbox"
)

var chargeBody = map[string]any{"order_id": "B-1", "amount": "5.00", "currency": "EUR"}

func (w *world) charge(body any, h header) seen {
	w.t.Helper()
	return w.send("POST", "/v1/charges", body, h)
}

func with(h header, name, value string) header {
	out := header{name: value}
	for k, v := range h {
		out[k] = v
	}
	return out
}

func TestReplay(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	first := w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "")
	// Order of fields and white space are no difference.
	again := w.wantStatus(w.charge(`{ "currency":"EUR", "amount":"5.00","order_id":"B-1" }`, keyed("k1")), 201, "")
	if string(first.body) != string(again.body) || again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %v then %v, want the same bytes, the second as a replay", first, again)
	}
	w.wantEffects(1, sandbox.Filter{})
	w.wantStatus(w.charge(chargeBody, keyed("k2")), 201, "")
	w.wantStatus(w.charge(chargeBody, nil), 201, "")
	w.wantStatus(w.charge(chargeBody, nil), 201, "")
	w.wantEffects(4, sandbox.Filter{})
	// The same key is another service's own.
	w.wantStatus(w.send("POST", "/v1/refunds", refundBody, keyed("k1")), 201, "")
	w.wantEffects(5, sandbox.Filter{})
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	other := map[string]any{"order_id": "B-1", "amount": "6.00", "currency": "EUR"}
	for _, tc := range []struct {
		mode   string
		status int
		code   string
	}{{sandbox.OnMismatch422, 422, "key_mismatch"}, {sandbox.OnMismatch409, 409, "key_mismatch"}, {sandbox.OnMismatchIgnore, 201, ""}} {
		t.Run(tc.mode, func(t *testing.T) {
			t.Parallel()
			w := setup(t, nil)
			w.setMode("charges", func(m *sandbox.Mode) { m.OnMismatch = tc.mode })
			first := w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "")
			got := w.wantStatus(w.charge(other, keyed("k1")), tc.status, tc.code)
			if tc.mode == sandbox.OnMismatchIgnore && string(got.body) != string(first.body) {
				t.Errorf("got %s, want the old answer %s", got.body, first.body)
			}
			w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "")
			w.wantEffects(1, sandbox.Filter{})
		})
	}
}

func TestKeyCoversThePath(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	book := map[string]any{"type": "flight", "item": "TP 1234", "traveller": "Ana", "from": "2026-12-24", "amount": "80", "currency": "EUR"}
	id := w.wantStatus(w.send("POST", "/v1/bookings", book, keyed("k1")), 201, "").field("id").(string)
	w.wantStatus(w.send("POST", "/v1/bookings/"+id+"/cancel", nil, keyed("k1")), 422, "key_mismatch")
	w.wantEffects(1, sandbox.Filter{})
}

func TestOnDuplicate(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.setMode("charges", func(m *sandbox.Mode) { m.OnDuplicate = sandbox.OnDuplicateLatest })
	first := w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "")
	id := first.field("id")
	w.wantStatus(w.send("POST", "/v1/refunds", map[string]any{"charge_id": id, "amount": "5", "currency": "EUR"}, nil), 201, "")
	if got := w.wantStatus(w.charge(chargeBody, keyed("k1")), 200, ""); got.field("status") != "refunded" || got.field("id") != id {
		t.Errorf("got %s, want the charge as it is now", got.body)
	}
	w.setMode("charges", func(m *sandbox.Mode) { m.OnDuplicate = sandbox.OnDuplicateConflict })
	got := w.wantStatus(w.charge(chargeBody, keyed("k1")), 409, "key_conflict")
	if e := got.field("error").(map[string]any); e["resource_id"] != id {
		t.Errorf("got resource_id %v, want %v", e["resource_id"], id)
	}
	w.wantEffects(1, sandbox.Filter{Service: "charges"})
}

func TestKeysIgnored(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.setMode("charges", func(m *sandbox.Mode) { m.Keys = sandbox.KeysIgnored })
	w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "")
	w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "")
	w.wantEffects(2, sandbox.Filter{Key: "k1"})
	if got := w.send("GET", "/v1/charges?key=k1", nil, nil); len(got.field("data").([]any)) != 0 {
		t.Errorf("got %s, want nothing under a key that was ignored", got.body)
	}
}

func TestCarriers(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.setMode("charges", func(m *sandbox.Mode) { m.Name = "X-Request-Id" })
	w.wantStatus(w.charge(chargeBody, header{"X-Request-Id": "k1"}), 201, "")
	w.wantStatus(w.charge(chargeBody, header{"X-Request-Id": "k1"}), 201, "")
	w.wantEffects(1, sandbox.Filter{Key: "k1"})

	w.setMode("charges", func(m *sandbox.Mode) { m.Carrier, m.Name = sandbox.CarrierQuery, "request_id" })
	for range 2 {
		w.wantStatus(w.send("POST", "/v1/charges?request_id=k2", chargeBody, nil), 201, "")
	}
	w.wantEffects(1, sandbox.Filter{Key: "k2"})

	w.setMode("charges", func(m *sandbox.Mode) { m.Carrier, m.Name = sandbox.CarrierBody, "idempotency_key" })
	body := map[string]any{"order_id": "B-1", "amount": "5.00", "currency": "EUR", "idempotency_key": "k3"}
	w.wantStatus(w.charge(body, nil), 201, "")
	w.wantStatus(w.charge(body, nil), 201, "")
	w.wantEffects(1, sandbox.Filter{Key: "k3"})
	body["idempotency_key"] = 7
	w.wantStatus(w.charge(body, nil), 400, "invalid_request")
	w.wantEffects(3, sandbox.Filter{})
}

func TestRequiredAndInvalidKeys(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	move := map[string]any{"sku": "cup", "delta": 5}
	w.wantStatus(w.send("POST", "/v1/stock/adjustments", move, nil), 400, "key_required")
	w.wantStatus(w.send("POST", "/v1/stock/adjustments", move, keyed(strings.Repeat("k", 256))), 400, "key_invalid")
	w.wantStatus(w.send("POST", "/v1/stock/adjustments", move, keyed(strings.Repeat("k", 255))), 201, "")
	w.wantEffects(1, sandbox.Filter{})
}

// After the work an error is answered, and the same request comes again.
func TestOnError(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode    string
		fault   string
		status  int
		code    string
		effects int
	}{
		{sandbox.OnErrorComplete, "status 500 after", 201, "", 1},
		{sandbox.OnErrorReplay, "status 500 after", 500, "service_failed", 1},
		{sandbox.OnErrorForget, "status 500 after", 201, "", 2},
		{sandbox.OnErrorComplete, "status 500 before", 201, "", 1},
		{sandbox.OnErrorReplay, "status 500 before", 500, "service_failed", 0},
		{sandbox.OnErrorForget, "status 500 before", 201, "", 1},
		{sandbox.OnErrorReplay, "status 429 before", 201, "", 1},
		{sandbox.OnErrorReplay, "html 502 before", 201, "", 1},
		{sandbox.OnErrorForget, "reset after", 201, "", 1},
		{sandbox.OnErrorReplay, "reset after", 201, "", 1},
		{sandbox.OnErrorForget, "edge 503 work 1s", 201, "", 1},
	} {
		t.Run(tc.mode+" "+tc.fault, func(t *testing.T) {
			t.Parallel()
			w := setup(t, nil)
			w.setMode("charges", func(m *sandbox.Mode) { m.OnError = tc.mode })
			w.charge(chargeBody, with(keyed("k1"), "Pawl-Sandbox-Fault", tc.fault))
			w.advance(time.Second)
			for range 2 {
				w.wantStatus(w.charge(chargeBody, keyed("k1")), tc.status, tc.code)
			}
			w.wantEffects(tc.effects, sandbox.Filter{})
		})
	}
}

// A refusal of the application is remembered only where errors are replayed, and a
// malformed request never.
func TestRefusalsUnderAKey(t *testing.T) {
	t.Parallel()
	refund := map[string]any{"order_id": "B-1", "amount": "5", "currency": "EUR"}
	for mode, want := range map[string]int{sandbox.OnErrorComplete: 201, sandbox.OnErrorForget: 201, sandbox.OnErrorReplay: 404} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := setup(t, nil)
			w.setMode("refunds", func(m *sandbox.Mode) { m.OnError = mode })
			w.wantStatus(w.send("POST", "/v1/refunds", refund, keyed("k1")), 404, "not_found")
			w.wantStatus(w.charge(chargeBody, nil), 201, "")
			if got := w.send("POST", "/v1/refunds", refund, keyed("k1")); got.status != want {
				t.Errorf("got %v, want status %d", got, want)
			}
			w.wantStatus(w.send("POST", "/v1/refunds", map[string]any{"order_id": "B-1"}, keyed("k2")), 400, "invalid_request")
			w.wantStatus(w.send("POST", "/v1/refunds", map[string]any{"order_id": "A-1182", "amount": "1", "currency": "EUR"}, keyed("k2")), 201, "")
		})
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "")
	w.advance(24*time.Hour - time.Second)
	w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "")
	w.wantEffects(1, sandbox.Filter{})
	// A replay does not renew it: it counts from the first request.
	w.advance(time.Second)
	w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "")
	w.wantEffects(2, sandbox.Filter{Key: "k1"})
}

func TestSameKeyAtOnce(t *testing.T) {
	t.Parallel()
	const n = 64
	w := setup(t, nil)
	var wg sync.WaitGroup
	got := make([]seen, n)
	for i := range n {
		wg.Go(func() { got[i] = w.send("POST", "/v1/refunds", refundBody, keyed("k1")) })
	}
	wg.Wait()
	replayed := 0
	for _, g := range got {
		if g.err != nil || g.status != 201 || string(g.body) != string(got[0].body) {
			t.Errorf("got %v, want 201 and the same body as all", g)
		}
		if g.header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
	}
	if replayed != n-1 {
		t.Errorf("got %d replays, want %d", replayed, n-1)
	}
	w.wantEffects(1, sandbox.Filter{})
	if q := w.requests(sandbox.Filter{Key: "k1"}); len(q) != n {
		t.Errorf("got %d requests, want %d", len(q), n)
	}
}

// Without a key, 64 refunds of one charge race: it is never given back twice.
func TestRefundsNeverExceedTheCharge(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			w.send("POST", "/v1/refunds", map[string]any{"order_id": "A-1182", "amount": "10", "currency": "EUR"}, nil)
		})
	}
	wg.Wait()
	w.wantEffects(4, sandbox.Filter{Kind: "refund.create"})
}

// Modes change while requests are carried out; neither waits for the other for ever.
func TestModesChangeUnderLoad(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if got := w.charge(chargeBody, nil); got.status != 201 {
					t.Errorf("got %v, want 201", got)
				}
			}
		})
		wg.Go(func() {
			for range 10 {
				w.setMode("tickets", func(m *sandbox.Mode) { m.Lag += time.Second })
			}
		})
	}
	wg.Wait()
	w.wantEffects(80, sandbox.Filter{})
}

func TestModeJSON(t *testing.T) {
	t.Parallel()
	for _, service := range sandbox.Services() {
		want := sandbox.DefaultMode(service)
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got sandbox.Mode
		if err := json.Unmarshal(raw, &got); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", service, got, err, want)
		}
	}
	for _, text := range []string{
		`{"keys":"sometimes"}`, `{"carrier":"cookie"}`, `{"name":""}`, `{"name":"a b"}`, `{"on_mismatch":"400"}`, `{"on_in_flight":"500"}`,
		`{"on_duplicate":"none"}`, `{"on_error":"heal"}`, `{"retention":"0s"}`, `{"retention":"long"}`, `{"retention":24}`, `{"lag":"-1s"}`,
		`{"lag":"999999h"}`, `{"retain":"1h"}`, `{"lag":"1s","lag":"2s"}`, `{"lag":"1s","Lag":"2s"}`, `[]`,
	} {
		got := sandbox.DefaultMode("charges")
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s: got no error", text)
		}
		if got != sandbox.DefaultMode("charges") {
			t.Errorf("%s: got a half-changed mode %+v", text, got)
		}
	}
}
