package terminal

import (
	"strings"
	"unicode/utf8"
)

// Cell is a piece of a table: text from anywhere, and how to set it off.
type Cell struct {
	Text  string
	Style Style
}

// Table writes rows in columns under a header for people, and as lines of escaped,
// tab-separated values without a header for programs.
func (s *Screen) Table(header []string, rows [][]Cell) {
	if s.people {
		s.Columns(header, rows)
		return
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = Escape(c.Text)
		}
		s.Line(strings.Join(cells, "\t"))
	}
}

// Columns writes rows in columns under a header, whoever reads them. On a screen that is
// too narrow a row goes on in further, indented lines; the text of the last column is
// broken between words.
func (s *Screen) Columns(header []string, rows [][]Cell) {
	head := make([]Cell, len(header))
	for i, h := range header {
		head[i] = Cell{h, Dim}
	}
	rows = append([][]Cell{head}, rows...)
	widths := make([]int, len(header))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(Escape(c.Text)))
		}
	}
	lines := s.fold(widths)
	for _, row := range rows {
		first := 0
		for n, end := range lines {
			indent := ""
			if n > 0 {
				indent = strings.Repeat(" ", foldIndent)
			}
			s.row(indent, row[first:end], widths[first:end], end == len(row))
			first = end
		}
	}
}

const (
	foldIndent = 4
	// textWidth is the room that the last column needs at least to stay in its line.
	textWidth = 24
)

// fold returns for each line of a row the column that it ends before.
func (s *Screen) fold(widths []int) (lines []int) {
	if !s.people {
		return []int{len(widths)}
	}
	used := 0
	for i, w := range widths {
		if i == len(widths)-1 {
			w = min(w, textWidth)
		}
		if i > 0 && used+w > s.width {
			lines, used = append(lines, i), foldIndent
		}
		used += w + 2
	}
	return append(lines, len(widths))
}

// row writes one line; the text that ends a table's row may need more.
func (s *Screen) row(indent string, cells []Cell, widths []int, last bool) {
	var b strings.Builder
	b.WriteString(indent)
	used := len(indent)
	for i, c := range cells {
		text := Escape(c.Text)
		if i < len(cells)-1 {
			b.WriteString(s.Paint(c.Style, text) + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2))
			used += widths[i] + 2
			continue
		}
		broken := []string{text}
		if s.people && last && used+utf8.RuneCountInString(text) > s.width {
			broken = Wrap(text, max(s.width-used, textWidth/2))
		}
		for n, line := range broken {
			if n > 0 {
				b.WriteString("\n" + strings.Repeat(" ", used))
			}
			b.WriteString(s.Paint(c.Style, line))
		}
	}
	s.Line(strings.TrimRight(b.String(), " "))
}
