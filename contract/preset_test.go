package contract

import (
	"os"
	"slices"
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
			upstream := "{use: " + provider + "}"
			if presetEntries(provider, "upstream") == nil {
				upstream = "{url: https://api.example.com}"
			}
			f := mustParse(t, "version: 1\nupstreams:\n  there: "+upstream+"\ntools:\n  it:\n    use: "+name+"\n    upstream: there\n", nil)
			first := f.tools[0].contract
			again := mustParse(t, first.Source, nil).tools[0].contract
			if again.Source != first.Source {
				t.Errorf("read again, the kept text became\n%s\nwant\n%s", again.Source, first.Source)
			}
			if strings.Contains(first.Source, "use:") || strings.Contains(first.Source, `"use"`) {
				t.Errorf("the kept text is not complete in itself:\n%s", first.Source)
			}
		})
	}
}

// TestPresetClaims holds each preset to its sources, and each retention and lag, on which
// sends depend, to a claim.
func TestPresetClaims(t *testing.T) {
	t.Parallel()
	for _, name := range Presets() {
		d := declaredBy(t, name)
		if len(d.Claims) == 0 {
			t.Errorf("%s makes no claims", name)
		}
		for _, c := range d.Claims {
			if c.VerifiedOn == "" || c.Source == "" && !strings.Contains(c.Claim, "is ours") {
				t.Errorf("%s: the claim %q has no source or no day", name, c.Claim)
			}
		}
		for _, term := range d.Terms {
			text := map[string]string{"retention": shortClaim(term.Value), "probe.negative_proof": "absen", "fence": "refuse"}[term.Name]
			if !slices.ContainsFunc(d.Claims, func(c Claim) bool { return strings.Contains(c.Claim, text) }) {
				t.Errorf("%s declares %s %s and no claim speaks of %q", name, term.Name, term.Value, text)
			}
		}
	}
}

// shortClaim is the number in a duration, which a claim about it has too.
func shortClaim(duration string) string { return strings.TrimRight(duration, "dhms") }

func declaredBy(t *testing.T, name string) Declared {
	t.Helper()
	provider, _, _ := strings.Cut(name, "/")
	src := "version: 1\nupstreams:\n  there: {use: " + provider + ", url: https://api.example.com}\ntools:\n  it:\n    use: " + name + "\n    upstream: there\n"
	if presetEntries(provider, "upstream") == nil {
		src = strings.Replace(src, "use: "+provider+", ", "", 1)
	}
	return Declarations(mustParse(t, src, nil))[0]
}

func TestPresetPageIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := PresetPage()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../docs/presets.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/presets.md is not what the presets say: run go generate ./contract")
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
