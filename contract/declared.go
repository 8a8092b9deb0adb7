package contract

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Declared is what a contract says of one tool's provider, and what it leaves open.
type Declared struct {
	Tool  string     `json:"tool"`
	Class pawl.Class `json:"class"`
	// Terms are the terms that are declared, in the order of the manual.
	Terms []Term `json:"terms"`
	// Unknown names the terms that are absent. What is unknown never permits a send.
	Unknown []string `json:"unknown"`
	// Claims are where the terms come from.
	Claims []Claim `json:"claims"`
}

// Term is one declared term in short.
type Term struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Claim is one statement about a provider.
type Claim struct {
	Claim  string `json:"claim"`
	Source string `json:"source,omitempty"`
	// VerifiedOn is the day it was last checked, YYYY-MM-DD.
	VerifiedOn string `json:"verified_on,omitempty"`
}

// Declarations lists what is declared about each tool that has effects, in the order of
// the file.
func Declarations(f *File) []Declared {
	all := []Declared{}
	for _, t := range f.tools {
		if t.contract.Class != pawl.Read {
			all = append(all, t.declared())
		}
	}
	return all
}

func (t *tool) declared() Declared {
	k := &t.terms
	d := Declared{Tool: t.contract.Tool, Class: t.contract.WithDefaults().Class, Terms: []Term{}, Unknown: []string{}, Claims: []Claim{}}
	term := func(name string, known bool, value string) {
		if known {
			d.Terms = append(d.Terms, Term{name, value})
		} else {
			d.Unknown = append(d.Unknown, name)
		}
	}
	predicate := func(name string, e expression) { term(name, e != "", string(e)) }
	length := func(name string, v time.Duration) { term(name, v > 0, shortDuration(v)) }
	if d.Class == pawl.Keyed {
		term("key", k.Key != nil, carrierText(k.Key))
		length("retention", t.contract.Retention)
		predicate("on_mismatch", k.OnMismatch)
		predicate("on_concurrent", k.OnConcurrent)
		term("on_duplicate", k.OnDuplicate != nil, "names the effect")
		if k.ReplaysErrors {
			term("replays_errors", true, "failures too")
		}
		predicate("replay_signal", k.ReplaySignal)
	} else {
		term("marker", k.Marker != nil || usesKey(t.request), "in the request")
	}
	var refusals []string
	for _, n := range k.NoEffect {
		refusals = append(refusals, string(n.When))
	}
	switch {
	case t.contract.Conventions && t.speaksMCP():
		refusals = append(refusals, "the codes of JSON-RPC")
	case t.contract.Conventions:
		refusals = append(refusals, "the conventions of HTTP")
	}
	term("no_effect", len(refusals) > 0, strings.Join(refusals, "; "))
	if p := k.Probe; p != nil {
		term("probe", true, "by "+string(p.By))
		term("probe.lag", p.Lag != nil, shortDuration(t.contract.Probe.Lag))
		term("probe.negative_proof", p.NegativeProof != "", string(p.NegativeProof))
	} else {
		term("probe", false, "")
	}
	term("fence", k.Fence != nil, "a call")
	if k.Compensation != nil {
		term("compensation", true, "by "+k.Compensation.Tool)
	}
	if t.contract.NotAfter > 0 {
		term("not_after", true, shortDuration(t.contract.NotAfter))
	} else {
		length("flight", t.contract.Flight)
	}
	for _, c := range k.Claims {
		d.Claims = append(d.Claims, Claim(c))
	}
	return d
}

// carrierText says in short where a key goes.
func carrierText(k *carrierTerms) string {
	if k == nil {
		return ""
	}
	text := strings.TrimSpace(fmt.Sprintf("%s %s", k.Carrier, k.Name))
	if k.Encoding != "" {
		text += " as " + string(k.Encoding)
	}
	if k.MaxLen > 0 {
		text += fmt.Sprintf(", at most %d characters", k.MaxLen)
	}
	return text
}

// shortDuration writes a duration as a contract does.
func shortDuration(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 1 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", days)
	}
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
