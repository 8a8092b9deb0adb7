package contract

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pawl-dev/pawl"
)

func TestUpstreamCertificates(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	o := &Options{ReadFile: func(string) ([]byte, error) { return ca, nil }}
	const terms = "\ntools:\n  t: {upstream: up, request: {method: POST, path: /t}, identity: [id]}\n"
	with := setupFile(t, "version: 1\nupstreams:\n  up: {url: \""+s.URL+"\", tls: {ca_file: /ca.pem, server_name: example.com}}"+terms, o)
	if ev := send(t, with, begin(t, with, `{"id":"A"}`)); ev.Class != pawl.ClassSucceeded {
		t.Errorf("got %s %s, want SUCCEEDED", ev.Class, ev.Error)
	}
	without := setupFile(t, "version: 1\nupstreams:\n  up: {url: \""+s.URL+"\"}"+terms, nil)
	if ev := send(t, without, begin(t, without, `{"id":"A"}`)); ev.Class != pawl.ClassNotSent {
		t.Errorf("got %s, want NOT_SENT", ev.Class)
	}
}

func TestPublicNetworkOnly(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	tool := setupFile(t, "version: 1\nupstreams:\n  up: {url: \""+p.URL+"\", network: public}\ntools:\n  t: {upstream: up, request: {method: POST, path: /t}, identity: [id]}\n", nil)
	if ev := send(t, tool, begin(t, tool, `{"id":"A"}`)); ev.Class != pawl.ClassNotSent || len(p.received) != 0 {
		t.Errorf("got %s and %d requests, want NOT_SENT and none", ev.Class, len(p.received))
	}
}
