package server

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestTraceGoesThrough: a trace context that comes with a call reaches the provider, and the
// spans between reach the collector before the server is closed. Without a collector the
// context goes through unchanged.
func TestTraceGoesThrough(t *testing.T) {
	const trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	var mu sync.Mutex
	var arrived string
	spans := map[string]string{} // name to trace and parent
	ids := map[string]string{}
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		arrived = r.Header.Get("Traceparent")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"re_1"}`)
	}))
	defer shop.Close()
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		var got collectorpb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil {
			t.Error(err)
		}
		for _, of := range got.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					spans[s.Name] = hex.EncodeToString(s.TraceId) + " " + hex.EncodeToString(s.ParentSpanId)
					ids[s.Name] = hex.EncodeToString(s.SpanId)
				}
			}
		}
	}))
	defer collector.Close()

	call := func() {
		t.Helper()
		s := openTest(t, write(t, strings.Replace(sound, "http://127.0.0.1:9", shop.URL, 1)))
		addr, end := serving(t, s)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/calls", strings.NewReader(`{"tool":"refund","run":"r","args":{"order_id":"A-1"}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Traceparent", "00-"+trace+"-"+caller+"-01")
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), `"SUCCEEDED"`) {
			t.Fatalf("got %s, %v, want SUCCEEDED", body, err)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		closeTest(t, s)
	}
	call()
	if want := "00-" + trace + "-" + caller + "-01"; arrived != want || len(spans) > 0 {
		t.Errorf("without a collector: got trace context %q and spans %v, want the caller's own and none", arrived, spans)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	call()
	if want := trace + " " + caller; spans["execute_tool refund"] != want {
		t.Errorf("got spans %v, want the call inside the caller's", spans)
	}
	if want := trace + " " + ids["execute_tool refund"]; spans["attempt refund"] != want {
		t.Errorf("got spans %v, want the attempt inside the call", spans)
	}
	if want := "00-" + trace + "-" + ids["attempt refund"] + "-01"; arrived != want {
		t.Errorf("got trace context %q at the provider, want %q", arrived, want)
	}
}
