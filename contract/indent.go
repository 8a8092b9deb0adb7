package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// misindented looks at what an error of the YAML parser in a line most often comes from:
// tabs, and a line whose indentation does not fit those before it. An empty text means
// that it is something else.
func misindented(lines []string, at place) (place, string) {
	if at.line < 1 || at.line > len(lines) {
		return at, ""
	}
	line := lines[at.line-1]
	blank := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	if tab := strings.IndexByte(blank, '\t'); tab >= 0 {
		return place{at.line, tab + 1}, "YAML allows no tabs for indentation: use spaces"
	}
	indent := len(blank)
	if at.column == indent+1 {
		levels := levelsAbove(lines[:at.line-1])
		for _, level := range levels {
			if level == indent {
				return at, ""
			}
		}
		if len(levels) > 0 {
			return at, fmt.Sprintf("the line is indented by %s, which fits none of the lines before it: they are indented by %s", spaces(indent), list(levels))
		}
	}
	// A value goes on in deeper lines, which cannot be keys.
	for i := at.line; i < len(lines); i++ {
		next := lines[i]
		text := strings.TrimLeft(next, " ")
		if unimportant(next, 0) || strings.HasPrefix(text, "#") {
			continue
		}
		if deeper := len(next) - len(text); deeper > indent && strings.Contains(text, ":") && !strings.HasSuffix(strings.TrimSpace(line), ":") {
			return place{i + 1, deeper + 1}, fmt.Sprintf("the line is indented by %s, deeper than line %d (%d), which has a value already", spaces(deeper), at.line, indent)
		}
		break
	}
	return at, ""
}

// levelsAbove are the indentations of the blocks that are open after some lines, the
// deepest first.
func levelsAbove(lines []string) []int {
	const most = 8
	var levels []int
	for i := len(lines) - 1; i >= 0 && len(levels) < most; i-- {
		text := strings.TrimLeft(lines[i], " ")
		indent := len(lines[i]) - len(text)
		if text == "" || text[0] == '#' || len(levels) > 0 && indent >= levels[len(levels)-1] {
			continue
		}
		levels = append(levels, indent)
	}
	return levels
}

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}

// list writes numbers as people do.
func list(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
