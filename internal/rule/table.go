package rule

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed rules.tsv
var table string

// Switch is one row of the table: a rule that can be switched off, and the test that fails then.
type Switch struct {
	Name string
	// Rule is its number in the protocol, or a word where it has none.
	Rule string
	// Package is the folder of the test, Test what -run takes.
	Package, Test string
	// Off says what happens with the rule off.
	Off string
}

// Switches are all rules that can be switched off.
func Switches() ([]Switch, error) {
	var list []Switch
	for i, line := range strings.Split(strings.TrimSuffix(table, "\n"), "\n") {
		f := strings.Split(line, "\t")
		if len(f) != 5 {
			return nil, fmt.Errorf("rules.tsv: line %d: got %d columns, want 5", i+1, len(f))
		}
		if i > 0 {
			list = append(list, Switch{f[0], f[1], f[2], f[3], f[4]})
		}
	}
	return list, nil
}
