package contract

import (
	"io"
	"net/http"
	"testing"

	"github.com/pawl-dev/pawl"
)

// The upstream alone can say that an effect is absent or fenced off, and only of now.
func TestAnswerOfAnother(t *testing.T) {
	t.Parallel()
	const terms = `
class: keyed
identity: [id]
request: {method: POST, path: /pay, body: args}
key: {carrier: header, name: Idempotency-Key}
probe:
  request: {path: "/pays/{key}"}
  by: key
  match: response.status == 200
  absent: response.status == 404
fence:
  request: {method: POST, path: "/pays/{key}/cancel"}
  found: "false"
  held: response.status == 404 || response.status == 200
`
	const page = "<!doctype html><html>no healthy upstream</html>"
	const shape = `error_shape: has(response.body.code)`
	for _, c := range []struct {
		name, extra, media, age, body string
		status                        int
		probe                         pawl.ProbeOutcome
		fence                         pawl.FenceOutcome
	}{
		{"its own 404", "", "application/json", "", `{"code":"not_found"}`, 404, pawl.Absent, pawl.FenceHeld},
		{"its own 404 by shape", shape, "application/json", "0", `{"code":"not_found"}`, 404, pawl.Absent, pawl.FenceHeld},
		{"404 in another shape", shape, "application/json", "", `{"message":"no route"}`, 404, pawl.Inconclusive, pawl.FenceInconclusive},
		{"404 page", "", "text/html", "", page, 404, pawl.Inconclusive, pawl.FenceInconclusive},
		{"404 text", "", "text/plain", "", "404 page not found", 404, pawl.Inconclusive, pawl.FenceInconclusive},
		{"404 of a cache", "", "application/json", "600", `{"code":"not_found"}`, 404, pawl.Inconclusive, pawl.FenceInconclusive},
		{"200 page", "", "text/html", "", page, 200, pawl.Inconclusive, pawl.FenceInconclusive},
		{"200 page that calls itself JSON", "", "application/json", "", page, 200, pawl.Inconclusive, pawl.FenceInconclusive},
		{"200 of its own", "", "application/json", "", `{"id":"p1"}`, 200, pawl.Found, pawl.FenceHeld},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, func(w http.ResponseWriter, _ *received) {
				w.Header().Set("Content-Type", c.media)
				if c.age != "" {
					w.Header().Set("Age", c.age)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			tool := setup(t, p.URL, terms+c.extra+"\n", nil)
			op := begin(t, tool, `{"id":"A"}`)
			if got := probeOf(t, tool, op); got.Outcome != c.probe {
				t.Errorf("probe: got %+v, want %s", got, c.probe)
			}
			if got := p.last(t).Header.Get("Cache-Control"); got != "no-cache" {
				t.Errorf("cache control of a probe: got %q, want no-cache", got)
			}
			if got := tool.Port.(pawl.Fencer).Fence(t.Context(), op); got.Outcome != c.fence {
				t.Errorf("fence: got %+v, want %s", got, c.fence)
			}
		})
	}
}
