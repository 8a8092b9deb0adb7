package contract

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// request is a compiled requestTerms.
type request struct {
	method  string
	base    *url.URL
	path    [][]part // one list per segment
	query   []queryTerm
	headers map[string][]part // by canonical name
	body    *bodyTerms
	exprs   map[string]*program // of the body's tree, by path
	form    bool
	call    *toolCall // of an MCP tool, whose arguments are the body; nil for HTTP
}

type queryTerm struct {
	name string
	expr *program
}

// attachment is a value of ours that a request carries in a declared place.
type attachment struct {
	carrier carrier
	name    string
	value   string
}

// build computes the request. Its errors name the place and never a secret.
func (r *request) build(vars map[string]any, canonical map[string]any, attach []attachment) (*message, error) {
	m := &message{method: r.method}
	address, err := r.address(vars, attach)
	if err != nil {
		return nil, err
	}
	m.url = address
	header := map[string]string{"Accept": "application/json"}
	if r.body != nil {
		header["Content-Type"] = "application/json"
		if r.form {
			header["Content-Type"] = "application/x-www-form-urlencoded"
		}
		if m.body, err = r.content(vars, canonical, attach); err != nil {
			return nil, err
		}
	}
	for name, parts := range r.headers {
		if header[name], err = storedValue(parts, vars); err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
	}
	for _, a := range attach {
		if a.carrier == "header" {
			header[http.CanonicalHeaderKey(a.name)] = literalValue(a.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		m.header = append(m.header, field{name, header[name]})
	}
	return m, m.check()
}

func storedValue(parts []part, vars map[string]any) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		if p.ref != nil {
			b.WriteString(p.ref.String())
			continue
		}
		s, err := p.fill(vars)
		if err != nil {
			return "", err
		}
		b.WriteString(literalValue(s))
	}
	return b.String(), nil
}

// address fills path and query. The host is the upstream's, whatever the arguments say.
func (r *request) address(vars map[string]any, attach []attachment) (string, error) {
	var b strings.Builder
	b.WriteString(r.base.Scheme + "://" + r.base.Host + strings.TrimRight(r.base.EscapedPath(), "/"))
	for _, segment := range r.path {
		b.WriteByte('/')
		if len(segment) == 0 {
			continue // a path that ends in '/'
		}
		plain := ""
		for _, p := range segment {
			s, err := p.fill(vars)
			if err != nil {
				return "", fmt.Errorf("path: %w", err)
			}
			if p.expr != nil {
				if problem := hostileSegment(s); problem != "" {
					return "", fmt.Errorf("path: {%s}: the value %s", p.source, problem)
				}
				s = escape(s)
			}
			plain += s
		}
		if plain == "." || plain == ".." {
			return "", errors.New("path: a segment would be '.' or '..'")
		}
		b.WriteString(plain)
	}
	separator := byte('?')
	write := func(name, value string) {
		b.WriteByte(separator)
		b.WriteString(escape(name) + "=" + escape(value))
		separator = '&'
	}
	for _, q := range r.query {
		if slices.ContainsFunc(attach, func(a attachment) bool { return a.carrier == "query" && a.name == q.name }) {
			continue
		}
		texts, err := q.texts(vars)
		if err != nil {
			return "", fmt.Errorf("query %s: %w", q.name, err)
		}
		for _, s := range texts {
			write(q.name, s)
		}
	}
	for _, a := range attach {
		if a.carrier == "query" {
			write(a.name, a.value)
		}
	}
	return b.String(), nil
}

// texts are the values of a parameter: none for an absent optional, several for a list.
func (q queryTerm) texts(vars map[string]any) ([]string, error) {
	v, err := q.expr.json(vars)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var texts []string
	for _, e := range list {
		if _, none := e.(absent); none {
			continue
		}
		s, err := scalar(e)
		if err != nil {
			return nil, err
		}
		texts = append(texts, s)
	}
	return texts, nil
}

// hostileSegment says what a value in a path must not be. '/' and its like are refused
// and not merely escaped, because servers and proxies undo escapes before they route.
func hostileSegment(s string) string {
	low := strings.ToLower(s)
	switch {
	case s == "":
		return "is empty"
	case len(s) > 1024:
		return "is longer than 1024 bytes"
	case strings.ContainsAny(s, `/\`):
		return `holds '/' or '\'`
	case strings.Contains(low, "%2f"), strings.Contains(low, "%5c"), strings.Contains(low, "%2e"), strings.Contains(low, "%25"):
		return "holds an escaped '/', '\\', '.' or '%'"
	case strings.Trim(s, ".") == "":
		return "consists of dots"
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }):
		return "holds a control character"
	}
	return ""
}

// escape leaves the unreserved characters of RFC 3986 and escapes every other byte.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~':
			b.WriteByte(c)
		default:
			b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
		}
	}
	return b.String()
}

// content is the body's bytes.
func (r *request) content(vars, canonical map[string]any, attach []attachment) ([]byte, error) {
	var v any = maps.Clone(canonical)
	if !r.body.args {
		var err error
		if v, err = r.fill(r.body.tree, vars); err != nil {
			return nil, err
		}
	}
	for _, a := range attach {
		if a.carrier != "json_pointer" {
			continue
		}
		var err error
		if v, err = withValue(v, pointer(a.name), a.value); err != nil {
			return nil, fmt.Errorf("body: %s: %w", a.name, err)
		}
	}
	if r.form {
		return formBody(v)
	}
	b, err := pawl.AppendJSON(nil, v)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return b, nil
}

// fill computes the tree of a body. A member whose expression is an optional without a
// value is left out.
func (r *request) fill(n *bodyNode, vars map[string]any) (any, error) {
	switch n.kind {
	case bodyLiteral:
		return n.literal, nil
	case bodyObject:
		object := make(map[string]any, len(n.fields))
		for name, f := range n.fields {
			v, err := r.fill(f, vars)
			if err != nil {
				return nil, err
			}
			if _, none := v.(absent); !none {
				object[name] = v
			}
		}
		return object, nil
	case bodyList:
		list := make([]any, 0, len(n.items))
		for _, e := range n.items {
			v, err := r.fill(e, vars)
			if err != nil {
				return nil, err
			}
			if _, none := v.(absent); !none {
				list = append(list, v)
			}
		}
		return list, nil
	}
	v, err := r.exprs[n.path].json(vars)
	if err != nil {
		return nil, fmt.Errorf("body: %s: %w", n.expr, err)
	}
	return v, nil
}

// formBody writes an object as a form; members of members are named a[b].
func formBody(v any) ([]byte, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("body: a form is an object")
	}
	var pairs []string
	var write func(name string, v any) error
	write = func(name string, v any) error {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				if err := write(name+"["+k+"]", v[k]); err != nil {
					return err
				}
			}
			return nil
		case []any:
			for i, e := range v {
				if err := write(fmt.Sprintf("%s[%d]", name, i), e); err != nil {
					return err
				}
			}
			return nil
		case nil:
			pairs = append(pairs, escape(name)+"=")
			return nil
		}
		s, err := scalar(v)
		if err != nil {
			return fmt.Errorf("body: %s: %w", name, err)
		}
		pairs = append(pairs, escape(name)+"="+escape(s))
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(object)) {
		if err := write(k, object[k]); err != nil {
			return nil, err
		}
	}
	return []byte(strings.Join(pairs, "&")), nil
}

// pointer splits a JSON pointer (RFC 6901) into member names.
func pointer(p string) []string {
	parts := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, s := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return parts
}

// withValue returns v with a value at a place, making objects on the way. What is shared
// with v is not changed.
func withValue(v any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	object, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, errors.New("there is something else than an object on the way")
	}
	object = maps.Clone(object)
	if object == nil {
		object = map[string]any{}
	}
	inner, err := withValue(object[path[0]], path[1:], value)
	if err != nil {
		return nil, err
	}
	object[path[0]] = inner
	return object, nil
}

// atPointer is the value at a place, or nil.
func atPointer(v any, path []string) any {
	for _, name := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i := 0
			if _, err := fmt.Sscanf(name, "%d", &i); err != nil || fmt.Sprint(i) != name || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}
