package contract

import (
	"errors"
	"unicode/utf8"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a contract file.
const (
	maxFile  = 1 << 20
	maxDepth = 40
	// maxTokens bounds the time of the YAML library, which grows with the square of the
	// entries of a mapping.
	maxTokens = 50_000
	// maxInBrackets bounds the entries between brackets, where that square is largest.
	maxInBrackets = 100
)

// parseYAML returns the root of the one document in src, or nil after a report.
func parseYAML(src []byte, r *report) (root *ast.MappingNode) {
	defer func() {
		// The YAML library is handed whatever is in the file; a fault of its own must
		// not take the process down.
		if p := recover(); p != nil {
			r.add(place{1, 1}, "the text cannot be read as YAML: check quotes, brackets and indentation")
			root = nil
		}
	}()
	if at, what := hostile(src); what != "" {
		r.add(at, "%s", what)
		return nil
	}
	tokens := lexer.Tokenize(string(src))
	if len(tokens) > maxTokens {
		r.add(place{1, 1}, "the file has more than %d words and signs: split it", maxTokens)
		return nil
	}
	if t := crowded(tokens); t != nil {
		r.add(placeOf(t), "more than %d entries between brackets: write one a line, without brackets", maxInBrackets)
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var y yaml.Error
		at, message := place{1, 1}, "the text is no YAML"
		if errors.As(err, &y) {
			at, message = placeOf(y.GetToken()), y.GetMessage()
		}
		if at, what := misindented(r.lines, at); what != "" {
			r.add(at, "%s", what)
			return nil
		}
		r.add(at, "%s (a text that contains ': ' or ' #', or begins with a special character, needs quotes)", message)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil {
			continue
		}
		if body != nil {
			r.add(placeOf(doc.Body.GetToken()), "a second document: a contract file is one document")
			return nil
		}
		body = doc.Body
	}
	switch n := body.(type) {
	case nil:
		r.add(place{1, 1}, "the file is empty: it begins with version: 1")
	case *ast.CommentGroupNode:
		r.add(place{1, 1}, "the file has nothing but comments: it begins with version: 1")
	case *ast.MappingNode:
		return n
	default:
		r.add(placeOf(n.GetToken()), "want a mapping with version, upstreams and tools, got %s", describe(n))
	}
	return nil
}

// hostile finds what would make a YAML parser recurse without bounds, before it does:
// nesting by brackets, or by indicators within one line. Nesting by indentation needs ever
// longer lines, so the size of the file bounds it.
func hostile(src []byte) (place, string) {
	const bound = 1000
	if !utf8.Valid(src) {
		return place{1, 1}, "the file is not UTF-8"
	}
	brackets, indicators, line, column := 0, 0, 1, 0
	for _, c := range src {
		column++
		switch c {
		case 0:
			return place{line, column}, "a NUL byte: the file must be plain text"
		case '\n':
			line, column, indicators = line+1, 0, 0
		case '[', '{':
			brackets++
		case ']', '}':
			brackets = max(brackets-1, 0)
		case '-', '?', '&', '!', '*':
			indicators++
		}
		if brackets > bound || indicators > bound {
			return place{line, column}, "nested too deeply"
		}
	}
	return place{}, ""
}

// crowded returns the bracket that opens more entries than are read, those in inner
// brackets among them.
func crowded(tokens token.Tokens) (open *token.Token) {
	depth, entries := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			if depth == 0 {
				open, entries = t, 0
			}
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth = max(depth-1, 0)
		case token.CollectEntryType:
			if entries++; depth > 0 && entries >= maxInBrackets {
				return open
			}
		}
	}
	return nil
}
