package sandbox_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/sandbox"
)

func (w *world) found(path string) int {
	w.t.Helper()
	return len(w.wantStatus(w.send("GET", path, nil, nil), 200, "").field("data").([]any))
}

func TestCharges(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.wantStatus(w.charge(map[string]any{"order_id": "B-1", "amount": "5", "currency": "EUR", "card": "declined-4000"}, nil), 402, "card_declined")
	for _, tc := range []struct {
		amount   any
		currency string
		minor    float64
		text     string
	}{{"80", "JPY", 80, "80"}, {"80.00", "JPY", 80, "80"}, {"1.005", "KWD", 1005, "1.005"}, {10, "USD", 1000, "10.00"}, {0.07, "eur", 7, "0.07"}} {
		got := w.wantStatus(w.charge(map[string]any{"order_id": "B-1", "amount": tc.amount, "currency": tc.currency}, nil), 201, "")
		if got.field("amount_minor") != tc.minor || got.field("amount") != tc.text {
			t.Errorf("%v %s: got %v minor, %v; want %v, %s", tc.amount, tc.currency, got.field("amount_minor"), got.field("amount"), tc.minor, tc.text)
		}
	}
	for _, body := range []string{
		`{"order_id":"B-1","amount":"80.5","currency":"JPY"}`, `{"order_id":"B-1","amount":"0","currency":"EUR"}`,
		`{"order_id":"B-1","amount":"-1","currency":"EUR"}`, `{"order_id":"B-1","amount":"1e30","currency":"EUR"}`,
		`{"order_id":"B-1","amount":"1","currency":"XXX"}`, `{"order_id":"","amount":"1","currency":"EUR"}`,
		`{"order_id":null,"amount":"1","currency":"EUR"}`, `{"amount":"1","currency":"EUR"}`, `{"order_id":true,"amount":"1","currency":"EUR"}`,
		`{"order_id":"B-1","amount":"1","currency":"EUR","extra":1}`, `{"order_id":"B-1","amount":"1","currency":"EUR","metadata":{"a":1}}`,
	} {
		w.wantStatus(w.charge(body, nil), 400, "invalid_request")
	}
	for _, body := range []string{`{`, `[]`, `{"order_id":"a","order_id":"b"}`, "{\"order_id\":\"\xff\"}", `null`} {
		w.wantStatus(w.charge(body, nil), 400, "invalid_json")
	}
	w.wantStatus(w.charge(`{}`, header{"Content-Type": "text/plain"}), 415, "unsupported_media_type")
	w.wantStatus(w.charge(`{"order_id":"`+strings.Repeat("x", 1<<20)+`"}`, nil), 413, "too_large")
	w.wantEffects(5, sandbox.Filter{})

	// Numbers keep their digits, and metadata is something to find by.
	for _, id := range []string{"9007199254740992", "9007199254740993"} {
		w.wantStatus(w.charge(`{"order_id":`+id+`,"amount":1,"currency":"EUR","metadata":{"pawl":"m`+id+`"}}`, nil), 201, "")
		if got := w.found("/v1/charges?order_id=" + id + "&metadata.pawl=m" + id); got != 1 {
			t.Errorf("%s: got %d charges, want 1", id, got)
		}
	}
	w.wantStatus(w.send("GET", "/v1/charges/ch_0", nil, nil), 404, "not_found")
}

func TestListPages(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	for i := range 5 {
		w.wantStatus(w.charge(map[string]any{"order_id": "B-1", "amount": i + 1, "currency": "EUR"}, nil), 201, "")
	}
	path, pages, got := "/v1/charges?order_id=B-1&limit=2", 0, ""
	for after := ""; pages < 10; {
		page := w.wantStatus(w.send("GET", path+after, nil, nil), 200, "")
		pages++
		for _, c := range page.field("data").([]any) {
			got += fmt.Sprint(c.(map[string]any)["amount"], " ")
			after = "&after=" + c.(map[string]any)["id"].(string)
		}
		if page.field("has_more") == false {
			break
		}
	}
	if want := "1.00 2.00 3.00 4.00 5.00 "; got != want || pages != 3 {
		t.Errorf("got %q in %d pages, want %q in 3", got, pages, want)
	}
	for _, bad := range []string{"?limit=0", "?limit=201", "?limit=x", "?after=nobody", "?colour=red", "?order_id=", "?limit=1&limit=1", "?order_id=" + strings.Repeat("a&order_id=", 16) + "a", "?%zz"} {
		w.wantStatus(w.send("GET", "/v1/charges"+bad, nil, nil), 400, "invalid_request")
	}
}

func TestBookings(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	hotel := func(item, from, to string) seen {
		return w.send("POST", "/v1/bookings", map[string]any{"type": "hotel", "item": item, "traveller": "Ana", "from": from, "to": to, "ref": "trip-1", "amount": "120", "currency": "EUR"}, nil)
	}
	w.wantStatus(hotel("FULL-Palace", "2026-12-24", "2026-12-26"), 422, "sold_out")
	w.wantStatus(hotel("Palace", "2026-11-29", "2026-12-26"), 422, "date_passed")
	w.wantStatus(hotel("Palace", "2026-12-24", "2026-12-24"), 400, "invalid_request")
	w.wantStatus(hotel("Palace", "24.12.2026", "2026-12-26"), 400, "invalid_request")
	id := w.wantStatus(hotel("Palace", "2026-11-30", "2026-12-01"), 201, "").field("id").(string)
	if got := w.found("/v1/bookings?ref=trip-1&item=Palace"); got != 1 {
		t.Errorf("got %d bookings, want 1", got)
	}
	if got := w.wantStatus(w.send("POST", "/v1/bookings/"+id+"/cancel", nil, nil), 200, ""); got.field("status") != "cancelled" {
		t.Errorf("got %s, want it cancelled", got.body)
	}
	w.wantStatus(w.send("POST", "/v1/bookings/"+id+"/cancel", nil, nil), 409, "already_cancelled")
	final := w.wantStatus(hotel("FINAL-Palace", "2026-11-30", "2026-12-01"), 201, "").field("id").(string)
	w.wantStatus(w.send("POST", "/v1/bookings/"+final+"/cancel", map[string]any{"reason": "ill"}, nil), 422, "not_cancellable")
	w.wantStatus(w.send("POST", "/v1/bookings/bk_0/cancel", nil, nil), 404, "not_found")
	list := w.effects(sandbox.Filter{Subject: "trip-1"})
	if len(list) != 3 || list[0].ReversedBy != list[1].Seq || list[1].Kind != "booking.cancel" || list[2].ReversedBy != 0 {
		t.Errorf("got %+v, want the first reversed by the second", list)
	}
}

func TestTickets(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	id := w.wantStatus(w.send("POST", "/v1/tickets", map[string]any{"project": "ops", "title": "Disk", "ext_ref": "r-1", "marker": "pawl-77"}, nil), 201, "").field("id").(string)
	w.wantStatus(w.send("GET", "/v1/tickets/"+id, nil, nil), 200, "") // a read by id has no lag
	w.advance(5*time.Second - time.Millisecond)
	if got := w.found("/v1/tickets?ext_ref=r-1"); got != 0 {
		t.Errorf("got %d found inside the index lag, want 0", got)
	}
	w.advance(time.Millisecond)
	if got := w.found("/v1/tickets?marker=pawl-77&project=ops"); got != 1 {
		t.Errorf("got %d found after the index lag, want 1", got)
	}
	for range 2 { // closing converges
		if got := w.wantStatus(w.send("POST", "/v1/tickets/"+id+"/close", nil, nil), 200, ""); got.field("status") != "closed" {
			t.Errorf("got %s, want it closed", got.body)
		}
	}
	w.wantEffects(1, sandbox.Filter{Kind: "ticket.close"})
}

func TestEmailsCannotBeFound(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	id := w.wantStatus(w.send("POST", "/v1/emails", map[string]any{"to": "ana@example.com", "body": strings.Repeat("x", 100_000)}, keyed("k1")), 201, "").field("id").(string)
	for _, path := range []string{"/v1/emails", "/v1/emails/" + id} {
		w.wantStatus(w.send("GET", path, nil, nil), 404, "no_endpoint")
	}
	w.wantStatus(w.send("DELETE", "/v1/emails/"+id, nil, nil), 404, "no_endpoint")
	if got := w.requests(sandbox.Filter{Method: "DELETE"}); len(got) != 1 || got[0].Status != 404 {
		t.Errorf("got %+v, want the request without an endpoint recorded", got)
	}
	w.wantEffects(1, sandbox.Filter{Subject: "ana@example.com"})
}

func TestVMs(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	body := map[string]any{"cluster": "c1", "name": "web", "tags": map[string]string{"run": "7", "team": "a"}, "client_token": "t1"}
	first := w.wantStatus(w.send("POST", "/v1/vms", body, nil), 202, "")
	again := w.wantStatus(w.send("POST", "/v1/vms", body, nil), 202, "")
	id := first.field("id").(string)
	if first.field("status") != "pending" || again.field("id") != id {
		t.Errorf("got %s and %s, want one pending machine", first.body, again.body)
	}
	w.wantEffects(0, sandbox.Filter{})
	w.wantEffects(1, sandbox.Filter{Pending: true, Key: "t1"})
	w.wantStatus(w.send("DELETE", "/v1/vms/"+id, nil, nil), 409, "not_ready")
	w.advance(5 * time.Second)
	w.wantEffects(1, sandbox.Filter{})
	if got := w.send("GET", "/v1/vms/"+id, nil, nil); got.field("status") != "running" {
		t.Errorf("got %v, want it running", got)
	}
	w.advance(39 * time.Second)
	if got := w.found("/v1/vms?tag=run:7"); got != 0 {
		t.Errorf("got %d inside the lag, want 0", got)
	}
	w.setMode("vms", func(m *sandbox.Mode) { m.ShowsPending, m.Lag = true, 0 })
	if got := w.found("/v1/vms?tag=run:7"); got != 1 {
		t.Errorf("got %d without a lag, want 1", got)
	}
	w.setMode("vms", func(m *sandbox.Mode) { *m = sandbox.DefaultMode("vms") })
	w.advance(time.Second)
	if got := w.found("/v1/vms?tag=run:7&tag=team:a"); got != 1 {
		t.Errorf("got %d after the lag, want 1", got)
	}
	w.wantStatus(w.send("DELETE", "/v1/vms/"+id, nil, nil), 200, "")
	w.wantStatus(w.send("DELETE", "/v1/vms/"+id, nil, nil), 200, "")
	list := w.effects(sandbox.Filter{Subject: "c1/web"})
	if len(list) != 2 || list[0].ReversedBy != list[1].Seq {
		t.Errorf("got %+v, want one machine made and deleted", list)
	}
}

func TestStock(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	adjust := func(key string, body map[string]any, h header) seen {
		return w.send("POST", "/v1/stock/adjustments", body, with(h, "Idempotency-Key", key))
	}
	quantity := func() any { return w.send("GET", "/v1/stock/items/cup", nil, nil).field("quantity") }
	w.wantStatus(adjust("k1", map[string]any{"sku": "cup", "delta": 5, "move_id": "m1"}, nil), 201, "")
	w.wantStatus(adjust("k2", map[string]any{"sku": "cup", "delta": -6}, nil), 422, "insufficient_stock")
	w.wantStatus(adjust("k3", map[string]any{"sku": "cup", "delta": 0}, nil), 400, "invalid_request")
	w.wantStatus(adjust("k3", map[string]any{"sku": "cup", "delta": 1.5}, nil), 400, "invalid_request")
	w.wantStatus(adjust("k4", map[string]any{"sku": "cup", "delta": -2}, nil), 201, "")
	if got := quantity(); got != 3.0 {
		t.Errorf("got %v cups, want 3", got)
	}
	late := map[string]any{"sku": "cup", "delta": 1, "not_after": "2026-11-30T11:59:59Z"}
	w.wantStatus(adjust("k5", late, nil), 412, "not_after_passed")
	late["not_after"] = "2026-11-30T12:00:00Z" // the instant itself is in time
	w.wantStatus(adjust("k5", late, header{"Pawl-Not-After": "2026-11-30T11:00:00Z"}), 412, "not_after_passed")
	w.wantStatus(adjust("k5", late, nil), 201, "")
	w.advance(time.Hour)
	w.wantStatus(adjust("k5", late, nil), 201, "") // done in time: a replay
	w.wantStatus(adjust("k6", map[string]any{"sku": "cup", "delta": 1}, header{"Pawl-Not-After": "soon"}), 400, "invalid_request")
	w.wantEffects(3, sandbox.Filter{Subject: "cup"})
	if got := w.found("/v1/stock/adjustments?move_id=m1&sku=cup&key=k1"); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func TestFence(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	move := map[string]any{"sku": "cup", "delta": 5}
	adjust := func(key, fault string) seen {
		return w.send("POST", "/v1/stock/adjustments", move, header{"Idempotency-Key": key, "Pawl-Sandbox-Fault": fault})
	}
	cancel := func(key string) seen { return w.send("POST", "/v1/stock/cancel", map[string]any{"key": key}, nil) }

	// The request is on its way; the fence comes first and the late arrival is refused.
	done := w.inBackground("POST", "/v1/stock/adjustments", move, header{"Idempotency-Key": "k1", "Pawl-Sandbox-Fault": "hold before"})
	w.awaitHeld(1)
	if got := w.wantStatus(cancel("k1"), 200, ""); got.field("status") != "cancelled" || got.field("refused_until") != "2026-12-30T12:00:00Z" {
		t.Errorf("got %s, want it cancelled", got.body)
	}
	w.Release(0)
	w.wantStatus(<-done, 409, "key_cancelled")
	w.wantEffects(0, sandbox.Filter{Pending: true})

	// The effect came first; the fence tells it and undoes nothing.
	wantReset(t, adjust("k2", "reset after"))
	got := w.wantStatus(cancel("k2"), 200, "")
	if got.field("status") != "done" || got.field("adjustment").(map[string]any)["key"] != "k2" {
		t.Errorf("got %s, want the adjustment", got.body)
	}
	w.wantEffects(1, sandbox.Filter{Key: "k2"})

	// In flight: neither yet.
	wantHTML(503)(t, adjust("k3", "edge 503 work 5s"))
	w.wantStatus(cancel("k3"), 409, "key_in_flight")
	w.advance(5 * time.Second)
	if got := w.wantStatus(cancel("k3"), 200, ""); got.field("status") != "done" {
		t.Errorf("got %s, want it done", got.body)
	}

	// The tombstone ends, and a fence without one refuses nobody.
	w.advance(30 * 24 * time.Hour)
	w.wantStatus(adjust("k1", ""), 201, "")
	w.setMode("stock", func(m *sandbox.Mode) { m.Tombstone = 0 })
	if got := w.wantStatus(cancel("k4"), 200, ""); got.field("refused_until") != nil {
		t.Errorf("got %s, want no refusal", got.body)
	}
	w.wantStatus(adjust("k4", ""), 201, "")
}

// A handler behind a server without connections to take over aborts in its own way.
func TestHandlerOnItsOwn(t *testing.T) {
	t.Parallel()
	s, err := sandbox.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h := s.Handler()
	r := httptest.NewRequest("POST", "/v1/emails", strings.NewReader(`{"to":"a@example.com"}`))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != 201 {
		t.Fatalf("got %d, want 201", rec.Code)
	}
	r = httptest.NewRequest("GET", "/v1/orders/A-1182", nil)
	r.Header.Set("Pawl-Sandbox-Fault", "reset after")
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("got panic %v, want ErrAbortHandler", got)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), r)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	w := setup(t, &sandbox.Options{MaxInFlight: 1, MaxRequests: 4})
	done := w.inBackground("GET", "/v1/orders/A-1182", nil, header{"Pawl-Sandbox-Fault": "hold before"})
	w.awaitHeld(1)
	if got := w.wantStatus(w.charge(chargeBody, nil), 503, "busy"); got.header.Get("Retry-After") != "1" {
		t.Errorf("got %v, want Retry-After", got.header)
	}
	w.Release(0)
	w.wantStatus(<-done, 200, "")
	w.wantStatus(w.charge(chargeBody, nil), 201, "")
	w.wantStatus(w.charge(chargeBody, nil), 201, "")
	w.wantStatus(w.charge(chargeBody, nil), 507, "ledger_full")
	w.wantEffects(2, sandbox.Filter{})
	if err := w.Reset(false); err != nil {
		t.Fatal(err)
	}
	w.wantStatus(w.charge(chargeBody, nil), 201, "")
}
