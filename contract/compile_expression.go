package contract

import (
	"errors"
	"strings"

	"cel.dev/cel-go/cel"
)

// expression compiles CEL; nil where there is none.
func (c *compiler) expression(path string, e expression, v vocabulary, want *cel.Type) *program {
	if e == "" {
		return nil
	}
	p, err := compileExpression(string(e), v, want)
	if err != nil {
		c.celFault(path, string(e), err)
	}
	return p
}

// celFault reports the errors of an expression at their own columns.
func (c *compiler) celFault(path, source string, err error) {
	var f *faults
	if !errors.As(err, &f) {
		c.fail(path, "%v", err)
		return
	}
	if t, ok := errors.AsType[*templateFault](err); ok {
		source = t.source
	}
	for _, e := range f.list {
		c.report.add(c.within(c.at(path), source, e), "%s (%s)", e.message, f.hint)
	}
}

// within is the place of a fault in an expression whose YAML value begins at start.
func (c *compiler) within(start place, source string, e fault) place {
	line := func(n int) string {
		if n < 1 || n > len(c.report.lines) {
			return ""
		}
		return c.report.lines[n-1]
	}
	indent := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	text := firstLineFrom(line(start.line), start.column)
	switch {
	case strings.HasPrefix(text, "|"):
		return place{start.line + e.line, indent(line(start.line+1)) + e.column + 1}
	case strings.HasPrefix(text, ">"):
		return place{start.line + 1, indent(line(start.line+1)) + 1}
	case e.line == 1 && strings.Contains(text, source):
		return place{start.line, start.column + strings.Index(text, source) + e.column}
	}
	return start
}

func firstLineFrom(line string, column int) string {
	runes := []rune(line)
	if column < 1 || column > len(runes) {
		return ""
	}
	return string(runes[column-1:])
}

// predicate compiles CEL that gives true or false.
func (c *compiler) predicate(path string, e expression, v vocabulary) *program {
	return c.expression(path, e, v, cel.BoolType)
}

// template compiles text with expressions.
func (c *compiler) template(path string, t template, v vocabulary, references bool) []part {
	parts, err := parseTemplate(string(t), v, references)
	if err != nil {
		c.celFault(path, string(t), err)
	}
	return parts
}

// locator finds the provider's id in an answer.
type locator struct {
	pointer []string
	expr    *program
}

func (c *compiler) locator(path string, p pointerOrCEL, v vocabulary) *locator {
	switch {
	case p == "":
		return nil
	case strings.HasPrefix(string(p), "/"):
		return &locator{pointer: pointer(string(p))}
	}
	return &locator{expr: c.expression(path, expression(p), v, nil)}
}
