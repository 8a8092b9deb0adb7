package contract

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// The limit on an expression's cost counts the elements of lists whose type is dynamic.
func TestCostOfLists(t *testing.T) {
	t.Parallel()
	list := func(from int) string {
		var b []byte
		for i := range 16000 {
			b = append(strconv.AppendInt(b, int64(from+i), 10), ',')
		}
		return "[" + strings.TrimSuffix(string(b), ",") + "]"
	}
	for _, match := range []string{
		"response.body.a.filter(x, x in response.body.b)",
		"response.body.a.filter(x, response.body.a == response.body.a)",
	} {
		p := answering(t, 200, `{"a":`+list(0)+`,"b":`+list(16000)+`}`)
		tool := setup(t, p.URL, `
class: keyed
identity: [id]
request: {method: POST, path: /pay, body: args}
key: {carrier: header, name: Idempotency-Key}
probe:
  request: {path: /pays, query: {key: key}}
  by: key
  match: `+match, nil)
		op := begin(t, tool, `{"id":"A"}`)
		start := time.Now()
		got := probeOf(t, tool, op)
		if took := time.Since(start); got.Outcome != pawl.Inconclusive || took > 10*time.Second {
			t.Errorf("%s: got %s (%s) after %v, want inconclusive soon", match, got.Outcome, got.Error, took)
		}
	}
}

// Brackets with many entries are refused before the YAML library spends minutes on them.
func TestCrowdedBrackets(t *testing.T) {
	t.Parallel()
	const entries = 12_000
	for name, src := range map[string]string{
		"mapping":  "version: 1\ntools: {" + strings.Repeat("k: 1, ", entries) + "}\n",
		"list":     "version: 1\ntools: [" + strings.Repeat("1, ", entries) + "]\n",
		"nested":   "version: 1\ntools: {a: [" + strings.Repeat("{k: 1}, ", entries/2) + "]}\n",
		"unclosed": "version: 1\ntools: {" + strings.Repeat("k: 1, ", entries),
	} {
		start := time.Now()
		_, err := Parse("pawl.yaml", []byte(src), nil)
		if took := time.Since(start); err == nil || took > 10*time.Second {
			t.Errorf("%s: got %v after %v, want a problem soon", name, err, took)
		}
	}
}
