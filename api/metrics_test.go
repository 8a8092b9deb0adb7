package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Metrics tell of every tenant: a tenant's token may not read them, and nobody without one.
func TestMetricsAreTheOperators(t *testing.T) {
	t.Parallel()
	principals := map[string]Principal{
		"operator": {Actor: "prometheus", Scopes: []Scope{ScopeRead}},
		"tenant":   {Tenant: "acme", Actor: "ana", Scopes: Scopes},
		"caller":   {Actor: "agent", Scopes: []Scope{ScopeCall}},
	}
	d := newDoor(nil, nil, &Options{
		Authenticate: func(token string) (Principal, bool) { p, ok := principals[token]; return p, ok },
		Metrics:      http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "pawl_open_complete 1\n") }),
	})
	for token, want := range map[string]int{"operator": 200, "tenant": 403, "caller": 403, "": 401, "nobody": 401} {
		r := httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		d.handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("token %q: got %d, want %d: %s", token, w.Code, want, w.Body)
		}
	}
}
