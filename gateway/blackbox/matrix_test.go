package blackbox

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

var update = flag.Bool("update", false, "rewrite the table of docs/mcp-faults.md")

// atOnce is how many tests run side by side: they wait for processes more than they work.
const atOnce = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err) // the flag is testing's own
		}
	}
	mcptest.Run(m)
}

// TestEachRowEndsTrue plays the matrix: whatever becomes of a call, there is one effect at
// the most, a record that does not lie, and a gateway that goes on.
func TestEachRowEndsTrue(t *testing.T) {
	t.Parallel()
	for _, stdio := range []bool{true, false} {
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			for _, tool := range []string{probed, blind} {
				t.Run(fmt.Sprintf("%s/%s/%s", transport(stdio), era, tool), func(t *testing.T) {
					t.Parallel()
					s := open(t, stdio, era, quick)
					var plays []*play
					for i, r := range rows {
						if r.web && stdio {
							continue
						}
						p := s.play(r, tool, i)
						p.run()
						plays = append(plays, p)
					}
					for _, p := range plays {
						p.stays()
					}
				})
			}
		}
	}
}

func transport(stdio bool) string {
	if stdio {
		return "stdio"
	}
	return "http"
}

func (r row) ends(tool string) string {
	if tool == blind {
		return r.blind
	}
	return r.probed
}

// run plays the row and then asks for the same thing again.
func (p *play) run() {
	p.t.Helper()
	if p.row.fault != "" {
		p.upstream.Fail(p.t, p.row.fault)
	}
	if p.row.play == nil {
		p.call()
	} else {
		p.row.play(p)
	}
	if p.row.fault != "" && !p.upstream.Failed(p.t) {
		p.errorf("the fault was not met")
	}
	p.until("the record says "+p.row.ends(p.tool), func() bool { return p.status() == p.row.ends(p.tool) })
	p.counts("after the call")
	if p.row.ends(p.tool) == noEffect {
		return // what did not happen may be asked for anew
	}
	p.call()
	p.counts("after it was asked for again")
	read := mcptest.Asked{Tool: "echo", Args: map[string]any{"text": p.id()}}
	if r, err := p.client.Call(context.Background(), read); err != nil || r.Text() != p.id() {
		p.errorf("a read afterwards: got %v, %v", r, err)
	}
}

func (p *play) counts(when string) {
	p.t.Helper()
	if n := len(p.effects()); n != p.row.effects {
		p.errorf("got %d effects %s, want %d", n, when, p.row.effects)
	}
	if n := len(p.calls()); n != 1 {
		p.errorf("got %d calls on the wire %s, want 1", n, when)
	}
}

// stays tells whether the end was the end.
func (p *play) stays() {
	p.t.Helper()
	if got, want := p.status(), p.row.ends(p.tool); got != want {
		p.errorf("the record says %s in the end, want %s", got, want)
	}
	p.counts("in the end")
}

const (
	document = "../../docs/mcp-faults.md"
	opens    = "<!-- the matrix: rewritten by go test ./gateway/blackbox -update -->\n"
	closes   = "<!-- end of the matrix -->\n"
)

// TestDocumentListsEachRow: the page has the rows that are played.
func TestDocumentListsEachRow(t *testing.T) {
	t.Parallel()
	path := filepath.FromSlash(document)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	head, rest, ok := strings.Cut(text, opens)
	_, tail, ends := strings.Cut(rest, closes)
	if !ok || !ends {
		t.Fatalf("%s has no matrix", document)
	}
	want := head + opens + table() + closes + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if text != want {
		t.Errorf("%s is not what is played: run go test ./gateway/blackbox -run TestDocumentListsEachRow -update", document)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| the upstream … | over | effects | record, with a probe | record, without |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		over := "both"
		if r.web {
			over = "HTTP"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s |\n", r.name, over, r.effects, r.probed, r.blind)
	}
	return b.String()
}
