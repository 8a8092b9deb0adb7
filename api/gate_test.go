package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// keys is a set of tokens that can be taken back.
type keys struct {
	mu sync.Mutex
	of map[string]Principal
}

func (k *keys) authenticate(token string) (Principal, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.of[token]
	return p, ok
}

func (k *keys) revoke(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, token)
}

func people() *keys {
	return &keys{of: map[string]Principal{
		"ana":  {Tenant: "acme", Actor: "ana", Scopes: []Scope{ScopeCall, ScopeRead}},
		"ben":  {Tenant: "acme", Actor: "ben", Scopes: []Scope{ScopeCall, ScopeRead}},
		"cleo": {Tenant: "acme", Actor: "cleo", Scopes: []Scope{ScopeRead, ScopeSettle}},
		"eve":  {Tenant: "evil", Actor: "ana", Scopes: Scopes},
		"only": {Tenant: "acme", Actor: "ana", Scopes: []Scope{ScopeCall}},
		"none": {Tenant: "acme", Actor: "ana"},
	}}
}

// routes lists every route that the document has, each with a sound request.
func routes(t *testing.T, c *client) map[string]string {
	t.Helper()
	list := map[string]string{"GET /openapi.json": ""}
	for path, methods := range c.doc.at("paths").(map[string]any) {
		for method := range methods.(map[string]any) {
			list[strings.ToUpper(method)+" "+strings.NewReplacer("{id}", "op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e", "{run}", "run-1").Replace(path)] = ""
		}
	}
	for r, body := range map[string]string{
		"POST /v1/calls":   `{"tool":"none"}`,
		"POST /v1/permits": `{"tool":"none"}`,
		"POST /v1/permits/op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e/report":    `{"attempt":1,"token":"1","outcome":"not_sent"}`,
		"POST /v1/operations/find":                                       `{"tool":"none"}`,
		"POST /v1/reviews/op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e/decisions": `{"version":1,"choice":"happened","why":"seen"}`,
		"POST /v1/reviews/decisions":                                     `{"id":"d1","choice":"note","why":"seen","items":[{"id":"op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e","version":1}]}`,
		"POST /v1/reviews/preview":                                       `{"choice":"approve"}`,
		"POST /v1/runs/run-1/plan":                                       `{"steps":[{"step":"1","tool":"none"}]}`,
		"POST /v1/runs/run-1/abort":                                      `{"why":"it is off","who":"ana"}`,
	} {
		if _, there := list[r]; !there {
			t.Errorf("the document lacks %s", r)
		}
		list[r] = body
	}
	if len(list) != 22 {
		t.Errorf("got %d routes, want 22: say here what a new one takes: %v", len(list), list)
	}
	return list
}

// decides reports whether a route is for those who decide.
func decides(route string) bool {
	return strings.HasSuffix(route, "/decisions") || strings.HasSuffix(route, "/preview")
}

// calls reports whether a route is for those who make calls.
func calls(route string) bool {
	return route == "POST /v1/calls" || strings.HasPrefix(route, "POST /v1/runs/") || strings.HasPrefix(route, "POST /v1/permits")
}

// open routes are those that need no token.
var openRoutes = map[string]bool{"GET /healthz": true, "GET /readyz": true, "GET /openapi.json": true}

// try asks a route and gives the status. It reads no stream.
func try(t *testing.T, c *client, route, body string, change func(r *http.Request)) (status int, code string) {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := c.request(t, method, path, body).WithContext(ctx)
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var text strings.Builder
	if answer.Header.Get("Content-Type") == problemType {
		var b [4096]byte
		n, _ := answer.Body.Read(b[:])
		text.Write(b[:n])
		var p Problem
		decode(t, text.String(), &p)
		return answer.StatusCode, string(p.Code)
	}
	return answer.StatusCode, ""
}

// TestEveryRouteIsGuarded calls each route without a token, with a wrong one, with one
// that has no scope, and with those that may use it.
func TestEveryRouteIsGuarded(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) { set.api.Authenticate = people().authenticate })
	for route, body := range routes(t, s.client) {
		if openRoutes[route] {
			if got, _ := try(t, s.client, route, body, nil); got != http.StatusOK {
				t.Errorf("%s without a token: got %d, want 200", route, got)
			}
			continue
		}
		for name, change := range map[string]func(r *http.Request){
			"no token":        func(r *http.Request) { r.Header.Del("Authorization") },
			"unknown token":   func(r *http.Request) { r.Header.Set("Authorization", "Bearer mallory") },
			"empty token":     func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
			"another scheme":  func(r *http.Request) { r.Header.Set("Authorization", "Basic ana") },
			"two tokens":      func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer ana", "Bearer eve"} },
			"token elsewhere": func(r *http.Request) { r.Header.Set("X-Api-Key", "ana"); r.Header.Del("Authorization") },
		} {
			if got, code := try(t, s.client, route, body, change); got != http.StatusUnauthorized || code != string(CodeUnauthorized) {
				t.Errorf("%s with %s: got %d %s, want 401", route, name, got, code)
			}
		}
		if got, code := try(t, s.as("none"), route, body, nil); got != http.StatusForbidden || code != string(CodeScopeMissing) {
			t.Errorf("%s without a scope: got %d %s, want 403", route, got, code)
		}
		may := map[string]bool{}
		for _, who := range []string{"only", "ana", "cleo"} {
			got, _ := try(t, s.as(who), route, body, nil)
			may[who] = got != http.StatusForbidden
		}
		want := map[string]bool{"only": false, "ana": true, "cleo": true} // what reads
		switch {
		case route == "GET /metrics":
			want = map[string]bool{"only": false, "ana": false, "cleo": false} // they have a tenant
		case route == "GET /v1/tools":
			want["only"] = true
		case calls(route):
			want = map[string]bool{"only": true, "ana": true, "cleo": false}
		case decides(route):
			want = map[string]bool{"only": false, "ana": false, "cleo": true}
		}
		if fmt.Sprint(may) != fmt.Sprint(want) {
			t.Errorf("%s: got may %v, want %v", route, may, want)
		}
		method, path, _ := strings.Cut(route, " ")
		if got, code := try(t, s.as("ana"), method+" "+path+"?tenant=evil", body, nil); !decides(route) && (got != http.StatusForbidden || code != string(CodeOtherTenant)) {
			t.Errorf("%s with another tenant's name: got %d %s, want 403", route, got, code)
		}
		if body != "" {
			other := strings.Replace(body, "{", `{"tenant":"evil",`, 1)
			if got, code := try(t, s.as("cleo"), route, other, nil); !calls(route) && (got != http.StatusForbidden || code != string(CodeOtherTenant)) {
				t.Errorf("%s with another tenant in the body: got %d %s, want 403", route, got, code)
			}
		}
	}
	if got, code := try(t, s.as("ana"), "POST /v1/calls", `{"tool":"x","tenant":"evil"}`, nil); got != http.StatusForbidden || code != string(CodeOtherTenant) {
		t.Errorf("a call for another tenant: got %d %s, want 403", got, code)
	}
	if got, _ := try(t, s.as("ana"), "POST /v1/calls", `{"tool":"x","tenant":"acme"}`, nil); got != http.StatusOK {
		t.Errorf("a call that names its own tenant: got %d, want 200", got)
	}
}

// TestRouteWithoutRule: what does not say who may use it is not served.
func TestRouteWithoutRule(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for name, add := range map[string]func(){
		"a route of the framework's": func() {
			huma.Get(s.door.huma, "/v1/forgotten", func(context.Context, *struct{}) (*health, error) { return nil, nil })
		},
		"a route without a rule": func() {
			register(s.door, route{}, huma.Operation{OperationID: "forgotten", Method: "GET", Path: "/v1/forgotten"},
				func(context.Context, *struct{}) (*health, error) { return nil, nil })
		},
		"a plain handler": func() { s.door.gate.handle("GET /v1/forgotten", route{}, func(http.ResponseWriter, *http.Request) {}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was registered", name)
				}
			}()
			add()
		}()
	}
	s.do(t, "GET", "/v1/forgotten", "").wants(t, 404, CodeNotFound)
}

// TestHostileBrowsers calls every route as pages of other sites and rebound names do.
func TestHostileBrowsers(t *testing.T) {
	t.Parallel()
	s := open(t, func(set *setting) { set.api.AllowedHosts = []string{"pawl.internal"} })
	own := strings.TrimPrefix(s.url, "http://")
	for route, body := range routes(t, s.client) {
		for _, c := range []struct {
			name string
			host string
			set  map[string]string
			code Code // empty: let through
		}{
			{"rebound name", "evil.example", nil, CodeHostRefused},
			{"rebound name with our port", "evil.example:" + own[strings.LastIndex(own, ":")+1:], nil, CodeHostRefused},
			{"loopback as a prefix", "127.0.0.1.evil.example", nil, CodeHostRefused},
			{"localhost as a prefix", "localhost.evil.example", nil, CodeHostRefused},
			{"another address", "10.0.0.1", nil, CodeHostRefused},
			{"unspecified address", "0.0.0.0", nil, CodeHostRefused},
			{"subdomain of an allowed name", "x.pawl.internal", nil, CodeHostRefused},
			{"user in the name", "localhost@evil.example", nil, CodeHostRefused},
			{"other origin", own, map[string]string{"Origin": "http://evil.example"}, CodeOriginRefused},
			{"null origin", own, map[string]string{"Origin": "null"}, CodeOriginRefused},
			{"other port", own, map[string]string{"Origin": "http://127.0.0.1:1"}, CodeOriginRefused},
			{"other loopback name", own, map[string]string{"Origin": "http://localhost"}, CodeOriginRefused},
			{"extension", own, map[string]string{"Origin": "chrome-extension://abc"}, CodeOriginRefused},
			{"origin that is none", own, map[string]string{"Origin": "http://%zz"}, CodeOriginRefused},
			{"other origin, said to be same", own, map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, CodeOriginRefused},
			{"cross-site", own, map[string]string{"Sec-Fetch-Site": "cross-site"}, CodeOriginRefused},
			{"same site", own, map[string]string{"Sec-Fetch-Site": "same-site"}, CodeOriginRefused},
			{"cross-site with our origin", own, map[string]string{"Origin": s.url, "Sec-Fetch-Site": "cross-site"}, CodeOriginRefused},
			{"unknown site", own, map[string]string{"Sec-Fetch-Site": "canary"}, CodeOriginRefused},

			{"a program", own, nil, ""},
			{"our page", own, map[string]string{"Origin": s.url, "Sec-Fetch-Site": "same-origin"}, ""},
			{"the address bar", own, map[string]string{"Sec-Fetch-Site": "none"}, ""},
			{"localhost", "localhost", nil, ""},
			{"localhost in capitals", "LOCALHOST:80", nil, ""},
			{"IPv6", "[::1]:80", nil, ""},
			{"allowed name", "pawl.internal:443", map[string]string{"Origin": "https://pawl.internal:443"}, ""},
		} {
			got, code := try(t, s.client, route, body, func(r *http.Request) {
				r.Host = c.host
				for name, value := range c.set {
					r.Header.Set(name, value)
				}
			})
			if c.code != "" && (got != http.StatusForbidden || code != string(c.code)) || c.code == "" && got == http.StatusForbidden {
				t.Errorf("%s from %s: got %d %s, want %s", route, c.name, got, code, c.code)
			}
		}
	}
}

// TestTokenWhereNoneIsAskedFor: a client that has a token expects its own tenant.
func TestTokenWhereNoneIsAskedFor(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.as("ana").do(t, "GET", "/v1/operations", "").wants(t, 401, CodeUnauthorized)
}

// TestTenantsAndActorsNeverMeet: what is another tenant's is not there, and what is another
// actor's shows its status and nothing else.
func TestTenantsAndActorsNeverMeet(t *testing.T) {
	t.Parallel()
	id := []pawl.Field{pawl.Text("id")}
	do := func(context.Context, nothing) (map[string]string, error) {
		return map[string]string{"secret": "canary"}, nil
	}
	s := open(t, func(set *setting) {
		set.api.Authenticate = people().authenticate
		set.tools = []*pawl.Tool{
			pawl.NewFunc(pawl.Contract{Tool: "own", Identity: id}, do, nil),
			pawl.NewFunc(pawl.Contract{Tool: "shared", Identity: id, Shared: true}, do, nil),
		}
	})
	ana, ben, cleo, eve := s.as("ana"), s.as("ben"), s.as("cleo"), s.as("eve")
	const call = `{"tool":%q,"run":"r","step":"1","args":{"id":"canary"}}`
	own, shared := fmt.Sprintf(call, "own"), fmt.Sprintf(call, "shared")
	env := ana.call(t, own)
	common := ana.call(t, shared)
	path, reviewPath := "/v1/operations/"+env.OperationID, "/v1/reviews/"+env.OperationID

	unknown := eve.do(t, "GET", "/v1/operations/op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e", "")
	unknown.wants(t, 404, CodeNotFound)
	for _, r := range []struct{ method, path, body string }{
		{"GET", path, ""}, {"GET", path + "/history", ""}, {"POST", "/v1/operations/find", own},
		{"GET", reviewPath, ""}, {"POST", reviewPath + "/decisions", `{"version":1,"choice":"happened","why":"mine"}`},
	} {
		if got := eve.do(t, r.method, r.path, r.body); got.status != unknown.status || got.body != unknown.body {
			t.Errorf("%s %s of another tenant: got %d %s, want exactly the answer for an unknown id: %s", r.method, r.path, got.status, got.body, unknown.body)
		}
	}
	if mine := eve.call(t, own); mine.OperationID == env.OperationID || mine.ActionTaken != pawl.Executed {
		t.Errorf("another tenant's call: got %s %s, want an operation of its own", mine.ActionTaken, mine.OperationID)
	}

	for _, r := range []reply{ben.do(t, "GET", path, ""), ben.do(t, "POST", "/v1/operations/find", own), ben.do(t, "POST", "/v1/calls", own)} {
		if r.status != 200 || strings.Contains(r.body, "canary") || !strings.Contains(r.body, string(pawl.Succeeded)) || !strings.Contains(r.body, string(pawl.ReasonNotYours)) {
			t.Errorf("another actor's operation: got %d %s, want its status alone", r.status, r.body)
		}
	}
	ben.do(t, "GET", path+"/history", "").wants(t, 403, CodeOtherActor)
	ben.do(t, "GET", reviewPath, "").wants(t, 403, CodeOtherActor)
	var page Page
	ben.do(t, "GET", "/v1/operations", "").into(t, 200, &page)
	if len(page.Operations) != 1 || page.Operations[0].ID != common.OperationID {
		t.Errorf("another actor's list: got %+v, want the shared operation alone", page.Operations)
	}
	var all Page
	cleo.do(t, "GET", "/v1/operations", "").into(t, 200, &all)
	if len(all.Operations) != 2 {
		t.Errorf("the list of who settles: got %+v, want every operation of the tenant", all.Operations)
	}
	if r := cleo.do(t, "GET", path+"/history", ""); r.status != 200 || !strings.Contains(r.body, "evidence") {
		t.Errorf("the history for who settles: got %d %s, want the evidence", r.status, r.body)
	}
	cleo.do(t, "POST", reviewPath+"/decisions", `{"version":1,"choice":"happened","why":"seen","who":"ana"}`).wants(t, 403, CodeOtherActor)
	cleo.do(t, "POST", reviewPath+"/decisions", `{"version":2,"choice":"happened","why":"seen","who":"cleo"}`).wants(t, 409, Code(pawl.RefusedStatus))
}

// TestPages walks a list from the newest to the oldest.
func TestPages(t *testing.T) {
	t.Parallel()
	do := func(context.Context, nothing) (nothing, error) { return nothing{}, nil }
	s := open(t, func(set *setting) {
		set.tools = []*pawl.Tool{pawl.NewFunc(pawl.Contract{Tool: "do", Identity: []pawl.Field{pawl.Text("id")}}, do, nil)}
	})
	var want []string
	for i := range 5 {
		env := s.call(t, fmt.Sprintf(`{"tool":"do","run":"r","args":{"id":"%d"}}`, i))
		want = append([]string{env.OperationID}, want...)
	}
	var got []string
	for before := ""; ; {
		var page Page
		s.do(t, "GET", "/v1/operations?limit=2"+before, "").into(t, 200, &page)
		for _, op := range page.Operations {
			got = append(got, op.ID)
		}
		if page.Next == "" {
			break
		}
		before = "&before=" + page.Next
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPanic: a handler that panics answers with a problem that tells nothing of it.
func TestPanic(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	bad := s.door.recovered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("canary") }))
	w := newRecorder()
	bad.ServeHTTP(w, s.request(t, "GET", "/", ""))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "canary") || w.Header().Get("Content-Type") != problemType {
		t.Errorf("got %d %s, want a problem 500 without what the panic held", w.Code, w.Body)
	}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("half an answer: got %v, want the connection to be cut", v)
		}
	}()
	s.door.recovered(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic("canary")
	})).ServeHTTP(newRecorder(), s.request(t, "GET", "/", ""))
}
