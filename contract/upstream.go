package contract

import (
	"net/url"
	"slices"
	"strings"
)

// upstream is a compiled upstreamTerms.
type upstream struct {
	name    string
	terms   upstreamTerms
	url     *url.URL
	headers map[string][]part
	aws     *awsSigner
	mcp     bool
	env     map[string][]part // of a child that speaks MCP
}

func (c *compiler) upstream(name, path string, terms upstreamTerms) *upstream {
	up := &upstream{name: name, terms: terms, headers: map[string][]part{}}
	u, err := url.Parse(terms.URL)
	at := path + "/url"
	switch {
	case terms.URL == "" && terms.MCP != nil:
		u = nil
	case terms.URL == "":
		if !c.given(at) && !c.given(path+"/use") {
			c.fail(path, "url is missing: write one, or use a preset that has one")
		}
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
	up.aws = c.aws(path+"/aws", terms.AWS)
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
	c.mcpUpstream(up, path)
	return up
}
