package contract

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

const canary = "canary-5f2b9e"

func canaryOptions(value string) *Options {
	return &Options{
		Getenv: func(name string) (string, bool) { return value, name == "PAY_TOKEN" },
		ReadFile: func(path string) ([]byte, error) {
			if path != "/run/secrets/pay" {
				return nil, errors.New("no such file")
			}
			return []byte(value + "-file\n"), nil
		},
	}
}

const credentialFile = `
version: 1
upstreams:
  up:
    url: URL
    headers:
      Authorization: Bearer ${env:PAY_TOKEN}
      X-Second: $1 ${file:/run/secrets/pay}!
tools:
  t:
    upstream: up
    class: keyed
    identity: [id]
    request:
      method: POST
      path: /pay
      body: args
      headers:
        X-Note: "{args.note}"
    key: {carrier: header, name: Idempotency-Key}
    probe:
      request: {path: /find, query: {key: key}}
      by: key
      match: response.body.found
`

// Credentials reach the provider and are in nothing that is stored or shown.
func TestCredentialsAreJoinedAtSend(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	src := strings.ReplaceAll(credentialFile, "URL", p.URL)
	tool := setupFile(t, src, canaryOptions(canary))
	// The argument tries to have a secret put into a header that a log may show.
	op := begin(t, tool, `{"id":"A","note":"${env:PAY_TOKEN} $$ $"}`)
	if strings.Contains(string(op.Request), canary) {
		t.Errorf("the stored request holds the credential:\n%s", op.Request)
	}
	if !strings.Contains(string(op.Request), "Authorization: Bearer ${env:PAY_TOKEN}\n") {
		t.Errorf("the stored request does not name the credential:\n%s", op.Request)
	}
	ev := send(t, tool, op)
	if ev.Class != pawl.ClassSucceeded {
		t.Fatalf("got %+v", ev)
	}
	got := p.last(t)
	for name, want := range map[string]string{
		"Authorization": "Bearer " + canary, "X-Second": "$1 " + canary + "-file!", "X-Note": "${env:PAY_TOKEN} $$ $",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: got %q, want %q", name, got.Header.Get(name), want)
		}
	}
	probeOf(t, tool, op)
	if h := p.last(t).Header.Get("Authorization"); h != "Bearer "+canary {
		t.Errorf("probe: got %q", h)
	}
	for _, shown := range []any{ev, op, tool.Contract, Lint(mustParse(t, src, canaryOptions(canary)))} {
		b, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), canary) {
			t.Errorf("%T shows the credential: %s", shown, b)
		}
	}
}

// A credential that cannot be had, or cannot stand in a header, keeps the request from
// being sent; the reason names it and does not show it.
func TestCredentialMissing(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", canary + "\r\nX-Evil: 1", canary + "\x00", canary + "é"} {
		p := newProvider(t, nil)
		tool := setupFile(t, strings.ReplaceAll(credentialFile, "URL", p.URL), canaryOptions(value))
		ev := send(t, tool, begin(t, tool, `{"id":"A","note":"n"}`))
		if ev.Class != pawl.ClassNotSent || ev.Strength != pawl.P1 || len(p.received) != 0 {
			t.Errorf("%q: got %s %s and %d requests, want NOT_SENT and none", value, ev.Class, ev.Strength, len(p.received))
		}
		if strings.Contains(ev.Error, canary) || !strings.Contains(ev.Error, "${env:PAY_TOKEN}") {
			t.Errorf("%q: got %q, want the name and not the value", value, ev.Error)
		}
	}
	f := mustParse(t, strings.ReplaceAll(credentialFile, "URL", "https://pay.example.com"), &Options{Getenv: func(string) (string, bool) { return "", false }})
	if err := f.CheckSecrets(); !errors.Is(err, ErrSecret) {
		t.Errorf("got %v, want ErrSecret", err)
	}
}

// A stored text that was tampered with gets no credential to another place, and no
// credential that the contract does not name.
func TestTamperedRequestIsNotSent(t *testing.T) {
	t.Parallel()
	p, thief := newProvider(t, nil), newProvider(t, nil)
	o := canaryOptions(canary)
	o.Getenv = func(string) (string, bool) { return canary, true }
	tool := setupFile(t, strings.ReplaceAll(credentialFile, "URL", p.URL), o)
	for _, change := range []struct{ old, new string }{
		{p.URL, thief.URL},
		{p.URL, strings.Replace(p.URL, "http://", "http://user@", 1)},
		{"X-Note: n", "X-Note: ${env:PAWL_KEY_SECRET}"},
		{"X-Note: n", "X-Note: n\nX-Note: m"},
		{"POST ", "POST  "},
		{"POST ", "CONNECT "},
		{"\n\n", "\n"},
	} {
		op := begin(t, tool, `{"id":"A","note":"n"}`)
		op.Request = []byte(strings.Replace(string(op.Request), change.old, change.new, 1))
		if ev := send(t, tool, op); ev.Class != pawl.ClassNotSent {
			t.Errorf("%q to %q: got %s, want NOT_SENT", change.old, change.new, ev.Class)
		}
	}
	if n := len(p.received) + len(thief.received); n != 0 {
		t.Errorf("got %d requests, want none", n)
	}
}

// A rotated credential is seen without a restart.
func TestSecretFileIsReadAtSend(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	path := filepath.Join(t.TempDir(), "token")
	tool := setupFile(t, "version: 1\nupstreams:\n  up: {url: \""+p.URL+"\", headers: {Authorization: \"Bearer ${file:"+path+"}\"}}\n"+
		"tools:\n  t: {upstream: up, request: {method: POST, path: /t}, identity: [id]}\n", nil)
	op := begin(t, tool, `{"id":"A"}`)
	if ev := send(t, tool, op); ev.Class != pawl.ClassNotSent {
		t.Errorf("without the file: got %s, want NOT_SENT", ev.Class)
	}
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		send(t, tool, op)
		if got := p.last(t).Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("got %q, want %q", got, token)
		}
	}
	if err := os.WriteFile(path, make([]byte, maxReferenced+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if ev := send(t, tool, op); ev.Class != pawl.ClassNotSent {
		t.Errorf("with a huge file: got %s, want NOT_SENT", ev.Class)
	}
}
