package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// TestMalformedRequests: each is refused with what is wrong and where, and with nothing of
// what was sent.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		code               Code
		where              string
	}{
		{"POST", "/v1/calls", `{"tool":"canary"`, 400, CodeInvalidJSON, "body"},
		{"POST", "/v1/calls", `{"tool":"a","tool":"canary"}`, 400, CodeInvalidJSON, "body/tool"},
		{"POST", "/v1/calls", `{"tool":"a","Tool":"canary"}`, 400, CodeInvalidJSON, "body/Tool"},
		{"POST", "/v1/calls", `{"tool":"a","args":{"x":{"y":"canary","y":1}}}`, 400, CodeInvalidJSON, "body/args/x/y"},
		{"POST", "/v1/calls", "{\"tool\":\"canary\xff\"}", 400, CodeInvalidJSON, "body/tool"},
		{"POST", "/v1/calls", `{"tool":"canary\u0000"}`, 400, CodeInvalidJSON, "body/tool"},
		{"POST", "/v1/calls", `{"tool":"a"} "canary"`, 400, CodeInvalidJSON, "body"},
		{"POST", "/v1/calls", `{"tool":"a","args":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, 400, CodeInvalidJSON, ""},
		{"POST", "/v1/calls", `["canary"]`, 422, CodeInvalidRequest, "body"},
		{"POST", "/v1/calls", `null`, 422, CodeInvalidRequest, "body"},
		{"POST", "/v1/calls", `{"TOOL":"canary"}`, 422, CodeInvalidRequest, "body.TOOL"},
		{"POST", "/v1/calls", `{"tool":"a","key":"canary"}`, 422, CodeInvalidRequest, "body.key"},
		{"POST", "/v1/calls", `{"tool":"a","actor":"canary"}`, 422, CodeInvalidRequest, "body.actor"},
		{"POST", "/v1/calls", `{"run":"canary"}`, 422, CodeInvalidRequest, "body"},
		{"POST", "/v1/calls", `{"tool":["canary"]}`, 422, CodeInvalidRequest, "body.tool"},
		{"POST", "/v1/calls", `{"tool":"a","run":null}`, 422, CodeInvalidRequest, "body.run"},
		{"POST", "/v1/calls", `{"tool":"a","args":"canary"}`, 422, CodeInvalidRequest, "body.args"},
		{"POST", "/v1/calls", `{"tool":"a","again":"canary"}`, 422, CodeInvalidRequest, "body.again"},
		{"POST", "/v1/calls", `{"tool":"a","deadline_ms":0}`, 422, CodeInvalidRequest, "body.deadline_ms"},
		{"POST", "/v1/calls", `{"tool":"a","deadline_ms":600001}`, 422, CodeInvalidRequest, "body.deadline_ms"},
		{"POST", "/v1/calls", `{"tool":"a","deadline_ms":1.5}`, 422, CodeInvalidRequest, "body.deadline_ms"},
		{"POST", "/v1/calls", `{"tool":"a","deadline_ms":1e999}`, 422, CodeInvalidRequest, "body.deadline_ms"},
		{"POST", "/v1/calls", `{"tool":"a","deadline_ms":4242e2}`, 422, CodeInvalidRequest, "body"},
		{"POST", "/v1/calls", `{"tool":"a","attributes":{"x":{"canary":1}}}`, 422, CodeInvalidRequest, "body.attributes.x"},
		{"POST", "/v1/calls", `{"tool":"a","tenant":7}`, 422, CodeInvalidRequest, "body.tenant"},
		{"POST", "/v1/calls?canary=1", `{"tool":"a"}`, 422, CodeInvalidRequest, ""},
		{"POST", "/v1/operations/find", `{"tool":"a","again":true}`, 422, CodeInvalidRequest, "body.again"},
		{"POST", "/v1/operations/find", `{"tool":"canary"}`, 422, Code(pawl.ReasonUnknownTool), ""},
		{"POST", "/v1/operations/find", `{"tool":"issue_refund","run":"r","args":{"currency":"canary"}}`, 422, Code(pawl.ReasonIdentityMissing), ""},
		{"POST", "/v1/operations/find", `{"tool":"issue_refund","args":{"order_id":"canary","currency":"EUR"}}`, 422, Code(pawl.ReasonRunRequired), ""},
		{"POST", "/v1/reviews/canary/decisions", `{"version":1,"choice":"happened","why":"x","who":"ana"}`, 422, CodeInvalidRequest, "path.id"},
		{"POST", "/v1/reviews/op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e/decisions", `{"version":"canary","choice":"happened","why":"x"}`, 422, CodeInvalidRequest, "body.version"},
		{"POST", "/v1/reviews/op_0192f0c2a7e17b0c8d4e5f6a7b8c9d0e/decisions", `{"version":1,"choice":"happened","why":"x","who":"ana"}`, 404, CodeNotFound, ""},
		{"GET", "/v1/operations/canary", "", 422, CodeInvalidRequest, "path.id"},
		{"GET", "/v1/operations?status=canary", "", 422, CodeInvalidRequest, "query.status"},
		{"GET", "/v1/operations?open=canary", "", 422, CodeInvalidRequest, "query.open"},
		{"GET", "/v1/operations?limit=canary", "", 422, CodeInvalidRequest, "query.limit"},
		{"GET", "/v1/operations?limit=0", "", 422, CodeInvalidRequest, "query.limit"},
		{"GET", "/v1/operations?limit=201", "", 422, CodeInvalidRequest, "query.limit"},
		{"GET", "/v1/operations?before=canary", "", 422, CodeInvalidRequest, "query.before"},
		{"GET", "/v1/operations?key=canary", "", 422, CodeInvalidRequest, "query.key"},
		{"GET", "/v1/operations?run=a&run=canary", "", 422, CodeInvalidRequest, "query.run"},
		{"GET", "/v1/operations?a=%zzcanary", "", 400, CodeInvalidRequest, ""},
		{"GET", "/v1/tools", `{"x":"canary"}`, 400, CodeInvalidRequest, ""},
		{"DELETE", "/v1/calls", "", 405, CodeMethodNotAllowed, ""},
		{"GET", "/v1/canary", "", 404, CodeNotFound, ""},
	} {
		r := s.do(t, c.method, c.path, c.body)
		p := r.wants(t, c.status, c.code)
		if c.where != "" && (len(p.Faults) == 0 || p.Faults[0].Where != c.where) {
			t.Errorf("%s %s %.60s: got faults %v, want one at %s", c.method, c.path, c.body, p.Faults, c.where)
		}
		if strings.Contains(strings.ReplaceAll(r.body, "query.canary", ""), "canary") || strings.Contains(r.body, "4242") {
			t.Errorf("%s %s %.60s: the answer repeats what was sent: %s", c.method, c.path, c.body, r.body)
		}
	}
}

// TestBodyLimits: only so much, only JSON, only as it is.
func TestBodyLimits(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	fill := func(n int) string {
		const head, tail = `{"tool":"none","args":{"x":"`, `"}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	s.do(t, "POST", "/v1/calls", fill(MaxBody)).into(t, 200, &pawl.Envelope{})
	s.do(t, "POST", "/v1/calls", fill(MaxBody+1)).wants(t, 413, CodeTooLarge)
	for name, change := range map[string]func(r *http.Request){
		"no type":      func(r *http.Request) { r.Header.Del("Content-Type") },
		"a form":       func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") },
		"text":         func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"a bad type":   func(r *http.Request) { r.Header.Set("Content-Type", "application/json;;=") },
		"a type's kin": func(r *http.Request) { r.Header.Set("Content-Type", "application/merge-patch+json") },
		"gzip":         func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") },
	} {
		r := s.request(t, "POST", "/v1/calls", `{"tool":"none"}`)
		change(r)
		if got := s.send(t, r, ""); got.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: got %d, want 415", name, got.status)
		}
	}
	r := s.request(t, "POST", "/v1/calls", `{"tool":"none"}`)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	s.send(t, r, "").into(t, 200, &pawl.Envelope{})
	r = s.request(t, "POST", "/v1/calls", "")
	r.Header.Set("Content-Type", "application/json")
	s.send(t, r, "").wants(t, 400, CodeInvalidJSON)
	r = s.request(t, "GET", "/v1/tools", "")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), -1 // in chunks
	s.send(t, r, "").wants(t, 400, CodeInvalidRequest)
}

// FuzzCall: whatever comes as the body of a call, the answer is an envelope or a problem,
// never a failure of ours, and a call that is taken is one that our strict reader takes.
func FuzzCall(f *testing.F) {
	for _, seed := range []string{
		`{"tool":"do","run":"r","step":"1","args":{"id":"A","n":1.50},"again":true,"deadline_ms":5000,"attributes":{"a":"b"}}`,
		`{"tool":"do","run":"r","args":{"id":1e400}}`, `{"tool":null}`, `{"tool":"do","deadline_ms":1e999}`, `{"tool":"\ud800"}`,
		`{"tool":"do","args":{"id":"\u0000"}}`, `[]`, `{"TOOL":"do"}`, "{\"tool\":\"\xff\"}", `{"tool":"do","tenant":"x"}`, ` `,
	} {
		f.Add([]byte(seed))
	}
	quiet := slog.New(slog.DiscardHandler)
	store := storetest.NewMemory()
	ex := pawl.New(store, &pawl.Options{Log: quiet})
	do := func(context.Context, nothing) (nothing, error) { return nothing{}, nil }
	if err := ex.Register(pawl.NewFunc(pawl.Contract{Tool: "do", Identity: []pawl.Field{pawl.Text("id")}}, do, nil)); err != nil {
		f.Fatal(err)
	}
	h := New(ex, store, &Options{Log: quiet})
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest("POST", "http://localhost/v1/calls", strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		w := newRecorder()
		h.ServeHTTP(w, r)
		var code Code
		switch w.Code {
		case http.StatusOK:
			var env pawl.Envelope
			if err := json.Unmarshal(w.Body.Bytes(), &env); err != nil || env.Status == "" || env.NextAction == "" {
				t.Errorf("got %s, %v, want an envelope", w.Body, err)
			}
			if _, err := pawl.ParseJSONLimit(body, MaxBody); err != nil {
				t.Errorf("a body was taken that is refused: %v", err)
			}
			return
		case 400, 403, 413, 422:
			var p Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Errorf("got %s, %v, want a problem", w.Body, err)
			}
			code = p.Code
		}
		if code == "" {
			t.Errorf("got %d %s, want an envelope or a problem with what was sent", w.Code, w.Body)
		}
	})
}
