package contract

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/spelling"
)

// Problem is one thing in a contract file that must be changed before it can be used.
type Problem struct {
	// File, Line and Column say where, counted from 1. Column counts characters.
	File   string
	Line   int
	Column int
	// Message says what is wrong and what to write instead. It never holds a secret.
	Message string
	// Source is the line at fault, with anything that looks like a secret blotted out.
	Source string
}

// String gives the place, the message, the source line and a caret.
func (p Problem) String() string {
	head := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	if p.Source == "" {
		return head
	}
	gutter := fmt.Sprintf("%5d | ", p.Line)
	pad := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, firstRunes(p.Source, p.Column-1))
	return head + "\n" + gutter + p.Source + "\n" + strings.Repeat(" ", len(gutter)-2) + "| " + pad + "^"
}

// InvalidError is a contract file that cannot be used.
type InvalidError struct {
	// Problems are in the order of their lines, at most maxProblems.
	Problems []Problem
	// More counts the problems that were left out.
	More int
}

const maxProblems = 25

// Error lists every problem.
func (e *InvalidError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.More)
	}
	return b.String()
}

// place is a position in a source text, counted from 1.
type place struct{ line, column int }

// report collects the problems of one source text.
type report struct {
	file     string
	lines    []string
	problems []Problem
	more     int
}

func newReport(file string, src []byte) *report {
	text := strings.ReplaceAll(string(src), "\r\n", "\n")
	return &report{file: file, lines: strings.Split(text, "\n")}
}

func (r *report) add(at place, format string, args ...any) {
	if len(r.problems) >= 4*maxProblems {
		r.more++
		return
	}
	at.line, at.column = max(at.line, 1), max(at.column, 1)
	p := Problem{File: r.file, Line: at.line, Column: at.column, Message: printable(fmt.Sprintf(format, args...))}
	if at.line <= len(r.lines) {
		p.Source = sourceLine(r.lines[at.line-1])
		p.Column = min(p.Column, utf8.RuneCountInString(p.Source)+1)
	}
	for _, q := range r.problems {
		if q.Line == p.Line && q.Column == p.Column && q.Message == p.Message {
			return
		}
	}
	r.problems = append(r.problems, p)
}

func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	e := &InvalidError{Problems: r.problems, More: r.more}
	if n := len(e.Problems); n > maxProblems {
		e.Problems, e.More = e.Problems[:maxProblems], e.More+n-maxProblems
	}
	return e
}

var (
	secretKey   = regexp.MustCompile(`(?i)^(\s*(?:-\s*)?["']?[\w-]*(?:authorization|cookie|secret|password|passwd|token|credential|api[-_]?key|apikey|access[-_]?key|signature)[\w-]*["']?\s*:\s*)(.+)$`)
	secretValue = regexp.MustCompile(`(?i)\b(bearer|basic|token)\s+[^\s"'$]+|\b(sk|pk|rk|ghp|gho|xox[a-z])[-_][A-Za-z0-9_-]{8,}|//[^/\s"'@]*:[^/\s"'@]*@|\bpassword=[^\s"'&]+`)
	references  = regexp.MustCompile(`\$\{(?:env|file):[^}]*\}`)
)

// sourceLine is a line as an error may show it: cut, printable, secrets blotted out.
func sourceLine(line string) string {
	if m := secretKey.FindStringSubmatch(line); m != nil {
		rest := references.ReplaceAllString(m[2], "")
		if strings.Trim(rest, " \"'") != "" && !strings.HasPrefix(strings.TrimSpace(rest), "#") {
			line = m[1] + "***"
		}
	}
	line = secretValue.ReplaceAllString(line, "***")
	line = printable(line)
	if utf8.RuneCountInString(line) > 160 {
		line = firstRunes(line, 160) + " ..."
	}
	return line
}

// printable replaces what would disturb a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return r
		case r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == utf8.RuneError ||
			0x200b <= r && r <= 0x200f || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069:
			return '?'
		}
		return r
	}, s)
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n <= 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// didYouMean is the end of a message about an unknown word.
func didYouMean(word string, known []string) string {
	if n := spelling.Nearest(word, known); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	if len(known) > 40 {
		return ""
	}
	return "; known are " + strings.Join(known, ", ")
}
