package contract

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
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
	needsBody, expectBody                                                 bool
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
}

type fence struct {
	request                        *request
	held, found, result, reference *program
}

type snapshot struct {
	request *request
	result  *program
}

// compiler turns the terms of one file into tools. Every fault goes to the decoder's
// report, at the place of its term.
type compiler struct {
	*decoder
	vault *vault
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./-]{0,127}$`)

// tool compiles one tool. The result is of use only if nothing was reported.
func (c *compiler) tool(name, path string, terms toolTerms, up *upstream) *tool {
	if !toolName.MatchString(name) {
		c.fail(path, "%q is no name for a tool: letters, digits, '_', '-', '.' and '/', at most 128", shorten(name))
	}
	t := &tool{terms: terms, upstream: up, line: c.at(path).line, pinned: &pinnedTools{}}
	t.contract = c.contract(name, path, &terms)
	c.carriers(t, path)
	t.request = c.request(path+"/request", &terms.Request, up, inRequest, terms.Class == "read")
	c.carried(t, path)
	c.rules(t, path)
	c.reconciliation(t, path)
	c.lateHeaders(t, path)
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
			if !c.reported(at) {
				c.fail(at, "field %q: %s", term.Field, term.What)
			}
			continue
		}
		if !c.reported(at) {
			c.fail(at, "%s", term.What)
		}
	}
}

// expression compiles CEL; nil where there is none.
func (c *compiler) expression(path string, e expression, v vocabulary, want *cel.Type) *program {
	if e == "" {
		return nil
	}
	p, err := compileExpression(string(e), v, want)
	if err != nil {
		c.celFault(path, string(e), err)
	}
	return p
}

// celFault reports the errors of an expression at their own columns.
func (c *compiler) celFault(path, source string, err error) {
	var f *faults
	if !errors.As(err, &f) {
		c.fail(path, "%v", err)
		return
	}
	if t, ok := errors.AsType[*templateFault](err); ok {
		source = t.source
	}
	for _, e := range f.list {
		c.report.add(c.within(c.at(path), source, e), "%s (%s)", e.message, f.hint)
	}
}

// within is the place of a fault in an expression whose YAML value begins at start.
func (c *compiler) within(start place, source string, e fault) place {
	line := func(n int) string {
		if n < 1 || n > len(c.report.lines) {
			return ""
		}
		return c.report.lines[n-1]
	}
	indent := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	text := firstLineFrom(line(start.line), start.column)
	switch {
	case strings.HasPrefix(text, "|"):
		return place{start.line + e.line, indent(line(start.line+1)) + e.column + 1}
	case strings.HasPrefix(text, ">"):
		return place{start.line + 1, indent(line(start.line+1)) + 1}
	case e.line == 1 && strings.Contains(text, source):
		return place{start.line, start.column + strings.Index(text, source) + e.column}
	}
	return start
}

func firstLineFrom(line string, column int) string {
	runes := []rune(line)
	if column < 1 || column > len(runes) {
		return ""
	}
	return string(runes[column-1:])
}

// predicate compiles CEL that gives true or false.
func (c *compiler) predicate(path string, e expression, v vocabulary) *program {
	return c.expression(path, e, v, cel.BoolType)
}

// template compiles text with expressions.
func (c *compiler) template(path string, t template, v vocabulary, references bool) []part {
	parts, err := parseTemplate(string(t), v, references)
	if err != nil {
		c.celFault(path, string(t), err)
	}
	return parts
}

// locator finds the provider's id in an answer.
type locator struct {
	pointer []string
	expr    *program
}

func (c *compiler) locator(path string, p pointerOrCEL) *locator {
	switch {
	case p == "":
		return nil
	case strings.HasPrefix(string(p), "/"):
		return &locator{pointer: pointer(string(p))}
	}
	return &locator{expr: c.expression(path, expression(p), inAnswer, nil)}
}

var hopHeaders = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade",
}

// header checks a header's name.
func (c *compiler) header(path, name string) (canonical string, ok bool) {
	if !headerName(name) {
		c.fail(path, "%q is no header name", shorten(name))
		return "", false
	}
	canonical = http.CanonicalHeaderKey(name)
	if slices.Contains(hopHeaders, canonical) {
		c.fail(path, "%s belongs to the connection and is set by pawl itself", canonical)
		return "", false
	}
	return canonical, true
}

// headers compiles header templates into dst; a credential must be a reference.
func (c *compiler) headers(path string, terms map[string]template, v vocabulary, dst map[string][]part) {
	for _, name := range slices.Sorted(maps.Keys(terms)) {
		at := member(path, name)
		canonical, ok := c.header(at, name)
		if !ok {
			continue
		}
		parts := c.template(at, terms[name], v, true)
		if secretHeader(name) && !named(parts) {
			c.fail(at, "a credential is never written into the file: put it into the environment or a file and write ${env:NAME} or ${file:/path}")
			continue
		}
		for _, p := range parts {
			if p.text != "" && !headerValue("x"+p.text+"x") {
				c.fail(at, "a header holds printable ASCII only")
			}
		}
		dst[canonical] = parts
	}
}

// request compiles a request; nil after a report that leaves nothing to use.
func (c *compiler) request(path string, t *requestTerms, up *upstream, v vocabulary, reads bool) *request {
	r := &request{method: string(t.Method), body: t.Body, form: t.Encoding == "form", headers: map[string][]part{}, exprs: map[string]*program{}}
	if up != nil {
		r.base = up.url
		maps.Copy(r.headers, up.headers)
	}
	switch {
	case r.method == "" && reads:
		r.method = "GET"
	case r.method == "" && !c.reported(path):
		c.fail(path, "method is missing: write POST, PUT, PATCH or DELETE")
	}
	if r.body != nil && r.method == "GET" {
		c.fail(path+"/body", "a GET has no body: use query")
	}
	if t.Encoding != "" && r.body == nil {
		c.fail(path+"/encoding", "there is no body to encode")
	}
	c.path(path+"/path", t.Path, v, r)
	for _, name := range slices.Sorted(maps.Keys(t.Query)) {
		at := member(path+"/query", name)
		r.query = append(r.query, queryTerm{name, c.expression(at, t.Query[name], v, nil)})
	}
	c.headers(path+"/headers", t.Headers, v, r.headers)
	if r.body != nil && r.body.tree != nil {
		c.body(r.body.tree, v, r.exprs)
		if r.form && r.body.tree.kind != bodyObject {
			c.fail(path+"/body", "a form is a mapping")
		}
	}
	return r
}

func (c *compiler) body(n *bodyNode, v vocabulary, exprs map[string]*program) {
	for _, f := range n.fields {
		c.body(f, v, exprs)
	}
	for _, e := range n.items {
		c.body(e, v, exprs)
	}
	if n.kind == bodyExpr && n.expr != "" {
		exprs[n.path] = c.expression(n.path, n.expr, v, nil)
	}
}

// path splits the template into segments. Literal text is taken as it is and must be
// what a URL may hold.
func (c *compiler) path(path string, t template, v vocabulary, r *request) {
	if t == "" {
		return // reported as missing
	}
	if !strings.HasPrefix(string(t), "/") {
		c.fail(path, "a path begins with '/': the host is the upstream's")
		return
	}
	parts := c.template(path, t, v, false)
	var segment []part
	for i, p := range parts {
		if p.expr != nil {
			segment = append(segment, p)
			continue
		}
		text := p.text
		if i == 0 {
			text = text[1:]
		}
		if strings.ContainsFunc(text, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`?#%\"<>^|`+"`", r)
		}) {
			c.fail(path, "the path holds a character that a path cannot: parameters belong into query, values into {args...}")
			return
		}
		for j, s := range strings.Split(text, "/") {
			if j > 0 {
				r.path, segment = append(r.path, segment), nil
			}
			if s != "" {
				segment = append(segment, part{text: s})
			}
		}
	}
	r.path = append(r.path, segment)
	for i, s := range r.path {
		switch {
		case len(s) == 0 && i < len(r.path)-1:
			c.fail(path, "the path has an empty segment: '//'")
		case len(s) == 1 && (s[0].text == "." || s[0].text == ".."):
			c.fail(path, "the path has a segment '.' or '..'")
		}
	}
}

// upstream is a compiled upstreamTerms.
type upstream struct {
	name    string
	terms   upstreamTerms
	url     *url.URL
	headers map[string][]part
}

func (c *compiler) upstream(name, path string, terms upstreamTerms) *upstream {
	up := &upstream{name: name, terms: terms, headers: map[string][]part{}}
	u, err := url.Parse(terms.URL)
	at := path + "/url"
	switch {
	case terms.URL == "":
		u = nil
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		c.fail(at, "want an absolute URL: https://api.example.com")
		u = nil
	case u.User != nil:
		c.fail(at, "a credential is never written into the file: put it into a header as ${env:NAME}")
		u = nil
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		c.fail(at, "the base URL has no query and no fragment: parameters belong into a tool's query")
		u = nil
	case strings.ContainsFunc(terms.URL, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		c.fail(at, "write the URL in plain ASCII")
		u = nil
	}
	if up.url = u; u == nil {
		up.url = &url.URL{Scheme: "https", Host: "invalid.invalid"}
	}
	c.headers(path+"/headers", terms.Headers, inRequest, up.headers)
	for name, parts := range up.headers {
		if slices.ContainsFunc(parts, func(p part) bool { return p.expr != nil }) {
			c.fail(path+"/headers", "header %s: expressions belong into the request of a tool", name)
		}
	}
	c.predicate(path+"/error_shape", terms.ErrorShape, inAnswer)
	if terms.Proxy != "" {
		p, err := url.Parse(terms.Proxy)
		if err != nil || p.Host == "" || p.User != nil || p.Scheme != "http" && p.Scheme != "https" && p.Scheme != "socks5" {
			c.fail(path+"/proxy", "want the URL of a proxy without credentials: http://proxy.example.com:3128")
		}
	}
	if t := terms.TLS; t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		c.fail(path+"/tls", "cert_file and key_file go together")
	}
	return up
}

// references are the credentials that the tool's requests name.
func (t *tool) references() []reference {
	var refs []reference
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
