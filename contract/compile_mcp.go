package contract

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// toolCall names a tool of an MCP server.
type toolCall struct{ server, tool string }

func (t *tool) speaksMCP() bool { return t.upstream != nil && t.upstream.mcp }

// vocabulary is what expressions over the tool's answers know.
func (t *tool) vocabulary() (answer, match vocabulary) {
	if t.speaksMCP() {
		return inToolAnswer, inToolMatch
	}
	return inAnswer, inMatch
}

// otherUpstreams are those that the tool's reads go to beside its own.
func (t *tool) otherUpstreams() []string {
	var names []string
	requests := t.requests()
	for _, own := range t.chosen() {
		requests = append(requests, own.requests()...)
	}
	for _, r := range requests {
		if r.call != nil && r.call.server != t.upstream.name && !slices.Contains(names, r.call.server) {
			names = append(names, r.call.server)
		}
	}
	slices.Sort(names)
	return names
}

// Times of MCP tools where a contract leaves them open. A server may ask a person before it
// acts, so that an attempt is listened to for longer than over HTTP; what it is answered may
// leave as late as the attempt is listened to, and so belongs to the pause.
const (
	mcpTimeout = time.Minute
	mcpLinger  = 10 * time.Minute
)

func withMCPTimes(k *pawl.Contract) {
	if k.Timeout == 0 {
		k.Timeout = mcpTimeout
	}
	if k.Linger == 0 {
		k.Linger = mcpLinger
	}
	if k.Pause == 0 {
		k.Pause = pawl.DefaultPause + k.Timeout + k.Linger
	}
}

// mcpUpstream compiles what is declared about an upstream that speaks MCP.
func (c *compiler) mcpUpstream(up *upstream, path string) {
	m := up.terms.MCP
	if m == nil {
		if up.terms.Conventions == "mcp" {
			c.fail(path+"/conventions", "mcp is for an upstream that speaks MCP: add mcp, or write http")
		}
		return
	}
	up.mcp, up.env = true, map[string][]part{}
	at := path + "/mcp"
	switch child := len(m.Command) > 0; {
	case child && c.given(path+"/url"):
		c.fail(at+"/command", "the upstream has a url: a server is started by command or reached at url")
	case child && m.Command[0] == "":
		c.fail(at+"/command", "the program has no name")
	case child:
		for _, name := range []string{"headers", "aws", "tls", "proxy", "connect_timeout", "network", "max_response"} {
			if c.given(path + "/" + name) {
				c.fail(path+"/"+name, "a server that command starts is not reached over HTTP, so it has no %s", name)
			}
		}
	case !c.given(path + "/url"):
		c.fail(path, "the server is missing: write url, or mcp with command")
	default:
		for _, name := range []string{"dir", "env", "inherit_env"} {
			if c.given(at + "/" + name) {
				c.fail(at+"/"+name, "a server at a url is not started, so it has no %s", name)
			}
		}
	}
	if c.given(path + "/error_shape") {
		c.fail(path+"/error_shape", "an answer of MCP has one shape: remove it")
	}
	if up.terms.Conventions == "http" {
		c.fail(path+"/conventions", "a status code proves nothing about a tool of MCP: write mcp for the codes of JSON-RPC, or none")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		in := member(at+"/env", name)
		if !envName.MatchString(name) {
			c.fail(in, "%q is no name of a variable", shorten(name))
			continue
		}
		parts := c.template(in, m.Env[name], inRequest, true)
		if slices.ContainsFunc(parts, func(p part) bool { return p.expr != nil }) {
			c.fail(in, "a server is started once for all calls, so its environment holds no expression")
		}
		if secretHeader(strings.ReplaceAll(name, "_", "-")) && !named(parts) {
			c.fail(in, "a credential is never written into the file: put it into the environment or a file and write ${env:NAME} or ${file:/path}")
		}
		up.env[name] = parts
	}
}

// mcpReferences are the credentials that an MCP server is started or reached with.
func (up *upstream) mcpReferences() []reference {
	if !up.mcp {
		return nil
	}
	var refs []reference
	for _, values := range []map[string][]part{up.env, up.headers} {
		for _, parts := range values {
			for _, p := range parts {
				if p.ref != nil && !slices.Contains(refs, *p.ref) {
					refs = append(refs, *p.ref)
				}
			}
		}
	}
	return refs
}

// mainCall compiles the call that has the effect.
func (c *compiler) mainCall(t *tool, path string) *request {
	terms := callTerms{}
	if t.terms.Call != nil {
		terms = *t.terms.Call
	}
	if terms.Upstream != "" && terms.Upstream != t.upstream.name {
		c.fail(path+"/call/upstream", "the effect is the tool's own upstream's: change upstream")
	}
	terms.Upstream = t.upstream.name
	if terms.Tool == "" {
		var ok bool
		if terms.Tool, ok = strings.CutPrefix(t.contract.Tool, t.upstream.name+"/"); !ok {
			c.fail(path, "the name is not %s/TOOL, so say which tool it is: add call with tool", t.upstream.name)
		}
	}
	return c.toolCall(path+"/call", &terms, inRequest)
}

// asks compiles a request about an effect: by HTTP, or by a tool of MCP.
func (c *compiler) asks(t *tool, path string, r *requestTerms, call *callTerms, v vocabulary, reads bool) *request {
	if t.speaksMCP() {
		if c.given(path + "/request") {
			c.fail(path+"/request", "an upstream that speaks MCP is asked by one of its tools: write call")
		}
		if call == nil {
			if !c.given(path + "/request") {
				c.fail(path, "call is missing: name the tool and its args")
			}
			return &request{call: &toolCall{t.upstream.name, ""}, body: &bodyTerms{args: true}}
		}
		terms := *call
		if terms.Upstream == "" {
			terms.Upstream = t.upstream.name
		}
		if other := c.upstreams[terms.Upstream]; other == nil {
			c.fail(path+"/call/upstream", "there is no upstream %q%s", shorten(terms.Upstream), didYouMean(terms.Upstream, slices.Sorted(maps.Keys(c.upstreams))))
		} else if !other.mcp {
			c.fail(path+"/call/upstream", "upstream %q does not speak MCP", shorten(terms.Upstream))
		}
		if terms.Tool == "" {
			c.fail(path+"/call", "tool is missing: name the one that is called")
		}
		return c.toolCall(path+"/call", &terms, v)
	}
	if call != nil {
		c.fail(path+"/call", "only an upstream that speaks MCP has tools to call: write request")
	} else if !c.given(path + "/request") {
		c.fail(path, "request is missing")
	}
	return c.request(path+"/request", r, t.upstream, v, reads)
}

// toolCall compiles the arguments of a call.
func (c *compiler) toolCall(path string, terms *callTerms, v vocabulary) *request {
	r := &request{call: &toolCall{terms.Upstream, terms.Tool}, body: terms.Args, exprs: map[string]*program{}}
	if r.body == nil {
		r.body = &bodyTerms{args: true}
	}
	if r.body.tree != nil {
		c.body(r.body.tree, v, r.exprs)
		if r.body.tree.kind != bodyObject {
			c.fail(path+"/args", "the arguments of a tool are a mapping")
		}
	}
	return r
}

// httpTerms refuses what only MCP has.
func (c *compiler) httpTerms(t *tool, path string) {
	for _, name := range []string{"call", "empty_success"} {
		if c.given(path + "/" + name) {
			c.fail(path+"/"+name, "only an upstream that speaks MCP has %s", name)
		}
	}
	if d := t.terms.DeadlineTo; d != nil && d.Meta != "" {
		c.fail(path+"/deadline_to/meta", "only an upstream that speaks MCP has _meta: write header or json_pointer")
	}
	for name, k := range map[string]*carrierTerms{"key": t.terms.Key, "marker": t.terms.Marker} {
		if k != nil && (k.Carrier == "argument" || k.Carrier == "meta") {
			c.fail(path+"/"+name+"/carrier", "%s is for an upstream that speaks MCP: write header, json_pointer, query or resource_id", k.Carrier)
		}
	}
}

// mcpTerms refuses what only HTTP has, and checks where the key goes.
func (c *compiler) mcpTerms(t *tool, path string) {
	for _, name := range []string{"request", "needs_body", "body_may_fail", "expect_continue", "error_shape"} {
		if c.given(path + "/" + name) {
			c.fail(path+"/"+name, "a tool of MCP has no %s", name)
		}
	}
	if c.given(path + "/result") {
		c.fail(path+"/result", "the result of an MCP tool is kept whole, so that a repeat gets the server's own: remove it")
	}
	if d := t.terms.OnDuplicate; d != nil && d.Read != nil {
		c.fail(path+"/on_duplicate/read", "the answer of an MCP tool is its result: remove it")
	}
	for name, k := range map[string]*carrierTerms{"key": t.terms.Key, "marker": t.terms.Marker} {
		if k == nil {
			continue
		}
		switch at := path + "/" + name; k.Carrier {
		case "argument":
			if pointer(argumentPlace(k.Name))[0] == "" {
				c.fail(at+"/name", "want the name of an argument, or a JSON pointer into the arguments, such as /metadata/key")
			}
		case "meta":
			if !metaKey(k.Name) {
				c.fail(at+"/name", "want a key of _meta with a prefix of its own, such as example.com/key")
			}
		case "header":
			c.overHTTP(t, at+"/carrier")
		default:
			c.fail(at+"/carrier", "%s is for HTTP: write argument, meta or header", k.Carrier)
		}
	}
	withMCPTimes(&t.contract)
}

// argumentPlace is the JSON pointer of an argument.
func argumentPlace(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// metaKey reports whether a key of _meta can be ours to set: those of the protocol are not.
func metaKey(name string) bool {
	prefix, rest, ok := strings.Cut(name, "/")
	if !ok || prefix == "" || rest == "" {
		return false
	}
	labels := strings.Split(prefix, ".")
	return len(labels) < 2 || labels[1] != "modelcontextprotocol" && labels[1] != "mcp"
}

func (c *compiler) overHTTP(t *tool, at string) {
	if len(t.upstream.terms.MCP.Command) > 0 {
		c.fail(at, "a server that command starts gets no headers")
	}
}

// lateMCP checks what belongs to an attempt.
func (c *compiler) lateMCP(t *tool, path string) {
	if n := t.terms.NotAfter; n != nil {
		c.overHTTP(t, path+"/not_after/header")
		c.header(path+"/not_after/header", n.Header)
	}
	d := t.terms.DeadlineTo
	if d == nil {
		return
	}
	at := path + "/deadline_to"
	switch {
	case d.JSONPointer != "":
		c.fail(at+"/json_pointer", "arguments are computed once and sent again as they are: write meta")
	case (d.Header == "") == (d.Meta == ""):
		c.fail(at, "want one of header and meta")
	case d.Header != "":
		c.overHTTP(t, at+"/header")
		c.header(at+"/header", d.Header)
	case !metaKey(d.Meta):
		c.fail(at+"/meta", "want a key of _meta with a prefix of its own, such as example.com/deadline")
	}
}

// kindOfConventions checks that conventions are those of the way to the upstream.
func (c *compiler) kindOfConventions(t *tool, path string, k conventions) {
	if !c.given(path + "/conventions") {
		return // those of the upstream are checked there
	}
	switch {
	case t.speaksMCP() && k == "http":
		c.fail(path+"/conventions", "a status code proves nothing about a tool of MCP: write mcp for the codes of JSON-RPC, or none")
	case !t.speaksMCP() && k == "mcp":
		c.fail(path+"/conventions", "mcp is for an upstream that speaks MCP: write http, or none")
	}
}
