package contract

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// TestPresets compiles every preset as a tool that says nothing of its own, and again from
// the text that is kept with its operations.
func TestPresets(t *testing.T) {
	t.Parallel()
	if len(Presets()) == 0 {
		t.Fatal("there are no presets")
	}
	for _, name := range Presets() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, _, _ := strings.Cut(name, "/")
			f := mustParse(t, "version: 1\nupstreams:\n  there: {use: "+provider+"}\ntools:\n  it:\n    use: "+name+"\n    upstream: there\n", nil)
			first := f.tools[0].contract
			again := mustParse(t, first.Source, nil).tools[0].contract
			if again.Source != first.Source {
				t.Errorf("read again, the kept text became\n%s\nwant\n%s", again.Source, first.Source)
			}
			if strings.Contains(first.Source, "use") {
				t.Errorf("the kept text is not complete in itself:\n%s", first.Source)
			}
		})
	}
}

func TestPresetOverridden(t *testing.T) {
	t.Parallel()
	f := mustParse(t, `version: 1
upstreams:
  there:
    use: stripe
    url: https://proxy.example.com/stripe
tools:
  it:
    use: stripe/v1/refunds.create
    upstream: there
    retention: null
    key: {max_len: 40}
    flight: 3m
    identity: [payment_intent]
`, nil)
	c := f.tools[0].contract
	if c.Class != pawl.Keyed || c.Retention != 0 || c.Flight != 3*time.Minute {
		t.Errorf("got class %s, retention %v, flight %v; want keyed, none, 3m", c.Class, c.Retention, c.Flight)
	}
	if k := f.tools[0].terms.Key; k.Name != "Idempotency-Key" || k.MaxLen != 40 {
		t.Errorf("got key %+v, want the header of the preset and the length of the file", k)
	}
	if len(c.Identity) != 1 || c.Identity[0].Name != "payment_intent" {
		t.Errorf("got identity %v, want payment_intent alone", c.Identity)
	}
	if got := f.tools[0].upstream.url.Host; got != "proxy.example.com" {
		t.Errorf("got host %s, want that of the file", got)
	}
}
