package clients

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// readTOML reads TOML as far as finding the values and their places needs: what kind of
// number or date a plain value is does not matter here.
func readTOML(name string, text []byte) (*node, error) {
	s := &source{name: name, text: text}
	return s.read(func() *node {
		root := &node{kind: tableKind, start: s.at, block: true}
		table := root
		for {
			s.lines()
			switch at := s.at; {
			case at >= len(s.text):
				root.end = at
				return root
			case s.has("[["):
				s.at += 2
				table = s.tomlElement(root, s.header("]]"), at)
			case s.peek() == '[':
				s.at++
				table = s.tomlTable(root, s.header("]"), at)
			default:
				s.tomlPair(table, 0)
			}
			s.endOfLine()
		}
	})
}

// lines skips empty lines and comments.
func (s *source) lines() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		case '#':
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		default:
			return
		}
	}
}

// spaces skips white space within a line.
func (s *source) spaces() {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.at++
	}
}

func (s *source) endOfLine() {
	s.spaces()
	if s.peek() == '#' {
		for s.at < len(s.text) && s.text[s.at] != '\n' {
			s.at++
		}
	}
	if s.at < len(s.text) && s.peek() != '\n' && !s.has("\r\n") {
		s.fail(s.at, "want the end of the line")
	}
}

type tomlKey struct {
	key string
	at  int
}

func (s *source) header(closing string) []tomlKey {
	path := s.dotted()
	if !s.has(closing) {
		s.fail(s.at, "want %q at the end of the table's name", closing)
	}
	s.at += len(closing)
	return path
}

// dotted reads a key such as mcp_servers."my server".env.
func (s *source) dotted() (path []tomlKey) {
	for {
		s.spaces()
		k := tomlKey{at: s.at}
		switch c := s.peek(); {
		case c == '"' || c == '\'':
			k.key = s.tomlLine(c)
		default:
			for bare(s.peek()) {
				s.at++
			}
			if s.at == k.at {
				s.fail(s.at, "want a key")
			}
			k.key = string(s.text[k.at:s.at])
		}
		if path = append(path, k); len(path) > maxDepth {
			s.fail(k.at, "nested too deeply")
		}
		s.spaces()
		if s.peek() != '.' {
			return path
		}
		s.at++
	}
}

func bare(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// descend finds or makes the table of a path.
func (s *source) descend(from *node, path []tomlKey, at int) *node {
	for _, k := range path {
		next := from.member(k.key)
		if next == nil {
			next = &node{kind: tableKind, start: at, end: at, block: true}
			from.members = append(from.members, member{k.key, k.at, k.at, next})
		}
		if next.kind == listKind && len(next.items) > 0 && !next.closed {
			next = next.items[len(next.items)-1]
		}
		if next.kind != tableKind || next.closed {
			s.fail(k.at, "this key has a value already and is no table to add to")
		}
		from = next
	}
	return from
}

// tomlTable begins the table of a [header].
func (s *source) tomlTable(root *node, path []tomlKey, at int) *node {
	return s.descend(root, path, at)
}

// tomlElement begins an element of a [[header]].
func (s *source) tomlElement(root *node, path []tomlKey, at int) *node {
	last := path[len(path)-1]
	parent := s.descend(root, path[:len(path)-1], at)
	list := parent.member(last.key)
	if list == nil {
		list = &node{kind: listKind, start: at, end: at}
		parent.members = append(parent.members, member{last.key, last.at, last.at, list})
	}
	if list.kind != listKind || list.closed {
		s.fail(last.at, "this key has a value already and is no list of tables to add to")
	}
	element := &node{kind: tableKind, start: at, end: at, block: true}
	list.items = append(list.items, element)
	return element
}

// tomlPair reads key = value into a table.
func (s *source) tomlPair(table *node, depth int) {
	path := s.dotted()
	if s.peek() != '=' {
		s.fail(s.at, "want '=' after a key")
	}
	s.at++
	s.spaces()
	last := path[len(path)-1]
	parent := s.descend(table, path[:len(path)-1], last.at)
	if parent.member(last.key) != nil {
		s.fail(last.at, "this key is there twice")
	}
	parent.members = append(parent.members, member{last.key, last.at, path[0].at, s.tomlValue(depth)})
}

func (s *source) tomlValue(depth int) *node {
	if depth > maxDepth {
		s.fail(s.at, "nested too deeply")
	}
	n := &node{start: s.at, closed: true}
	switch c := s.peek(); {
	case s.has(`"""`), s.has("'''"):
		n.kind, n.text = textKind, s.tomlLines(string(s.text[s.at:s.at+3]))
	case c == '"' || c == '\'':
		n.kind, n.text = textKind, s.tomlLine(c)
	case c == '[':
		n.kind = listKind
		s.at++
		s.tomlSequence(']', true, func() { n.items = append(n.items, s.tomlValue(depth+1)) })
	case c == '{':
		n.kind, n.closed = tableKind, false
		s.at++
		s.tomlSequence('}', false, func() { s.tomlPair(n, depth+1) })
		n.close()
	default:
		for bare(s.peek()) || s.peek() == '+' || s.peek() == '.' || s.peek() == ':' ||
			s.peek() == ' ' && s.at-n.start == 10 && s.text[n.start+4] == '-' && s.at+1 < len(s.text) && '0' <= s.text[s.at+1] && s.text[s.at+1] <= '9' {
			s.at++
		}
		if s.at == n.start {
			s.fail(s.at, "want a value")
		}
	}
	n.end = s.at
	return n
}

// close says of a table in braces, and what is in it, that nothing adds to it later.
func (n *node) close() {
	n.closed, n.block = true, false
	for _, m := range n.members {
		m.value.close()
	}
}

// tomlSequence reads entries between commas up to the closing sign.
func (s *source) tomlSequence(closing byte, lines bool, entry func()) {
	skip := s.spaces
	if lines {
		skip = s.lines
	}
	for {
		skip()
		if s.peek() == closing {
			s.at++
			return
		}
		entry()
		skip()
		switch s.peek() {
		case ',':
			s.at++
		case closing:
		case 0:
			s.fail(s.at, "the file ends before the closing '%c'", closing)
		default:
			s.fail(s.at, "want ',' or '%c'", closing)
		}
	}
}

// tomlLine reads a text in one pair of quotes.
func (s *source) tomlLine(quote byte) string {
	start := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '\n':
			s.fail(start, "the text has no end on its line")
		case c == '\\' && quote == '"':
			s.at++
		case c == quote:
			s.at++
			return s.unescaped(start, s.text[start+1:s.at-1], quote)
		}
	}
	s.at = len(s.text)
	s.fail(start, "the text has no end")
	return ""
}

// tomlLines reads a text in three pairs of quotes.
func (s *source) tomlLines(quotes string) string {
	start := s.at
	for s.at += 3; s.at < len(s.text); s.at++ {
		if s.text[s.at] == '\\' && quotes[0] == '"' {
			s.at++
			continue
		}
		if s.has(quotes) {
			// Up to two more quotes belong to the text.
			for n := 0; n < 2 && s.at+3 < len(s.text) && s.text[s.at+3] == quotes[0]; n++ {
				s.at++
			}
			body := s.text[start+3 : s.at]
			s.at += 3
			body = bytes.TrimPrefix(bytes.TrimPrefix(body, []byte("\r")), []byte("\n"))
			return s.unescaped(start, body, quotes[0])
		}
	}
	s.at = len(s.text)
	s.fail(start, "the text has no end")
	return ""
}

// unescaped is what a text in double quotes says; single quotes know no escapes.
func (s *source) unescaped(start int, body []byte, quote byte) string {
	if quote == '\'' || bytes.IndexByte(body, '\\') < 0 {
		return string(body)
	}
	var b strings.Builder
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' || i+1 == len(body) {
			b.WriteByte(body[i])
			continue
		}
		i++
		switch c := body[i]; c {
		case 'b', 't', 'n', 'f', 'r', 'e', '"', '\\':
			b.WriteByte(map[byte]byte{'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r', 'e': 0x1b, '"': '"', '\\': '\\'}[c])
		case 'u', 'U', 'x':
			digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if i+digits >= len(body) {
				s.fail(start, "the text has a short escape")
			}
			r, err := strconv.ParseUint(string(body[i+1:i+1+digits]), 16, 32)
			if err != nil || !utf8.ValidRune(rune(r)) {
				s.fail(start, "the text has an escape that is no character")
			}
			b.WriteRune(rune(r))
			i += digits
		case '\n', '\r', ' ', '\t':
			for i+1 < len(body) && strings.IndexByte(" \t\r\n", body[i+1]) >= 0 {
				i++
			}
		default:
			s.fail(start, "the text has the escape %s, which TOML does not know", fmt.Sprintf("\\%c", c))
		}
	}
	return b.String()
}
