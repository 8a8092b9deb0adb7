package contract

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

const echoFile = `
version: 1
upstreams:
  up:
    url: URL
    headers: {Authorization: "Bearer ${env:PAY_TOKEN}", X-Second: "${file:/run/secrets/pay}"}
tools:
  t:
    upstream: up
    class: keyed
    identity: [id]
    request: {method: POST, path: /pay, body: args}
    key: {carrier: header, name: Idempotency-Key}
    success: response.body.auth.startsWith("Bearer ")
    result: "{'auth': response.body.auth, 'location': response.header['Location']}"
    result_ref: response.body.auth
    on_duplicate: {when: response.status == 409, conflict_with_id: response.body.auth, read: {path: /read}}
    snapshot: {request: {path: /before}}
    probe:
      request: {path: "/find/{key}"}
      by: key
      match: "[response.body]"
      ref: match.second
    fence:
      request: {method: POST, path: /fence}
      found: response.status == 200
      ref: response.body.auth
      result: response.body
  r: {upstream: up, class: read, request: {path: /read}}
`

// A provider that repeats what it was sent gets no credential into what is kept or shown.
func TestEchoedCredentials(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	p := newProvider(t, func(w http.ResponseWriter, r *received) {
		auth, second := r.Header.Get("Authorization"), r.Header.Get("X-Second")
		w.Header().Set("Location", "/pay?auth="+auth+"&second="+second)
		if r.URL.Path == "/pay" {
			w.WriteHeader(status)
		}
		b, _ := json.Marshal(map[string]string{"auth": auth, "second": second})
		io.WriteString(w, strings.ReplaceAll(string(b), "/", `\/`))
	})
	f := mustParse(t, strings.Replace(echoFile, "URL", p.URL, 1), canaryOptions("canary/5f2b9e+77"))
	t.Cleanup(f.Close)
	tools, err := f.Tools()
	if err != nil {
		t.Fatal(err)
	}
	tool, read := tools[0], tools[1]
	op := begin(t, tool, `{"id":"A"}`)
	const body, result = `{"auth":"Bearer ***","second":"***"}`, `{"auth":"Bearer ***","location":"/pay?auth=Bearer ***&second=***"}`
	shows := func(name string, v any, got ...string) {
		t.Helper()
		if text := fmt.Sprintf("%q", v); strings.Contains(text, "5f2b9e") {
			t.Errorf("%s shows a credential: %s", name, text)
		}
		for i := 0; i < len(got); i += 2 {
			if got[i] != got[i+1] {
				t.Errorf("%s: got %s, want %s", name, got[i], got[i+1])
			}
		}
	}

	sent := send(t, tool, op)
	shows("send", sent, string(sent.Class), "SUCCEEDED", string(sent.Body), body, string(sent.Result), result, sent.Ref, "Bearer ***")
	if sent.BodySize <= int64(len(sent.Body)) {
		t.Errorf("got size %d of a body of %d, want that of what was received", sent.BodySize, len(sent.Body))
	}
	asked := send(t, read, begin(t, read, `{}`))
	shows("read", asked, string(asked.Body), body, string(asked.Result), body)
	found := probeOf(t, tool, op)
	shows("probe", found, string(found.Outcome), "found", string(found.Body), body, string(found.Result), body, strings.Join(found.Refs, " "), "***")
	held := tool.Port.(pawl.Fencer).Fence(t.Context(), op)
	shows("fence", held, string(held.Outcome), "found", string(held.Body), body, string(held.Result), body, held.Ref, "Bearer ***")
	before, err := tool.Port.(pawl.Snapshotter).Snapshot(t.Context(), &pawl.Invocation{Tool: "t", Key: op.Key})
	if err != nil {
		t.Fatal(err)
	}
	shows("snapshot", before, string(before), body)
	status = http.StatusConflict
	adopted := send(t, tool, op)
	shows("duplicate", adopted, adopted.Proof, "contract_duplicate", string(adopted.Body), body, string(adopted.Result), result)
}

// A body too large to be kept is known by the digest of what was received.
func TestEchoedCredentialInLargeBody(t *testing.T) {
	t.Parallel()
	body := `{"auth":"` + canary + `-long","rest":"` + strings.Repeat("x", pawl.MaxBody) + `"}`
	p := answering(t, 200, body)
	tool := setupFile(t, strings.ReplaceAll(credentialFile, "URL", p.URL), canaryOptions(canary+"-long"))
	ev := send(t, tool, begin(t, tool, `{"id":"A","note":"n"}`))
	if strings.Contains(string(ev.Body), canary) || strings.Contains(string(ev.Result), canary) {
		t.Errorf("got %.60s, want no credential", ev.Body)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); ev.BodySHA256 != want || ev.BodySize != int64(len(body)) {
		t.Errorf("got %s of %d bytes, want %s of %d", ev.BodySHA256, ev.BodySize, want, len(body))
	}
}
