package contract

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

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
	case r.method == "" && !c.reported(path) && !c.reported(path+"/method"):
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
