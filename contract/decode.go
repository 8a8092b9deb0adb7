package contract

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/pawl-dev/pawl/internal/spelling"
)

// node is a type that reads its own YAML.
type node interface {
	decode(d *decoder, n ast.Node, path string)
}

// decoder reads a YAML tree into the types of document.go. Every place it meets is
// remembered under a JSON pointer, so that later steps can name the line of a term.
type decoder struct {
	report *report
	keys   map[string]place
	values map[string]place
	// uses are the places where the terms of a preset stand.
	uses map[place]bool
}

func member(path, name string) string {
	return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func item(path string, i int) string { return path + "/" + strconv.Itoa(i) }

// at is the place of the term at path, or of the nearest one above it.
func (d *decoder) at(path string) place {
	for {
		if p, ok := d.values[path]; ok {
			return p
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return place{1, 1}
		}
		path = path[:i]
	}
}

// fail reports a problem with the term at path, by its name where it stands in a preset.
func (d *decoder) fail(path, format string, args ...any) {
	at := d.at(path)
	if d.uses[at] {
		if segments := strings.SplitN(path, "/", 4); len(segments) == 4 { // "", the section, the entry, the term
			format, args = "with the preset's %s: "+format, append([]any{strings.ReplaceAll(segments[3], "/", ".")}, args...)
		}
	}
	d.report.add(at, format, args...)
}

// reported reports whether something is wrong with the term at path already, so that what
// follows from it need not be said.
func (d *decoder) reported(path string) bool { return d.wrong(d.at(path)) }

// reportedIn is reported for a term or anything in it.
func (d *decoder) reportedIn(path string) bool {
	if d.reported(path) {
		return true
	}
	for below, at := range d.values {
		if strings.HasPrefix(below, path+"/") && (d.wrong(at) || d.wrong(d.keys[below])) {
			return true
		}
	}
	return false
}

// wrong reports whether there is a problem at a place.
func (d *decoder) wrong(at place) bool {
	return slices.ContainsFunc(d.report.problems, func(p Problem) bool { return p.Line == at.line && p.Column == at.column })
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}

// place remembers where the value at path stands: at its key if it is a block.
func (d *decoder) place(path string, n ast.Node) {
	switch n.(type) {
	case *ast.MappingNode, *ast.SequenceNode, nil:
		if k, ok := d.keys[path]; ok {
			d.values[path] = k
			return
		}
	}
	if n != nil {
		d.values[path] = placeOf(n.GetToken())
	}
}

// into decodes a node into the value that ptr points to.
func (d *decoder) into(n ast.Node, ptr any, path string) {
	d.value(n, reflect.ValueOf(ptr).Elem(), path)
}

// sound reports whether the node is of the part of YAML that contract files use.
func (d *decoder) sound(n ast.Node, path string) bool {
	var at place
	if n != nil {
		at = placeOf(n.GetToken())
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		d.report.add(at, "anchors, aliases and merge keys are not used here: the text of a tool is kept with each operation and must be complete in itself")
		return false
	case *ast.TagNode:
		d.report.add(at, "a text that begins with '!' is a YAML tag: put it in quotes")
		return false
	}
	if strings.Count(path, "/") > maxDepth {
		d.report.add(at, "nested too deeply")
		return false
	}
	return true
}

func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	if !d.sound(n, path) {
		return
	}
	if _, null := n.(*ast.NullNode); (null || n == nil) && v.Type() != reflect.TypeFor[bodyTerms]() {
		if v.Kind() != reflect.Pointer {
			d.fail(path, "the value is empty: write one or remove the key")
			return
		}
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
		return
	}
	if own, ok := v.Addr().Interface().(node); ok {
		own.decode(d, n, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v.Addr().Interface(), path)
	case reflect.Map:
		if _, ok := d.mapping(n, path); !ok {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		d.eachKey(n, path, func(key string, value ast.Node, at string) {
			e := reflect.New(v.Type().Elem()).Elem()
			d.value(value, e, at)
			v.SetMapIndex(reflect.ValueOf(key), e)
		})
	case reflect.Slice:
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			d.fail(path, "want a list, got %s", describe(n))
			return
		}
		for i, value := range seq.Values {
			at := item(path, i)
			d.place(at, value)
			e := reflect.New(v.Type().Elem()).Elem()
			d.value(value, e, at)
			v.Set(reflect.Append(v, e))
		}
	case reflect.String:
		s, ok := d.text(n, path, "a text")
		if !ok {
			return
		}
		if w, ok := v.Interface().(word); ok && !slices.Contains(w.words(), s) {
			d.fail(path, "%q is none of the words known here%s", shorten(s), didYouMean(s, w.words()))
			v.SetString(spelling.Nearest(s, w.words()))
			return
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.fail(path, "want true or false, got %s", describe(n))
			return
		}
		v.SetBool(b.Value)
	case reflect.Int:
		i, err := strconv.ParseInt(n.GetToken().Value, 10, 32)
		if _, whole := n.(*ast.IntegerNode); !whole || err != nil || i < 0 {
			d.fail(path, "want a whole number from 0, got %s", describe(n))
			return
		}
		v.SetInt(i)
	}
}

// structure decodes a mapping into a struct: unknown, doubled and missing keys are problems.
func (d *decoder) structure(n ast.Node, ptr any, path string) {
	if _, ok := d.mapping(n, path); !ok {
		return
	}
	v := reflect.ValueOf(ptr).Elem()
	fields := map[string][]int{}
	var known, required []string
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Index
		known = append(known, name)
		if options == "" {
			required = append(required, name)
		}
	}
	given := map[string]bool{}
	meant := map[string]func(){}
	d.eachKey(n, path, func(key string, value ast.Node, at string) {
		index, ok := fields[key]
		if ok {
			given[key] = true
			d.value(value, v.FieldByIndex(index), at)
			return
		}
		d.report.add(d.keys[at], "unknown key %q%s", shorten(key), didYouMean(key, known))
		if word := spelling.Nearest(key, known); word != "" {
			meant[word] = func() {
				right := member(path, word)
				d.keys[right], d.values[right] = d.keys[at], d.keys[at] // where the problem is
				d.value(value, v.FieldByIndex(fields[word]), right)
			}
		}
	})
	// What was most likely meant is read as such, so that one typing error is one problem.
	for _, word := range slices.Sorted(maps.Keys(meant)) {
		if !given[word] {
			given[word] = true
			meant[word]()
		}
	}
	for _, name := range required {
		if !given[name] {
			d.fail(path, "%s is missing", name)
		}
	}
}

func (d *decoder) mapping(n ast.Node, path string) (*ast.MappingNode, bool) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.fail(path, "want a mapping, got %s", describe(n))
	}
	return m, ok
}

// eachKey calls f for the entries of a mapping, in their order, each key once.
func (d *decoder) eachKey(n ast.Node, path string, f func(key string, value ast.Node, at string)) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return
	}
	seen := map[string]place{}
	for _, e := range m.Values {
		if e == nil || e.Key == nil {
			continue
		}
		where := placeOf(e.Key.GetToken())
		var key string
		switch k := e.Key.(type) {
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			key = k.GetToken().Value
		case *ast.MergeKeyNode:
			d.sound(k, path)
			continue
		default:
			d.report.add(where, "a key must be a plain text")
			continue
		}
		if first, doubled := seen[key]; doubled {
			d.report.add(where, "key %q is already in line %d: remove one of the two", shorten(key), first.line)
			continue
		}
		seen[key] = where
		at := member(path, key)
		d.keys[at] = where
		d.values[at] = where
		d.place(at, e.Value)
		if d.sound(e.Value, at) {
			f(key, e.Value, at)
		}
	}
}

// text returns the text of a scalar that is one.
func (d *decoder) text(n ast.Node, path, want string) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		if n.Value != nil {
			return strings.TrimRight(n.Value.Value, "\n"), true
		}
		return "", true
	case *ast.MappingNode:
		d.fail(path, "want %s, got a mapping: put a text that begins with '{' in quotes", want)
	case *ast.SequenceNode:
		d.fail(path, "want %s, got a list: put a text that begins with '[' in quotes", want)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		d.fail(path, "want %s, got %s: put it in quotes", want, describe(n))
	default:
		d.fail(path, "want %s, got %s", want, describe(n))
	}
	return "", false
}
