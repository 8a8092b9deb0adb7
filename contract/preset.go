package contract

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// presetFiles hold what is known about a provider each: its name, how it is reached
// (upstream) and the contract of each of its operations, with the keys that a contract file
// has for the same.
//
//go:embed presets/*.yaml
var presetFiles embed.FS

// Presets returns the names that the use of a tool may have, in alphabetical order:
// PROVIDER/OPERATION, such as stripe/v1/refunds.create.
func Presets() []string {
	var names []string
	for _, provider := range presetProviders() {
		for _, e := range presetEntries(provider, "operations") {
			names = append(names, provider+"/"+keyText(e))
		}
	}
	slices.Sort(names)
	return names
}

// presetProviders are the names that the use of an upstream may have.
func presetProviders() []string {
	files, err := fs.Glob(presetFiles, "presets/*.yaml")
	if err != nil {
		panic("contract: " + err.Error()) // the pattern is a constant
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return files
}

// presetEntries are the entries of one section of a provider's preset file, parsed anew for
// each use since a use changes where they stand. A provider that has none gives nil.
func presetEntries(provider, section string) []*ast.MappingValueNode {
	src, err := presetFiles.ReadFile("presets/" + provider + ".yaml")
	if err != nil {
		return nil
	}
	r := newReport(provider+".yaml", src)
	root := parseYAML(src, r)
	if root == nil {
		panic("contract: preset " + r.err().Error()) // they are part of the program, and a test reads each
	}
	return entriesOf(valueOf(root, section))
}

// presets puts the terms of a preset under those of each tool and upstream that uses one.
func (c *compiler) presets(root *ast.MappingNode) {
	for _, e := range entriesOf(valueOf(root, "upstreams")) {
		c.use(e, "upstream", presetProviders, func(name string) []*ast.MappingValueNode {
			return presetEntries(name, "upstream")
		})
	}
	for _, e := range entriesOf(valueOf(root, "tools")) {
		c.use(e, "operation", Presets, presetOperation)
		own, ok := e.Value.(*ast.MappingNode)
		if !ok {
			continue
		}
		for _, section := range []ast.Node{valueOf(own, "when"), valueIn(valueOf(own, "unwrap"), "tools")} {
			for _, inner := range entriesOf(section) {
				c.use(inner, "operation", Presets, presetOperation)
				if m, ok := inner.Value.(*ast.MappingNode); ok && c.expanded[m] {
					c.expanded[own] = true
				}
			}
		}
	}
}

// presetOperation are the terms of the operation that a use names, nil where there is none.
func presetOperation(name string) []*ast.MappingValueNode {
	provider, operation, _ := strings.Cut(name, "/")
	for _, o := range presetEntries(provider, "operations") {
		if keyText(o) == operation {
			return entriesOf(o.Value)
		}
	}
	return nil
}

// valueIn is valueOf for what may be no mapping.
func valueIn(n ast.Node, key string) ast.Node {
	if m, ok := n.(*ast.MappingNode); ok {
		return valueOf(m, key)
	}
	return nil
}

// use replaces the key use of one entry by the terms that it names.
func (c *compiler) use(entry *ast.MappingValueNode, what string, known func() []string, find func(string) []*ast.MappingValueNode) {
	own, ok := entry.Value.(*ast.MappingNode)
	if !ok {
		return
	}
	i := slices.IndexFunc(own.Values, func(e *ast.MappingValueNode) bool { return keyText(e) == "use" })
	if i < 0 {
		return
	}
	use := own.Values[i]
	name, ok := use.Value.(*ast.StringNode)
	if !ok {
		return // the decoder says that it is no text
	}
	at := placeOf(use.Key.GetToken())
	terms := find(name.Value)
	if terms == nil {
		c.report.add(placeOf(name.GetToken()), "there is no preset of an %s named %q%s", what, shorten(name.Value), didYouMean(name.Value, known()))
		return
	}
	if c.uses == nil {
		c.uses = map[place]bool{}
	}
	c.uses[at] = true
	for _, t := range terms {
		ast.Walk(standsAt{use.Key.GetToken().Position}, t)
	}
	own.Values = slices.Delete(own.Values, i, i+1)
	own.Values = overlay(terms, own.Values)
	if c.expanded == nil {
		c.expanded = map[*ast.MappingNode]bool{}
	}
	c.expanded[own] = true
}

// standsAt gives every token of a preset the place of its use, where a problem that comes
// of it is reported.
type standsAt struct{ at *token.Position }

func (s standsAt) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil {
		t.Position = s.at
	}
	return s
}

// overlay returns the entries of base with those of over on top: mappings are laid over one
// another key by key, null removes a term, anything else replaces it. What identity and body
// say belongs together, so they are replaced as a whole.
func overlay(base, over []*ast.MappingValueNode) []*ast.MappingValueNode {
	merged := slices.Clone(base)
	for _, e := range over {
		key := keyText(e)
		i := slices.IndexFunc(merged, func(b *ast.MappingValueNode) bool { return keyText(b) == key })
		if _, null := e.Value.(*ast.NullNode); null && i >= 0 {
			merged = slices.Delete(merged, i, i+1)
			continue
		}
		if i < 0 {
			merged = append(merged, e)
			continue
		}
		below, ok := merged[i].Value.(*ast.MappingNode)
		above, both := e.Value.(*ast.MappingNode)
		if ok && both && key != "identity" && key != "body" {
			above.Values = overlay(below.Values, above.Values)
		}
		merged[i] = e
	}
	return merged
}

func valueOf(m *ast.MappingNode, key string) ast.Node {
	for _, e := range m.Values {
		if keyText(e) == key {
			return e.Value
		}
	}
	return nil
}

func entriesOf(n ast.Node) []*ast.MappingValueNode {
	if m, ok := n.(*ast.MappingNode); ok {
		return m.Values
	}
	return nil
}

// keyText is the text of an entry's key; a key that is no plain text has none.
func keyText(e *ast.MappingValueNode) string {
	if e == nil || e.Key == nil {
		return ""
	}
	if s, ok := e.Key.(*ast.StringNode); ok {
		return s.Value
	}
	return ""
}

// written is an entry with its expanded terms as YAML in block style, which is what is kept
// with an operation.
func written(entry *ast.MappingValueNode, indent string) string {
	var b strings.Builder
	writeEntry(&b, entry, indent)
	return b.String()
}

func writeEntry(b *strings.Builder, e *ast.MappingValueNode, indent string) {
	b.WriteString(indent)
	writeScalar(b, e.Key)
	b.WriteByte(':')
	writeValue(b, e.Value, indent+"  ")
}

func writeValue(b *strings.Builder, n ast.Node, indent string) {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) == 0 {
			b.WriteString(" {}\n")
			return
		}
		b.WriteByte('\n')
		for _, e := range n.Values {
			writeEntry(b, e, indent)
		}
	case *ast.SequenceNode:
		if len(n.Values) == 0 {
			b.WriteString(" []\n")
			return
		}
		b.WriteByte('\n')
		for _, item := range n.Values {
			b.WriteString(indent + "-")
			writeValue(b, item, indent+"  ")
		}
	default:
		b.WriteByte(' ')
		writeScalar(b, n)
		b.WriteByte('\n')
	}
}

// writeScalar quotes every text: a JSON string is a YAML one.
func writeScalar(b *strings.Builder, n ast.Node) {
	var text string
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.LiteralNode:
		text = strings.TrimRight(n.Value.Value, "\n")
	default:
		b.WriteString(n.GetToken().Value)
		return
	}
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		panic("contract: " + err.Error()) // a string always marshals
	}
	b.WriteString(strings.TrimSpace(quoted.String()))
}
