package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// row is one setting and what is expected of it.
type row struct {
	id string
	// check is safety, live or replan.
	check   string
	meaning string
	// macros are the settings that differ from the model's own.
	macros []string
	// holds: no property breaks. Otherwise breaks names those that do, as far as they are named.
	holds  bool
	breaks []int
	// states is how many SPIN stored when the table was made; its versions differ.
	states int
}

func rowsOf(table string) ([]row, error) {
	text, err := files.ReadFile(table)
	if err != nil {
		return nil, fmt.Errorf("no table %q", table)
	}
	var rows []row
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		r, err := rowFrom(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", table, n+2, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func rowFrom(line string) (row, error) {
	f := strings.Split(line, "\t")
	if len(f) != 6 {
		return row{}, fmt.Errorf("want 6 columns, got %d", len(f))
	}
	r := row{id: f[0], check: f[1], meaning: f[2]}
	if !slices.Contains([]string{"safety", "live", "replan"}, r.check) {
		return row{}, fmt.Errorf("check: got %q, want safety, live or replan", r.check)
	}
	if f[3] != "-" {
		r.macros = strings.Fields(f[3])
	}
	verdict := strings.Fields(f[4])
	if len(verdict) == 0 || verdict[0] != "HOLDS" && verdict[0] != "BREAKS" {
		return row{}, fmt.Errorf("expected: got %q, want HOLDS or BREAKS", f[4])
	}
	r.holds = verdict[0] == "HOLDS"
	for _, p := range verdict[1:] {
		n, err := strconv.Atoi(strings.TrimPrefix(p, "P"))
		if err != nil {
			return row{}, fmt.Errorf("expected: %q is no property", p)
		}
		r.breaks = append(r.breaks, n)
	}
	states, err := strconv.Atoi(f[5])
	if err != nil {
		return row{}, fmt.Errorf("states: got %q, want a number", f[5])
	}
	r.states = states
	return r, nil
}

func (r *row) flags(extra ...string) []string {
	var flags []string
	for _, m := range append(slices.Clone(r.macros), extra...) {
		flags = append(flags, "-D"+m)
	}
	return flags
}

func (r *row) expected() string {
	if r.holds {
		return "HOLDS"
	}
	return strings.TrimSpace("BREAKS " + properties(r.breaks))
}

func properties(list []int) string {
	var names []string
	for _, p := range list {
		names = append(names, fmt.Sprintf("P%d", p))
	}
	return strings.Join(names, " ")
}
