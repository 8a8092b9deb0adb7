package main

import "fmt"

// target is a value of a run with what it must be, the floor, and what it should be, the aim.
type target struct {
	what       string
	floor, aim float64
	// most: the value may be at most so much; otherwise it must be at least so much.
	most bool
	unit string
	of   func(r *result) (float64, bool)
}

var targets = []target{
	{what: "SQLite, 64 callers: calls per second against the bare harness", floor: 0.5, aim: 0.8, unit: "×", of: faster("sqlite/pawl", "sqlite/bare")},
	{what: "the same against DBOS on SQLite, a workflow", floor: 12, aim: 25, unit: "×", of: faster("sqlite/pawl", "sqlite/dbos-workflow")},
	{what: "the same against DBOS on SQLite, a step", floor: 4, aim: 7, unit: "×", of: faster("sqlite/pawl", "sqlite/dbos-step")},
	{what: "PostgreSQL, 64 callers: calls per second against DBOS, a workflow", floor: 7, aim: 14, unit: "×", of: faster("postgres/pawl", "postgres/dbos-workflow")},
	{what: "the same against DBOS, a step", floor: 2.5, aim: 5, unit: "×", of: faster("postgres/pawl", "postgres/dbos-step")},
	{what: "the same against River", floor: 4, aim: 8, unit: "×", of: faster("postgres/pawl", "postgres/river")},
	{what: "one caller: p50 against twice that of one append and sync", floor: 1.6, aim: 1.3, most: true, unit: "×", of: func(r *result) (float64, bool) {
		v, ok := r.Figures.ratio(p50, "sqlite/pawl", "disk/append", 1)
		return v / 2, ok
	}},
	{what: "64 callers: CPU per call against the bare harness", floor: 2, aim: 1.3, most: true, unit: "×", of: func(r *result) (float64, bool) {
		return r.Figures.ratio(cpu, "sqlite/pawl", "sqlite/bare", 64)
	}},
	{what: "a call of class read: p50", floor: 20, aim: 5, most: true, unit: "µs", of: func(r *result) (float64, bool) {
		v, ok := r.Figures.at("sqlite/pawl-read", 1).median(p50)
		return v * 1e6, ok
	}},
	{what: "peak memory, library, 64 callers", floor: 150, aim: 80, most: true, unit: "MB", of: megabytes("sqlite/pawl", 64)},
	{what: "peak memory, library, 256 callers", floor: 200, aim: 120, most: true, unit: "MB", of: megabytes("sqlite/pawl", 256)},
	{what: "peak memory, daemon, 64 callers", floor: 150, aim: 80, most: true, unit: "MB", of: megabytes("sqlite/daemon", 64)},
	{what: "peak memory, daemon, 256 callers", floor: 200, aim: 120, most: true, unit: "MB", of: megabytes("sqlite/daemon", 256)},
	{what: "SQLite, 64 callers: p99 against p50", floor: 4, aim: 2, most: true, unit: "×", of: func(r *result) (float64, bool) {
		return r.Figures.at("sqlite/pawl", 64).median(func(f *figure) float64 { return p99(f) / p50(f) })
	}},
	{what: "64 callers: the daemon against the library, both with the tool behind HTTP", floor: 0.3, aim: 0.5, unit: "×", of: faster("sqlite/daemon", "sqlite/pawl-http")},
	{what: "growth, 64 callers: the grown store against an empty one", floor: 0.85, aim: 0.95, unit: "×", of: faster("sqlite/pawl-grown", "sqlite/pawl")},
	{what: "start-up after a crash, the grown store with 1,000 open: until the first claim is back", floor: 1, aim: 0.2, most: true, unit: "s", of: func(r *result) (float64, bool) {
		return r.startMedian(func(s startup) float64 { return s.Sweep.Seconds() })
	}},
}

// faster is one contestant's calls per second against another's, with 64 callers.
func faster(one, other string) func(*result) (float64, bool) {
	return func(r *result) (float64, bool) { return r.Figures.ratio(perSecond, one, other, 64) }
}

func megabytes(contestant string, callers int) func(*result) (float64, bool) {
	return func(r *result) (float64, bool) {
		v, ok := r.Figures.at(contestant, callers).median(memory)
		return v / 1e6, ok
	}
}

func (r *result) startMedian(value func(startup) float64) (float64, bool) {
	var all []float64
	for _, s := range r.Starts {
		all = append(all, value(s))
	}
	return middle(all)
}

// reached reports whether a value keeps a limit.
func (t *target) reached(v, limit float64) bool {
	if t.most {
		return v <= limit
	}
	return v >= limit
}

// verdict says how a value stands to its target.
func (t *target) verdict(v float64) string {
	switch {
	case t.reached(v, t.aim):
		return "holds, and reaches the aim"
	case t.reached(v, t.floor):
		return "holds"
	default:
		return "**falls short**"
	}
}

// limit writes a floor or an aim.
func (t *target) limit(v float64) string {
	sign := "≥"
	if t.most {
		sign = "≤"
	}
	return fmt.Sprintf("%s %g %s", sign, v, t.unit)
}
