// Package terminal writes for people: colour and aligned tables where the output is a
// terminal, plain tab-separated lines where it is not, and nothing in a text from outside
// that a terminal would obey.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen is an output and what it can show.
type Screen struct {
	w      io.Writer
	people bool // it is a terminal
	colour bool
	width  int
	err    error // the first that a write returned
}

// defaultWidth is the line length where the terminal does not say.
const defaultWidth = 100

// New looks at what w is: a Screen is itself. NO_COLOR and TERM=dumb turn colour off.
func New(w io.Writer) *Screen {
	if s, ok := w.(*Screen); ok {
		return s
	}
	s := &Screen{w: w, width: defaultWidth}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.people = true
	s.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
		s.width = min(max(n, 40), 120)
	}
	return s
}

// People reports whether a person reads along.
func (s *Screen) People() bool { return s.people }

// Width is the number of columns to fill.
func (s *Screen) Width() int { return s.width }

// Write makes a Screen an io.Writer for text that is already safe.
func (s *Screen) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if s.err == nil {
		s.err = err
	}
	return n, err
}

// Err is the first error of a write: what was to be shown was not, or not whole.
func (s *Screen) Err() error { return s.err }

// Printf writes formatted text. Texts from outside go through Escape first.
func (s *Screen) Printf(format string, args ...any) { fmt.Fprintf(s, format, args...) }

// Line writes one line.
func (s *Screen) Line(parts ...string) { fmt.Fprintln(s, strings.Join(parts, "")) }

// Style is a way to set text off.
type Style string

const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Paint sets text off where the screen has colour.
func (s *Screen) Paint(style Style, text string) string {
	if !s.colour || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Escape writes what a terminal would obey or hide (control characters, line ends, marks
// that turn the direction of text, invalid UTF-8) in the form of Go's string escapes.
func Escape(text string) string { return escape(text, "") }

// EscapeLines is Escape for text of several lines.
func EscapeLines(text string) string { return escape(text, "\n\t") }

func escape(text, kept string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsPrint(r) || strings.ContainsRune(kept, r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// Wrap breaks text into lines of at most width columns, between words where it can.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		for utf8.RuneCountInString(word) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			cut := len(string([]rune(word)[:width]))
			lines, word = append(lines, word[:cut]), word[cut:]
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}
