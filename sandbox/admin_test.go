package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/pawl-dev/pawl/sandbox"
)

// tamper changes a database behind the sandbox's back.
func tamper(t *testing.T, path, query string) {
	t.Helper()
	db, err := driver.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		t.Fatal(err)
	}
}

func TestAdminLedger(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	for _, key := range []string{"k1", "k2", "k3"} {
		w.wantStatus(w.charge(chargeBody, with(keyed(key), "Pawl-Run", "run-"+key)), 201, "")
	}
	w.wantStatus(w.charge(chargeBody, with(keyed("k4"), "Pawl-Sandbox-Fault", "accept 202 lands 1h")), 202, "")
	count := func(query string) int {
		return len(w.wantStatus(w.send("GET", "/admin/ledger"+query, nil, nil), 200, "").field("effects").([]any))
	}
	for query, want := range map[string]int{
		"": 3, "?pending=true": 4, "?key=k2": 1, "?run=run-k3": 1, "?subject=B-1": 3, "?kind=refund.create": 0, "?service=charges&limit=2": 2,
	} {
		if got := count(query); got != want {
			t.Errorf("%q: got %d effects, want %d", query, got, want)
		}
	}
	page := w.send("GET", "/admin/ledger?limit=2", nil, nil)
	if got := page.field("next"); got != 2.0 {
		t.Errorf("got next %v, want 2", got)
	}
	if got := count("?after=2"); got != 1 {
		t.Errorf("got %d behind 2, want 1", got)
	}
	text := w.send("GET", "/admin/ledger", nil, header{"Accept": "text/plain"})
	if lines := strings.Split(strings.TrimSpace(string(text.body)), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "SEQ") ||
		!strings.Contains(lines[1], "charge.create") || !strings.Contains(lines[1], "5.00 EUR") {
		t.Errorf("got table\n%s", text.body)
	}
	requests := w.wantStatus(w.send("GET", "/admin/requests?key=k1", nil, nil), 200, "")
	if list := requests.field("requests").([]any); len(list) != 1 || list[0].(map[string]any)["answer"] != "201" {
		t.Errorf("got %s, want one request answered 201", requests.body)
	}
	text = w.send("GET", "/admin/requests", nil, header{"Accept": "text/plain"})
	if !strings.Contains(string(text.body), "accept 202 lands 1h") {
		t.Errorf("got table\n%s", text.body)
	}
	for _, path := range []string{"/admin/ledger?colour=red", "/admin/ledger?limit=0", "/admin/ledger?after=x", "/admin/ledger?pending=perhaps", "/admin/requests?kind=x", "/admin/ledger?key=a&key=b"} {
		w.wantStatus(w.send("GET", path, nil, nil), 400, "invalid_request")
	}
	for _, path := range []string{"/admin/nothing", "/v1/nothing", "/nothing"} {
		res := w.send("GET", path, nil, nil)
		w.wantStatus(res, 404, "no_endpoint")
		if !strings.Contains(string(res.body), "docs/sandbox.md") {
			t.Errorf("%s: got %s, want the page that lists the paths", path, res.body)
		}
	}
	w.wantStatus(w.send("DELETE", "/admin/ledger?demo=false", nil, nil), 200, "")
	if got := count("?pending=true"); got != 0 {
		t.Errorf("got %d effects after the reset, want 0", got)
	}
	w.wantStatus(w.send("GET", "/v1/orders/A-1182", nil, nil), 404, "not_found")
	w.wantStatus(w.charge(chargeBody, keyed("k1")), 201, "") // the key is forgotten
	if got := w.effects(sandbox.Filter{}); len(got) != 1 || got[0].Seq <= 4 {
		t.Errorf("got %+v, want one effect with a new number", got)
	}
	w.wantStatus(w.send("DELETE", "/admin/ledger", nil, nil), 200, "")
	w.wantStatus(w.send("GET", "/v1/orders/A-1182", nil, nil), 200, "")
}

// A table cannot be broken by what a client sends.
func TestTableShowsNoControlCharacters(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.wantStatus(w.send("POST", "/v1/emails", map[string]any{"to": "a\u001b[2J\nb"}, nil), 201, "")
	text := w.send("GET", "/admin/ledger", nil, header{"Accept": "text/plain"})
	if strings.ContainsRune(string(text.body), 0x1b) || strings.Count(string(text.body), "\n") != 2 {
		t.Errorf("got table %q", text.body)
	}
}

func TestAdminModes(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	got := w.wantStatus(w.send("PUT", "/admin/modes", `{"tickets":{"lag":"0s"},"charges":{"on_error":"replay","retention":"6m"}}`, nil), 200, "")
	if m := got.field("charges").(map[string]any); m["retention"] != "6m" || m["on_error"] != "replay" || m["name"] != "Idempotency-Key" {
		t.Errorf("got %v, want the given fields changed and the others kept", m)
	}
	for _, body := range []string{`{"loans":{}}`, `{"charges":{"lag":"1s"},"tickets":{"lag":"soon"}}`, `{"charges":{"x":1}}`, `[]`, `{"charges":{},"charges":{}}`} {
		w.wantStatus(w.send("PUT", "/admin/modes", body, nil), 400, "invalid_request")
	}
	if m := w.Modes()["charges"]; m.Lag != 0 || m.Retention != 6*time.Minute {
		t.Errorf("got %+v, want no half of a refused change", m)
	}
	w.wantStatus(w.send("PUT", "/admin/modes", `{}`, header{"Content-Type": "text/plain"}), 415, "unsupported_media_type")
}

func TestAdminClock(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	got := w.wantStatus(w.send("POST", "/admin/clock", `{"advance":"25h"}`, nil), 200, "")
	if got.field("now") != "2026-12-01T13:00:00Z" || got.field("advanced") != "25h" {
		t.Errorf("got %s", got.body)
	}
	for _, body := range []string{`{"advance":"-1h"}`, `{"advance":"0s"}`, `{"advance":"soon"}`, `{}`, `{"advance":"999999h"}`, `{"to":"25h"}`} {
		w.wantStatus(w.send("POST", "/admin/clock", body, nil), 400, "invalid_request")
	}
	if got := w.send("GET", "/admin/clock", nil, nil); got.field("advanced") != "25h" {
		t.Errorf("got %s, want the clock as it was", got.body)
	}
}

func TestAdminFaults(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.wantStatus(w.send("POST", "/admin/faults", `{"match":{"service":"charges","method":"POST"},"line":"status 503 before","times":2}`, nil), 200, "")
	w.wantStatus(w.send("POST", "/admin/faults", `{"match":{"path":"/v1/charges"},"line":"reset after"}`, nil), 200, "")
	wantCode(503, "unavailable")(t, w.charge(chargeBody, nil))
	w.wantStatus(w.charge(chargeBody, header{"Pawl-Sandbox-Fault": "status 500 before"}), 500, "service_failed") // its own; none is taken
	wantCode(503, "unavailable")(t, w.charge(chargeBody, nil))
	wantReset(t, w.charge(chargeBody, nil))
	w.wantStatus(w.charge(chargeBody, nil), 201, "")
	w.wantEffects(2, sandbox.Filter{})

	for body, code := range map[string]string{
		`{"line":"explode"}`: "fault_invalid", `{}`: "fault_invalid", `{"line":"refuse","times":-1}`: "invalid_request",
		`{"line":"refuse","match":{"service":"loans"}}`: "invalid_request", `{"line":"refuse","match":{"host":"x"}}`: "invalid_request",
	} {
		w.wantStatus(w.send("POST", "/admin/faults", body, nil), 400, code)
	}
	w.wantStatus(w.send("POST", "/admin/faults", `{"line":"lie 2 absent","match":{"method":"GET"}}`, nil), 200, "")
	if got := w.send("GET", "/admin/faults", nil, nil).field("faults").([]any); len(got) != 1 {
		t.Errorf("got queue %v, want one", got)
	}
	if got := w.found("/v1/charges?order_id=B-1"); got != 0 {
		t.Errorf("got %d found by the first lie, want 0", got)
	}
	w.wantStatus(w.send("DELETE", "/admin/faults", nil, nil), 200, "")
	if got := w.found("/v1/charges?order_id=B-1"); got != 2 {
		t.Errorf("got %d found after the lie was ended, want 2", got)
	}
}

func TestAdminHolds(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.wantStatus(w.send("GET", "/admin/held?count=1&wait=1ms", nil, nil), 408, "not_held")
	held := w.inBackground("GET", "/admin/held?count=1&wait=10s", nil, nil)
	done := w.inBackground("POST", "/v1/charges", chargeBody, header{"Pawl-Sandbox-Fault": "hold after"})
	list := w.wantStatus(<-held, 200, "").field("held").([]any)
	if len(list) != 1 {
		t.Fatalf("got %v, want one held request", list)
	}
	w.wantEffects(1, sandbox.Filter{})
	if got := w.wantStatus(w.send("POST", "/admin/release", map[string]any{"request": list[0]}, nil), 200, ""); got.field("released") != 1.0 {
		t.Errorf("got %s, want 1 released", got.body)
	}
	w.wantStatus(<-done, 201, "")
	if got := w.wantStatus(w.send("POST", "/admin/release", nil, nil), 200, ""); got.field("released") != 0.0 {
		t.Errorf("got %s, want 0 released", got.body)
	}
	for _, query := range []string{"?count=0", "?count=x", "?count=1&wait=2h", "?count=1&wait=x"} {
		w.wantStatus(w.send("GET", "/admin/held"+query, nil, nil), 400, "invalid_request")
	}
}

func TestAdminSeed(t *testing.T) {
	t.Parallel()
	w := setup(t, &sandbox.Options{NoDemo: true})
	w.wantStatus(w.send("GET", "/v1/orders/A-1182", nil, nil), 404, "not_found")
	w.wantStatus(w.send("POST", "/admin/seed", `{"orders":[{"id":"Z-1","amount":"12.50","currency":"EUR","customer":"Zoe"},{"id":"Z-2","amount":5,"currency":"JPY"}]}`, nil), 200, "")
	w.wantStatus(w.send("POST", "/v1/refunds", map[string]any{"order_id": "Z-1", "amount": "12.5", "currency": "EUR"}, nil), 201, "")
	w.wantStatus(w.send("POST", "/admin/seed", `{"orders":[{"id":"Z-3","amount":"1","currency":"EUR"},{"id":"Z-1","amount":"1","currency":"EUR"}]}`, nil), 409, "order_exists")
	w.wantStatus(w.send("GET", "/v1/orders/Z-3", nil, nil), 404, "not_found")
	w.wantStatus(w.send("POST", "/admin/seed", `{"orders":[{"id":"","amount":"1","currency":"EUR"}]}`, nil), 400, "invalid_request")
	w.wantStatus(w.send("POST", "/admin/seed", `{"orders":[{"id":"Z-4","amount":"1.234","currency":"EUR"}]}`, nil), 400, "invalid_request")
	w.wantEffects(1, sandbox.Filter{})
	if got := w.found("/v1/orders?customer=Zoe"); got != 1 {
		t.Errorf("got %d orders, want 1", got)
	}
}

func TestAdminToken(t *testing.T) {
	t.Parallel()
	w := setup(t, &sandbox.Options{AdminToken: "s3cret"})
	for _, auth := range []string{"", "Bearer", "Bearer wrong", "s3cret", "Basic s3cret"} {
		w.wantStatus(w.send("GET", "/admin/ledger", nil, header{"Authorization": auth}), 401, "unauthorized")
	}
	w.wantStatus(w.send("GET", "/admin/ledger", nil, header{"Authorization": "Bearer s3cret"}), 200, "")
	w.wantStatus(w.charge(chargeBody, nil), 201, "") // the services ask for nothing
}

func TestAdminRefusesOtherOrigins(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	got := w.send("DELETE", "/admin/ledger", nil, header{"Origin": "https://example.com", "Sec-Fetch-Site": "cross-site"})
	w.wantStatus(got, 403, "cross_origin")
}

// Everything that was set survives a restart, and Options decide over what was set before.
func TestReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	open := func(o sandbox.Options) *sandbox.Sandbox {
		t.Helper()
		o.Ledger, o.Clock = path, func() time.Time { return epoch }
		s, err := sandbox.Open(&o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(sandbox.Options{})
	if err := s.Advance(48 * time.Hour); err != nil {
		t.Fatal(err)
	}
	tickets := sandbox.DefaultMode("tickets")
	tickets.Lag = time.Minute
	if err := s.SetModes(map[string]sandbox.Mode{"tickets": tickets, "emails": tickets}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddFault(sandbox.QueuedFault{Line: "reset after", Match: sandbox.Match{Service: "refunds"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: got %v, want nil", err)
	}
	w := serve(t, open(sandbox.Options{Modes: map[string]sandbox.Mode{"emails": sandbox.DefaultMode("emails")}}))
	if got, want := w.Now(), epoch.Add(48*time.Hour); !got.Equal(want) {
		t.Errorf("got time %v, want %v", got, want)
	}
	if m := w.Modes(); m["tickets"] != tickets || m["emails"] != sandbox.DefaultMode("emails") {
		t.Errorf("got modes %+v", m)
	}
	wantReset(t, w.send("POST", "/v1/refunds", refundBody, nil))
	w.wantEffects(1, sandbox.Filter{}) // the demo orders were made once
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	bad := sandbox.DefaultMode("charges")
	bad.OnError = "heal"
	for _, o := range []*sandbox.Options{
		{Modes: map[string]sandbox.Mode{"loans": sandbox.DefaultMode("charges")}}, {Modes: map[string]sandbox.Mode{"charges": bad}},
		{Modes: map[string]sandbox.Mode{"charges": {}}}, {MaxInFlight: -1}, {MaxRequests: -1}, {Ledger: filepath.Join(t.TempDir(), "no", "such", "folder.db")},
	} {
		if s, err := sandbox.Open(o); err == nil {
			s.Close()
			t.Errorf("%+v: got no error", o)
		}
	}
	text := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database at all\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := sandbox.Open(&sandbox.Options{Ledger: text}); err == nil {
		s.Close()
		t.Error("got no error for a text file")
	}
	other := filepath.Join(t.TempDir(), "other.db")
	tamper(t, other, `CREATE TABLE notes (text TEXT)`)
	if _, err := sandbox.Open(&sandbox.Options{Ledger: other}); !errors.Is(err, sandbox.ErrNotALedger) {
		t.Errorf("got %v, want ErrNotALedger", err)
	}
}

// A ledger that cannot be written answers for itself and does nothing.
func TestLedgerFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	w := setup(t, &sandbox.Options{Ledger: path})
	tamper(t, path, `DROP TABLE effects`)
	w.wantStatus(w.send("POST", "/v1/refunds", refundBody, keyed("k1")), 500, "ledger_failed")
	if got := w.found("/v1/refunds?key=k1"); got != 0 {
		t.Errorf("got %d refunds without an effect, want 0", got)
	}
	w.wantStatus(w.send("GET", "/admin/ledger", nil, nil), 500, "ledger_failed")
}

func TestTemporaryLedgerIsRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir) // not parallel: the environment is the process's own
	s, err := sandbox.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadDir(dir)
	if err != nil || len(made) != 1 {
		t.Errorf("got %v, %v; want one folder", made, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v; want nothing left", left, err)
	}
}
