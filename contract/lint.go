package contract

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Severity grades a finding.
type Severity string

const (
	// Warning: doubt that could be settled by itself goes to a person, or a guarantee is
	// weaker than it looks.
	Warning Severity = "warning"
	// Notice: waits are longer or answers poorer than they need be.
	Notice Severity = "notice"
)

// Finding is a weakness of a contract that is no fault.
type Finding struct {
	// Tool is empty for what concerns the whole file.
	Tool     string   `json:"tool,omitempty"`
	Severity Severity `json:"severity"`
	// Code names the kind of weakness; programs branch on it.
	Code string `json:"code"`
	// Message says what is weak, Cost what follows from it, each in one sentence.
	Message string `json:"message"`
	Cost    string `json:"cost"`
	Line    int    `json:"line"`
}

// linter collects the findings of one file.
type linter struct {
	findings []Finding
	tool     *tool
	undoes   map[string]bool // tools that undo others
}

func (l *linter) add(severity Severity, code, message, cost string) {
	f := Finding{Severity: severity, Code: code, Message: message, Cost: cost, Line: 1}
	if l.tool != nil {
		f.Tool, f.Line = l.tool.contract.Tool, l.tool.line
	}
	l.findings = append(l.findings, f)
}

// Lint explains each weakness of the file's contracts, in the order of their lines.
func Lint(f *File) []Finding {
	l := &linter{undoes: map[string]bool{}}
	for _, t := range f.tools {
		if k := t.contract.Compensation; k != nil {
			l.undoes[k.Tool] = true
		}
	}
	mcp := slices.ContainsFunc(slices.Collect(maps.Values(f.upstreams)), func(u *upstream) bool { return u.mcp })
	if len(f.tools) == 0 && !mcp {
		l.add(Warning, "no_tools", "no tools declared", "every call is refused")
	}
	effects := slices.ContainsFunc(f.tools, func(t *tool) bool { return t.contract.Class != pawl.Read })
	if effects && len(f.keySecrets) == 0 {
		l.add(Warning, "no_key_secret", "no key secret is configured",
			"whoever sees a key can guess a low-entropy identity, such as an order number, by trying")
	}
	for _, name := range slices.Sorted(maps.Keys(f.upstreams)) {
		l.server(f.upstreams[name])
	}
	for _, t := range f.tools {
		l.tool = t
		if t.terms.Draft {
			l.add(Warning, "draft", "drafted, and confirmed by nobody",
				"what it says of class and identity is a guess: check it, then remove draft")
		}
		l.upstream()
		l.cases()
		if t.contract.WithDefaults().Class == pawl.Read {
			continue
		}
		l.identity()
		l.reconciliation()
		l.undoing()
		l.answers()
		l.times()
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	return l.findings
}

// server explains what is weak about an upstream that speaks MCP.
func (l *linter) server(u *upstream) {
	if !u.mcp {
		return
	}
	if u.terms.MCP.InheritEnv {
		l.add(Warning, "whole_environment", fmt.Sprintf("the server of upstream %q gets pawl's whole environment", u.name),
			"it can read every credential in it: name what it needs under env")
	}
	if u.terms.MCP.ReadOnlyHints == "trusted" {
		l.add(Notice, "trusted_hints", fmt.Sprintf("upstream %q is believed which of its tools only read", u.name),
			"a tool that is marked so and writes is not guarded")
	}
	if u.url.Scheme == "http" && len(u.mcpReferences()) > 0 && !loopback(u.url.Hostname()) {
		l.add(Warning, "clear_text", "credentials go to the upstream without TLS",
			"anybody on the way can read them, and answers can be forged")
	}
}

func (l *linter) upstream() {
	t := l.tool
	if u := t.upstream.url; !t.speaksMCP() && u.Scheme == "http" && len(t.references()) > 0 && !loopback(u.Hostname()) {
		l.add(Warning, "clear_text", "credentials go to the upstream without TLS",
			"anybody on the way can read them, and answers can be forged")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// cases looks at the contracts that a tool's arguments choose from.
func (l *linter) cases() {
	seen := map[expression]bool{}
	for _, name := range slices.Sorted(maps.Keys(l.tool.terms.When)) {
		condition := l.tool.terms.When[name].If
		if seen[condition] {
			l.add(Warning, "same_condition", fmt.Sprintf("case %q has the condition of another one", name),
				"neither is ever chosen, and the tool's own terms hold")
		}
		seen[condition] = true
	}
}

// prose are names that arguments of free text usually have.
var prose = []string{
	"body", "comment", "content", "description", "explanation", "instructions", "justification", "message", "note", "notes",
	"prompt", "rationale", "reason", "subject", "summary", "text", "thought", "title",
}

// Prose reports whether an argument has a name that free text usually has: a model words it
// anew each time, so it tells no intention from another.
func Prose(argument string) bool { return slices.Contains(prose, strings.ToLower(argument)) }

func (l *linter) identity() {
	c := &l.tool.contract
	if c.IdentityAll && len(l.tool.cases) == 0 {
		l.add(Warning, "identity_all", "every argument is identity",
			"the same intention in other words is another operation, and its effect happens twice")
	}
	for _, f := range c.Identity {
		kind := f.Rule.Kind
		if kind != "" && kind != pawl.RuleText && kind != pawl.RuleRaw && kind != pawl.RuleLower && kind != pawl.RuleUpper || f.Pattern != "" {
			continue
		}
		for _, from := range sources(f) {
			path := pointer(from)
			if Prose(path[len(path)-1]) {
				l.add(Warning, "prose_identity", fmt.Sprintf("identity field %q looks like free prose", f.Name),
					"a model that words it differently the second time gets a second effect")
				break
			}
		}
	}
	if c.IdentityNone && c.Scope == pawl.ScopeBusiness {
		l.add(Warning, "identity_empty", "the tool has neither identity nor run",
			"it has its effect once and never again")
	}
}

func (l *linter) reconciliation() {
	c, k := &l.tool.contract, &l.tool.terms
	class := c.WithDefaults().Class
	d := c.WithDefaults()
	canResend := class == pawl.Keyed && c.Retention > 0 || c.ConvergentFor > 0
	finalFence := c.Fence != nil && (c.NotAfter > 0 || c.Fence.RefusesLater && c.Fence.Tombstone > d.Flight+d.Pause)
	switch {
	case c.Probe == nil && finalFence:
	case c.Probe == nil && c.Fence == nil && !canResend && class == pawl.Unsafe:
		l.add(Warning, "unsafe_alone", "an unsafe tool without probe and fence",
			"every UNKNOWN of this tool goes to a person")
	case c.Probe == nil && !canResend:
		l.add(Warning, "no_probe", "no probe", "every UNKNOWN of this tool goes to a person")
	case c.Probe == nil:
		l.add(Notice, "no_probe", "no probe",
			"doubt is settled by sending again only, and an UNKNOWN past that time goes to a person")
	}
	if class == pawl.Keyed && c.Retention == 0 {
		l.add(Warning, "no_retention", "keyed without a published retention", "nothing is ever sent again after doubt")
	}
	if c.Retention > 0 && c.Retention <= d.Flight+d.Pause {
		l.add(Warning, "short_retention", fmt.Sprintf("retention %v is not longer than flight and pause (%v)", c.Retention, d.Flight+d.Pause),
			"there is no moment at which a resend is safe, so none is ever made")
	}
	if class == pawl.Convergent && c.ConvergentFor == 0 {
		l.add(Notice, "no_convergent_for", "convergent without convergent_for", "the tool is never sent again, as if it were unsafe")
	}
	if p := k.Probe; p != nil {
		weak := p.By == "business" || p.By == "state"
		if weak && !p.SoleWriter {
			l.add(Warning, "weak_match", fmt.Sprintf("the probe recognises effects by %s and pawl is not the sole writer", p.By),
				"what it finds goes to review, since it could be somebody else's")
		}
		if q := l.tool.probe; (p.By == "key" || p.By == "marker") && !q.match.usesKey && !slices.ContainsFunc(q.request.path, keyInParts) {
			l.add(Warning, "unchecked_key", fmt.Sprintf("the probe recognises effects by %s, and match does not compare it: only a parameter of the request has it", p.By),
				"a provider that ignores the parameter shows the effects of others, and one of them is taken for this one")
		}
		if m := l.tool.probe.request.method; m != "" && m != "GET" && m != "HEAD" {
			l.add(Notice, "probe_may_write", fmt.Sprintf("the probe is a %s, which need not be a read", m),
				"if it has an effect, it has it each time that doubt is looked into: give it a credential that only reads")
		}
		if p.By == "state" && k.Snapshot == nil {
			l.add(Warning, "no_snapshot", "a probe by state without a snapshot",
				"a state that was there before the call looks like its effect")
		}
		if p.NegativeProof == "" && !finalFence {
			l.add(Warning, "no_negative_proof", "the probe's absent is no proof",
				"an effect that did not happen is never settled without a person")
		}
		if p.Complete == "" && strings.Contains(string(p.Match), ".filter(") {
			l.add(Notice, "no_complete", "match filters a list and complete is not declared",
				"if the list is only a page, an effect on the next one is taken for absent")
		}
	}
	if c.Fence != nil && !finalFence && c.Probe == nil {
		l.add(Warning, "weak_fence", "the fence does not refuse arrivals for as long as a request may be under way, and there is no probe",
			"absence behind the fence is never final")
	}
}

// undoing looks at files that undo anything at all.
func (l *linter) undoing() {
	c := &l.tool.contract
	if len(l.undoes) == 0 {
		return
	}
	switch {
	case c.Compensation == nil && !c.Irreversible && !l.undoes[c.Tool]:
		l.add(Notice, "no_compensation", "neither compensation nor irreversible",
			"when a run is called off, this effect stays and is listed for a person")
	case c.Irreversible && c.Corrective == "":
		l.add(Notice, "no_corrective", "irreversible without corrective",
			"when a run is called off, the report cannot say what people should do about this effect")
	}
	if c.Compensation != nil && c.Compensation.Within > 0 && c.Compensation.Within <= c.WithDefaults().Quiescence() {
		l.add(Warning, "short_compensation", fmt.Sprintf("compensation within %v, and doubt may last %v", c.Compensation.Within, c.WithDefaults().Quiescence().Round(time.Second)),
			"an effect that is confirmed late cannot be undone any more")
	}
}

// ordinary finds the status of an ordinary refusal in an expression.
var ordinary = regexp.MustCompile(`\b(400|422)\b`)

func (l *linter) answers() {
	c := &l.tool.contract
	if l.tool.speaksMCP() {
		if !c.Conventions && len(l.tool.terms.NoEffect) == 0 {
			l.add(Warning, "no_rejection", "every refusal of this tool counts as UNKNOWN",
				"an ordinary refusal is doubt until it is settled: list it under no_effect, or set conventions: mcp where you trust the codes of JSON-RPC")
		}
	} else if c.Conventions && l.tool.rules.errorShape == nil {
		l.add(Warning, "no_error_shape", "conventions: http without error_shape",
			"any JSON error of a proxy on the way counts as the upstream's word that nothing happened")
	}
	if !l.tool.speaksMCP() && !c.Conventions && !slices.ContainsFunc(l.tool.terms.NoEffect, func(n noEffectTerm) bool { return ordinary.MatchString(string(n.When)) }) {
		l.add(Warning, "no_rejection", "a 400 or 422 of this provider counts as UNKNOWN",
			"an ordinary refusal is doubt until it is settled: list it under no_effect, or set conventions: http where you trust its status codes")
	}
	if c.Effect == "" {
		l.add(Notice, "no_effect_text", "no effect text", "people and models read the tool's name instead of what was done")
	}
}

func (l *linter) times() {
	c := &l.tool.contract
	if c.NotAfter > 0 {
		return
	}
	waits := c.Probe != nil && c.Probe.NegativeProof || c.Retention > 0
	if c.Flight == 0 && waits {
		l.add(Notice, "default_flight", fmt.Sprintf("flight is left at %v", pawl.DefaultFlight),
			fmt.Sprintf("an effect that did not happen is known as such after %v at the earliest", c.WithDefaults().Quiescence().Round(time.Second)))
	}
}
