package contract

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/pawl-dev/pawl"
)

// tool is a compiled toolTerms and, as a pawl.Port, what speaks to its upstream.
type tool struct {
	contract pawl.Contract
	terms    toolTerms
	upstream *upstream
	line     int

	keyForm keyForm
	attach  []carrierTerms // key and marker
	request *request
	rules   answerRules
	probe   *probe
	fence   *fence
	before  *snapshot
	confirm *program
	undo    *request // whose body are the arguments of the compensation

	cases  []*toolCase // that the arguments choose from
	unwrap *unwrapping
	around *tool  // whose case or inner tool this is
	inner  string // the name that the tool around calls this one by; empty for a case

	wire   *wire
	pinned *pinnedTools
}

// answerRules are the compiled predicates over the effect's answer.
type answerRules struct {
	success, accepted, errorShape, onMismatch, onConcurrent, replaySignal *program
	noEffect                                                              []noEffectRule
	duplicate                                                             *duplicateRule
	result                                                                *program
	ref                                                                   *locator
	expectBody                                                            bool
}

type noEffectRule struct {
	when      *program
	transient bool
}

type duplicateRule struct {
	when *program
	id   *locator
	read *request
}

type probe struct {
	request                                                *request
	by                                                     pawl.MatchKind
	match, complete, absent, inProgress, result, reference *program
	errorShape                                             *program // of the tool
}

type fence struct {
	request                        *request
	held, found, result, reference *program
	errorShape                     *program // of the tool
}

type snapshot struct {
	request        *request
	result, absent *program
	errorShape     *program // of the tool
}

// compiler turns the terms of one file into tools. Every fault goes to the decoder's
// report, at the place of its term.
type compiler struct {
	*decoder
	upstreams map[string]*upstream
	// expanded holds the entries that a preset was put under.
	expanded map[*ast.MappingNode]bool
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./-]{0,127}$`)

// tool compiles one tool. The result is of use only if nothing was reported.
func (c *compiler) tool(name, path string, terms toolTerms, up *upstream) *tool {
	if !toolName.MatchString(name) {
		c.fail(path, "%q is no name for a tool: letters, digits, '_', '-', '.' and '/', at most 128", shorten(name))
	}
	c.mayChoose(path, &terms)
	t := &tool{terms: terms, upstream: up, line: c.at(path).line, pinned: &pinnedTools{}}
	if c.given(path + "/use") {
		return t // there is no such preset, so that nothing is known of the tool
	}
	if !c.given(path+"/request") && !t.speaksMCP() {
		c.fail(path, "request is missing: write one, or use a preset")
	}
	t.contract = c.contract(name, path, &terms)
	c.carriers(t, path)
	if t.speaksMCP() {
		t.request = c.mainCall(t, path)
		c.mcpTerms(t, path)
	} else {
		t.request = c.request(path+"/request", &terms.Request, up, inRequest, terms.Class == "read")
		c.httpTerms(t, path)
	}
	c.carried(t, path)
	c.rules(t, path)
	c.reconciliation(t, path)
	c.confirmation(t, path)
	c.compensation(t, path)
	c.lateHeaders(t, path)
	if terms.Class == "" && c.reported(path+"/class") {
		return t // what else must hold depends on a class that is not known
	}
	c.combinations(t, path)
	c.validate(t, path)
	return t
}

// contract translates the plain terms.
func (c *compiler) contract(name, path string, t *toolTerms) pawl.Contract {
	k := pawl.Contract{
		Tool: name, Class: pawl.Class(t.Class), Free: t.Free, Scope: pawl.Scope(t.Scope), Repeat: pawl.Repeat(t.Repeat),
		AfterRejection: pawl.AfterRejection(t.AfterRejection), MaxGenerations: t.MaxGenerations, MaxAttempts: t.MaxAttempts,
		Shared: t.Shared != "", Serialize: t.Serialize,
		Timeout: time.Duration(t.Timeout), Linger: time.Duration(t.Linger), MinTime: time.Duration(t.MinTime),
		Flight: time.Duration(t.Flight), Pause: time.Duration(t.Pause), Landing: time.Duration(t.Landing),
		Retention: time.Duration(t.Retention), ReplaysErrors: t.ReplaysErrors, ConvergentFor: time.Duration(t.ConvergentFor),
		Snapshot: t.Snapshot != nil, Irreversible: t.Irreversible, Effect: t.Effect,
	}
	if t.Identity != nil {
		k.Identity, k.IdentityNone, k.IdentityAll = t.Identity.fields, t.Identity.none, t.Identity.all
	} else if t.Class != "read" {
		c.fail(path, "identity is missing: list the arguments that make two calls the same intention, or write identity: none")
	}
	if t.NotAfter != nil {
		k.NotAfter = time.Duration(t.NotAfter.After)
		if k.NotAfter == 0 {
			c.fail(path+"/not_after/after", "want a time after the permit, such as 30s")
		}
	}
	if p := t.Probe; p != nil {
		k.Probe = &pawl.ProbeTerms{
			NegativeProof: p.NegativeProof != "", SoleWriter: p.SoleWriter, ShowsProgress: p.InProgress != "",
		}
		if p.Lag != nil {
			k.Probe.Lag = time.Duration(*p.Lag)
		}
	}
	if f := t.Fence; f != nil {
		k.Fence = &pawl.FenceTerms{RefusesLater: f.RefusesLater, Tombstone: time.Duration(f.Tombstone)}
	}
	for i, claim := range t.Claims {
		if _, err := time.Parse(time.DateOnly, claim.VerifiedOn); claim.VerifiedOn != "" && err != nil {
			c.fail(item(path+"/claims", i)+"/verified_on", "want a day: YYYY-MM-DD")
		}
	}
	if strings.Count(t.Effect, "{") != strings.Count(t.Effect, "}") {
		c.fail(path+"/effect", "braces do not match: fields stand as {order_id}")
	}
	return k
}

// validate runs the contract's own check and finds the lines.
func (c *compiler) validate(t *tool, path string) {
	err := t.contract.Validate()
	if err == nil {
		return
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		c.fail(path, "%v", err)
		return
	}
	for _, err := range joined.Unwrap() {
		var term *pawl.TermError
		if !errors.As(err, &term) {
			c.fail(path, "%v", err)
			continue
		}
		if term.Term == "identity" && t.terms.Identity == nil {
			continue // reported as missing
		}
		at := path
		for name := range strings.SplitSeq(term.Term, ".") {
			at = member(at, name)
		}
		if term.Field != "" {
			if i := slices.IndexFunc(t.contract.Identity, func(f pawl.Field) bool { return f.Name == term.Field }); i >= 0 {
				if _, ok := c.values[item(at, i)]; ok {
					at = item(at, i)
				} else {
					at = member(at, term.Field)
				}
			}
			if !c.reportedIn(at) {
				c.fail(at, "field %q: %s", term.Field, term.What)
			}
			continue
		}
		if !c.reported(at) {
			c.fail(at, "%s", term.What)
		}
	}
}

// references are the credentials that the tool's requests name.
func (t *tool) references() []reference {
	refs := append(t.upstream.aws.references(), t.upstream.mcpReferences()...)
	for _, r := range t.requests() {
		for _, parts := range r.headers {
			for _, p := range parts {
				if p.ref != nil && !slices.Contains(refs, *p.ref) {
					refs = append(refs, *p.ref)
				}
			}
		}
	}
	slices.SortFunc(refs, func(a, b reference) int { return strings.Compare(a.String(), b.String()) })
	return refs
}

func (t *tool) requests() []*request {
	list := []*request{t.request}
	if t.rules.duplicate != nil && t.rules.duplicate.read != nil {
		list = append(list, t.rules.duplicate.read)
	}
	if t.probe != nil {
		list = append(list, t.probe.request)
	}
	if t.fence != nil {
		list = append(list, t.fence.request)
	}
	if t.before != nil {
		list = append(list, t.before.request)
	}
	return slices.DeleteFunc(list, func(r *request) bool { return r == nil })
}
