package contract

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"
	"github.com/pawl-dev/pawl"
)

// Options of Load and Parse. Nil and zero fields mean the defaults.
type Options struct {
	// Getenv finds the value of ${env:NAME}; nil means os.LookupEnv.
	Getenv func(name string) (string, bool)
	// ReadFile reads ${file:/path} and the files of tls; nil means the file system.
	ReadFile func(path string) ([]byte, error)
	// Allow judges every address before a connection is made, besides network: public.
	Allow func(netip.AddrPort) error
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Getenv == nil {
		d.Getenv = os.LookupEnv
	}
	if d.ReadFile == nil {
		d.ReadFile = readReferenced
	}
	return d
}

// File is a contract file without problems.
type File struct {
	// Name is what problems and findings call it.
	Name string

	store         []part
	options       Options
	vault         *vault
	upstreams     map[string]*upstream
	tools         []*tool
	keySecrets    []keySecret
	tenantSecrets map[string][]keySecret
	notify        *notify

	mu    sync.Mutex
	wires map[string]*wire
	mcp   MCPClient
}

// Load reads the contract file at path. A file that cannot be used is an *InvalidError.
func Load(path string, o *Options) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read contract file: %w", err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.IsDir() {
		return nil, fmt.Errorf("read contract file: %s is a folder: name a file", path)
	}
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read contract file: %w", err)
	}
	return Parse(path, src, o)
}

// Parse reads a contract file's text; name is what problems call it. It touches neither
// files nor the environment: credentials are looked up when a request is sent.
func Parse(name string, src []byte, o *Options) (*File, error) { return parse(name, src, o, nil) }

// parse is Parse; with an upstream of today its headers replace those of the text.
func parse(name string, src []byte, o *Options, today *upstream) (*File, error) {
	if len(src) > maxFile {
		r := newReport(name, nil)
		r.add(place{1, 1}, "the file is larger than %d bytes", maxFile)
		return nil, r.err()
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")) // as editors on Windows begin a file
	r := newReport(name, src)
	root := parseYAML(src, r)
	if root == nil {
		return nil, r.err()
	}
	options := o.withDefaults()
	c := &compiler{
		decoder: &decoder{report: r, keys: map[string]place{}, values: map[string]place{}},
	}
	c.presets(root)
	var doc document
	c.structure(root, &doc, "")
	if c.given("/version") && doc.Version != 1 && len(r.problems) == 0 {
		c.fail("/version", "this pawl reads version 1")
	}
	f := &File{Name: name, store: c.store(doc.Store), options: options, vault: &vault{options.Getenv, options.ReadFile}, upstreams: map[string]*upstream{}, wires: map[string]*wire{}}
	c.secrets(f, doc.KeySecret)
	f.notify = c.notify(doc.Notify)
	for _, n := range slices.Sorted(maps.Keys(doc.Upstreams)) {
		f.upstreams[n] = c.upstream(n, member("/upstreams", n), doc.Upstreams[n])
		if today != nil {
			f.upstreams[n].headers, f.upstreams[n].aws = today.headers, today.aws
		}
	}
	c.upstreams = f.upstreams
	for _, n := range slices.Sorted(maps.Keys(doc.Tools)) {
		path, terms := member("/tools", n), doc.Tools[n]
		up := f.upstreams[terms.Upstream]
		if up == nil && terms.Upstream != "" {
			c.fail(path+"/upstream", "there is no upstream %q%s", shorten(terms.Upstream),
				didYouMean(terms.Upstream, slices.Sorted(maps.Keys(doc.Upstreams))))
		}
		t := c.tool(n, path, terms, up)
		f.tools = append(append(f.tools, t), c.chosenFrom(t, path)...)
	}
	c.namedOnce(f.tools)
	if today == nil {
		c.compensations(f.tools)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	slices.SortFunc(f.tools, func(a, b *tool) int { return cmp.Compare(a.line, b.line) })
	c.sources(f, root)
	if err := r.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// sources gives each contract the text of its tool and upstream, a contract file in itself.
func (c *compiler) sources(f *File, root *ast.MappingNode) {
	upstreams, tools := c.blocks(root, "upstreams"), c.blocks(root, "tools")
	for _, t := range f.tools {
		t.contract.Source = "version: 1\nupstreams:\n" + upstreams[t.upstream.name]
		for _, other := range t.whole().otherUpstreams() {
			t.contract.Source += upstreams[other]
		}
		t.contract.Source += "tools:\n" + tools[t.whole().contract.Tool]
	}
}

// blocks cuts the lines of each entry of a section out of the source.
func (c *compiler) blocks(root *ast.MappingNode, section string) map[string]string {
	blocks := map[string]string{}
	for i, e := range root.Values {
		if e.Key.GetToken().Value != section {
			continue
		}
		entries, ok := e.Value.(*ast.MappingNode)
		if !ok {
			continue
		}
		end := len(c.report.lines) + 1
		if i+1 < len(root.Values) {
			end = placeOf(root.Values[i+1].Key.GetToken()).line
		}
		for j := len(entries.Values) - 1; j >= 0; j-- {
			key := entries.Values[j].Key.GetToken()
			start := placeOf(key)
			if start.line >= end || strings.TrimSpace(firstRunes(c.report.lines[start.line-1], start.column-1)) != "" {
				c.report.add(start, "write %s in block style, each beginning a line of its own: the text of a tool is kept with its operations", section)
				return blocks
			}
			lines := c.report.lines[start.line-1 : end-1]
			for len(lines) > 1 && unimportant(lines[len(lines)-1], start.column) {
				lines = lines[:len(lines)-1]
			}
			blocks[key.Value] = strings.Join(lines, "\n") + "\n"
			if m, ok := entries.Values[j].Value.(*ast.MappingNode); ok && c.expanded[m] {
				blocks[key.Value] = written(entries.Values[j], "  ")
			}
			end = start.line
		}
	}
	return blocks
}

// unimportant reports whether a line after a block does not belong to it: it is empty, the
// end of the document, or a comment that is not indented deeper than the block's key.
func unimportant(line string, column int) bool {
	text := strings.TrimSpace(line)
	indent := len(line) - len(strings.TrimLeft(line, " "))
	return text == "" || text == "..." || text == "---" || strings.HasPrefix(text, "#") && indent < column
}

func (c *compiler) secrets(f *File, terms *keySecretTerms) {
	if terms == nil {
		return
	}
	list := func(path string, secrets []secretTerms) (out []keySecret) {
		seen := map[string]bool{}
		for i, s := range secrets {
			at := item(path, i)
			if _, ok := c.values[at]; !ok {
				at = path
			}
			if s.ID == "" || seen[s.ID] {
				c.fail(at, "each secret has an id of its own, which is never used for another one")
			}
			seen[s.ID] = true
			parts, err := parseTemplate(string(s.Value), inRequest, true)
			if err != nil || len(parts) != 1 || parts[0].ref == nil {
				c.fail(at, "a secret is never written into the file: put it into the environment or a file and write ${env:NAME} or ${file:/path}")
				continue
			}
			out = append(out, keySecret{s.ID, *parts[0].ref})
		}
		return out
	}
	path := "/key_secret"
	if c.given(path + "/default") {
		f.keySecrets = list(path+"/default", terms.Default)
	} else {
		f.keySecrets = list(path, terms.Default)
	}
	f.tenantSecrets = map[string][]keySecret{}
	for _, tenant := range slices.Sorted(maps.Keys(terms.Tenants)) {
		at := member(path+"/tenants", tenant)
		f.tenantSecrets[tenant] = list(at, terms.Tenants[tenant])
		if len(terms.Tenants[tenant]) == 0 {
			c.fail(at, "the tenant has no secret: list one or remove the tenant")
		}
	}
}

// Tools returns the tools in the order of the file, ready to be registered. It reads the
// files that tls names, and the tools keep connections until Close.
func (f *File) Tools() ([]pawl.Tool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, up := range f.upstreams {
		if f.wires[name] != nil || up.mcp {
			continue
		}
		w, err := newWire(up, &f.options, f.vault)
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", name, err)
		}
		f.wires[name] = w
	}
	tools := make([]pawl.Tool, 0, len(f.tools))
	for _, t := range f.tools {
		if t.upstream.mcp {
			tools = append(tools, pawl.Tool{Contract: t.contract, Port: &mcpTool{t, f}})
			continue
		}
		if t.wire == nil {
			t.wire = f.wires[t.upstream.name]
		}
		tools = append(tools, pawl.Tool{Contract: t.contract, Port: t})
	}
	return tools, nil
}

// Close closes the connections of the file's tools.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.wires {
		w.transport.Close()
	}
}
