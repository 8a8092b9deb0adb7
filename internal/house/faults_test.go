package house

import (
	"fmt"
	"strings"
	"testing"
)

// faults are the groups of the fault matrix and the number of rows of each.
var faults = []struct {
	group string
	rows  int
}{
	{"PR", 18}, {"SQ", 12}, {"PG", 11}, {"NE", 17}, {"RE", 12}, {"PB", 6}, {"WO", 6}, {"OP", 8}, {"HU", 5},
}

// TestEveryFaultIsListed holds docs/reliability.md to naming each row of the fault matrix
// once: in the table, with tests, or among those that wait for one.
func TestEveryFaultIsListed(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/reliability.md")
	_, waiting, found := strings.Cut(text, "Rows without a test of their own yet: ")
	if !found {
		waiting = ""
	}
	for _, f := range faults {
		for n := range f.rows {
			id := fmt.Sprintf("%s%d", f.group, n+1)
			times := strings.Count(text, "\n| "+id+" | ") + strings.Count(" "+waiting, " "+id+" (")
			if times != 1 {
				t.Errorf("%s is listed %d times, want once", id, times)
			}
		}
	}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 && !strings.Contains(cells[4], "`") && strings.TrimLeft(cells[4], "- ") != "\n" && !strings.HasPrefix(line, "|---") && !strings.Contains(line, "| tests |") {
			t.Errorf("no test in %q", line)
		}
	}
}
