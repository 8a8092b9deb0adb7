package clients

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Limits of a configuration file.
const (
	// MaxFile is its size in bytes.
	MaxFile  = 8 << 20
	maxDepth = 64
)

// InputError is a configuration file that cannot be read.
type InputError struct {
	File         string
	Line, Column int
	What         string
}

// Error gives file, line, column and reason on one line.
func (e *InputError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.What)
}

type kind int

const (
	otherKind kind = iota // number, truth value, null, date
	textKind
	listKind
	tableKind
)

func (k kind) String() string {
	return [...]string{"a plain value", "a text", "a list", "a table"}[k]
}

// node is one value of a file and where its text stands.
type node struct {
	kind       kind
	start, end int
	// text is what a textKind says.
	text    string
	items   []*node
	members []member
	// block: a table whose members stand on lines of their own, as TOML writes them under a
	// header.
	block bool
	// closed: no later part of the file adds to the table.
	closed bool
}

type member struct {
	key   string
	at    int // where the key stands
	from  int // where a dotted key begins of which this is the last part
	value *node
}

func (n *node) member(key string) *node {
	if m := n.find(key); m != nil {
		return m.value
	}
	return nil
}

func (n *node) find(key string) *member {
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(n.members, func(m member) bool { return m.key == key })
	if i < 0 {
		return nil
	}
	return &n.members[i]
}

// source is the text of a file while it is read.
type source struct {
	name string
	text []byte
	at   int
}

// stop is the panic by which a reader ends at a fault; read recovers it.
type stop struct{ err *InputError }

func (s *source) fail(at int, format string, args ...any) {
	panic(stop{s.errorAt(at, format, args...)})
}

func (s *source) errorAt(at int, format string, args ...any) *InputError {
	before := s.text[:min(max(at, 0), len(s.text))]
	return &InputError{
		File: s.name, Line: 1 + bytes.Count(before, []byte("\n")),
		Column: 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]), What: fmt.Sprintf(format, args...),
	}
}

// read runs a reader over the whole text.
func (s *source) read(reader func() *node) (root *node, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stop:
			root, err = nil, p.err
		default:
			panic(p)
		}
	}()
	switch {
	case len(s.text) > MaxFile:
		s.fail(0, "the file is larger than %d bytes", MaxFile)
	case !utf8.Valid(s.text):
		s.fail(0, "the file is not UTF-8")
	}
	if bytes.HasPrefix(s.text, []byte("\xef\xbb\xbf")) {
		s.at = 3
	}
	return reader(), nil
}

// peek is the next byte, 0 at the end.
func (s *source) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *source) has(prefix string) bool { return bytes.HasPrefix(s.text[s.at:], []byte(prefix)) }
