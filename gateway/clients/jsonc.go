package clients

import (
	"bytes"
	"encoding/json"
)

// readJSON reads JSON with comments and trailing commas.
func readJSON(name string, text []byte) (*node, error) {
	s := &source{name: name, text: text}
	return s.read(func() *node {
		s.blank()
		n := s.json(0)
		s.blank()
		if s.at < len(s.text) {
			s.fail(s.at, "something follows the end of the JSON value")
		}
		return n
	})
}

// blank skips white space and comments.
func (s *source) blank() {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			s.at++
		case s.has("//"):
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		case s.has("/*"):
			end := bytes.Index(s.text[s.at+2:], []byte("*/"))
			if end < 0 {
				s.fail(s.at, "the comment has no end")
			}
			s.at += end + 4
		default:
			return
		}
	}
}

func (s *source) json(depth int) *node {
	if depth > maxDepth {
		s.fail(s.at, "nested too deeply")
	}
	n := &node{start: s.at}
	switch s.peek() {
	case '{':
		n.kind = tableKind
		s.at++
		s.sequence('}', func() { s.jsonMember(n, depth) })
	case '[':
		n.kind = listKind
		s.at++
		s.sequence(']', func() { n.items = append(n.items, s.json(depth+1)) })
	case '"':
		n.kind, n.text = textKind, s.jsonText()
	default:
		for s.at < len(s.text) && (s.text[s.at] == '-' || s.text[s.at] == '+' || s.text[s.at] == '.' || '0' <= s.text[s.at] && s.text[s.at] <= '9' || 'a' <= s.text[s.at] && s.text[s.at] <= 'z' || s.text[s.at] == 'E') {
			s.at++
		}
		if !json.Valid(s.text[n.start:s.at]) {
			s.fail(n.start, "no JSON value begins here")
		}
	}
	n.end = s.at
	return n
}

// sequence reads entries between commas up to the closing sign; a comma before it is fine.
func (s *source) sequence(closing byte, entry func()) {
	for {
		s.blank()
		if s.peek() == closing {
			s.at++
			return
		}
		entry()
		s.blank()
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

func (s *source) jsonMember(n *node, depth int) {
	at := s.at
	if s.peek() != '"' {
		s.fail(at, "want a key in double quotes")
	}
	key := s.jsonText()
	if n.member(key) != nil {
		s.fail(at, "this key is there twice")
	}
	s.blank()
	if s.peek() != ':' {
		s.fail(s.at, "want ':' after a key")
	}
	s.at++
	s.blank()
	n.members = append(n.members, member{key, at, at, s.json(depth + 1)})
}

func (s *source) jsonText() string {
	start := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case '\n':
			s.fail(start, "the text has no end on its line")
		case '"':
			s.at++
			var text string
			if json.Unmarshal(s.text[start:s.at], &text) != nil {
				s.fail(start, "the text has an escape that JSON does not know, or a control character")
			}
			return text
		}
	}
	s.at = len(s.text)
	s.fail(start, "the text has no end")
	return ""
}
