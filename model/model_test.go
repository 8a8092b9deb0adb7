package main

import (
	"os"
	"strings"
	"testing"
)

// TestTables: every row is well formed, ids are unique, and the page names each kind.
func TestTables(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/model.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, table := range []string{"settings.tsv", "formulas.tsv"} {
		rows, err := rowsOf(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if seen[table+r.id] {
				t.Errorf("%s: %s is there twice", table, r.id)
			}
			seen[table+r.id] = true
			if table == "settings.tsv" && !strings.Contains(string(page), "| "+r.id[:1]+" |") {
				t.Errorf("docs/model.md says nothing of the rows %s…", r.id[:1])
			}
		}
		if len(rows) < 80 {
			t.Errorf("%s: got %d rows", table, len(rows))
		}
	}
	for _, line := range []string{"", "K00\tsafety\tm\t-\tMAYBE\t1", "K00\tother\tm\t-\tHOLDS\t1", "K00\tsafety\tm\t-\tHOLDS\tmany", "K00\tsafety\tm\t-\tBREAKS X\t1"} {
		if _, err := rowFrom(line); err == nil {
			t.Errorf("%q: got a row, want an error", line)
		}
	}
}
