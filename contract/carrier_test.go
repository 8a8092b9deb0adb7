package contract

import (
	"strings"
	"testing"
)

// A value of ours never takes the place of the key in the body.
func TestKeyKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for _, extra := range []string{
		"marker: {carrier: json_pointer, name: /metadata}",
		"marker: {carrier: json_pointer, name: /metadata/key/x}",
		"deadline_to: {json_pointer: /metadata/key}",
		"deadline_to: {json_pointer: /metadata}",
	} {
		src := "version: 1\nupstreams:\n  up:\n    url: http://127.0.0.1:9\ntools:\n  t:\n    upstream: up\n" + block(`
class: keyed
identity: [id]
request: {method: POST, path: /pay, body: args}
key: {carrier: json_pointer, name: /metadata/key}
`+extra)
		if _, err := Parse("pawl.yaml", []byte(src), nil); err == nil || !strings.Contains(err.Error(), "/metadata/key") {
			t.Errorf("%s: got %v, want a refusal that names /metadata/key", extra, err)
		}
	}
}
