package contract

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
)

// part is one piece of a template: literal text, an expression, or a reference.
type part struct {
	text   string
	expr   *program
	source string // of expr
	ref    *reference
}

// templateFault is what is wrong with one expression of a template.
type templateFault struct {
	source string
	err    error
}

func (f *templateFault) Error() string { return "{" + shorten(f.source) + "}: " + f.err.Error() }

func (f *templateFault) Unwrap() error { return f.err }

// parseTemplate splits text into parts. {CEL} is an expression; ${env:NAME} and
// ${file:/path} are references where they are allowed.
func parseTemplate(s string, v vocabulary, references bool) ([]part, error) {
	var parts []part
	literal := func(text string) {
		if n := len(parts); n > 0 && parts[n-1].expr == nil && parts[n-1].ref == nil {
			parts[n-1].text += text
			return
		}
		parts = append(parts, part{text: text})
	}
	for s != "" {
		i := strings.IndexAny(s, "{}$")
		if i < 0 {
			literal(s)
			break
		}
		if i > 0 {
			literal(s[:i])
			s = s[i:]
		}
		switch {
		case s[0] == '}':
			return nil, errors.New("a '}' without its '{'")
		case s[0] == '$' && !strings.HasPrefix(s, "${"):
			literal("$")
			s = s[1:]
		case s[0] == '$':
			if !references {
				return nil, errors.New("a credential belongs into headers, not here")
			}
			r, rest, problem := cutReference(s)
			if problem != "" {
				return nil, errors.New(problem)
			}
			parts = append(parts, part{ref: &r})
			s = rest
		default:
			source, rest, ok := cutExpression(s)
			if !ok {
				return nil, errors.New("a '{' without its '}'")
			}
			if strings.TrimSpace(source) == "" {
				return nil, errors.New("'{}' has no expression in it")
			}
			expr, err := compileExpression(source, v, nil)
			if err != nil {
				return nil, &templateFault{source, err}
			}
			parts = append(parts, part{expr: expr, source: source})
			s = rest
		}
	}
	return parts, nil
}

// cutExpression splits "{CEL}rest". Braces and quotes inside the expression count.
func cutExpression(s string) (source, rest string, ok bool) {
	depth := 0
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return s[1:i], s[i+1:], true
			}
		}
	}
	return "", "", false
}

// fill evaluates the expression of a part to text.
func (p part) fill(vars map[string]any) (string, error) {
	if p.expr == nil {
		return p.text, nil
	}
	v, err := p.expr.eval(vars)
	if err != nil {
		return "", fmt.Errorf("{%s}: %w", p.source, err)
	}
	s, given, err := textOf(v)
	if err == nil && !given {
		err = errors.New("there is no value")
	}
	if err != nil {
		return "", fmt.Errorf("{%s}: %w", p.source, err)
	}
	return s, nil
}

// mentions reports whether an expression uses a variable.
func mentions(ast *cel.Ast, variable string) bool {
	for _, r := range ast.NativeRep().ReferenceMap() {
		if r.Name == variable {
			return true
		}
	}
	return false
}
