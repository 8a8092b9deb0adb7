package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// target is one line of the table of targets: a value of this run, and what it must be and
// should be.
type target struct {
	what       string
	floor, aim float64
	// most: the value may be at most the floor; otherwise it must be at least that.
	most bool
	unit string
	of   func(r *result) (float64, bool)
}

// targets are those that one run on SQLite can judge.
var targets = []target{
	{what: "64 callers, calls per second against the bare harness", floor: 0.5, aim: 0.8, unit: "×", of: against(perSecond, "sqlite/pawl", "sqlite/bare", 64)},
	{what: "CPU per call at 64 callers against the bare harness", floor: 2, aim: 1.3, most: true, unit: "×", of: against(cpu, "sqlite/pawl", "sqlite/bare", 64)},
	{what: "one caller, p50 against two syncs of the disk", floor: 1.6, aim: 1.3, most: true, unit: "×", of: func(r *result) (float64, bool) {
		v, ok := r.Figures.ratio(p50, "sqlite/pawl", "disk/append", 1)
		return v / 2, ok
	}},
	{what: "p99 against p50 at 64 callers", floor: 4, aim: 2, most: true, unit: "×", of: func(r *result) (float64, bool) {
		return r.Figures.at("sqlite/pawl", 64).median(func(f *figure) float64 { return p99(f) / p50(f) })
	}},
	{what: "the daemon over HTTP, 64 callers, against the library with the same tool", floor: 0.3, aim: 0.5, unit: "×", of: against(perSecond, "sqlite/daemon", "sqlite/pawl-http", 64)},
	{what: "a read through the executor, p50", floor: 20, aim: 5, most: true, unit: "µs", of: func(r *result) (float64, bool) {
		v, ok := r.Figures.at("sqlite/pawl-read", 1).median(p50)
		return v * 1e6, ok
	}},
	{what: "peak memory at 64 callers", floor: 150, aim: 80, most: true, unit: "MB", of: megabytes(64)},
	{what: "peak memory at 256 callers", floor: 200, aim: 120, most: true, unit: "MB", of: megabytes(256)},
	{what: "growth: calls per second on the grown store against an empty one", floor: 0.85, aim: 0.95, unit: "×", of: against(perSecond, "sqlite/pawl-grown", "sqlite/pawl", 64)},
	{what: "start-up to the first sweep on the grown store with 1,000 open", floor: 1, aim: 0.2, most: true, unit: "s", of: func(r *result) (float64, bool) {
		var all []float64
		for _, s := range r.Starts {
			all = append(all, s.Sweep.Seconds())
		}
		return middle(all)
	}},
}

func against(value func(*figure) float64, over, under string, callers int) func(*result) (float64, bool) {
	return func(r *result) (float64, bool) { return r.Figures.ratio(value, over, under, callers) }
}

func megabytes(callers int) func(*result) (float64, bool) {
	return func(r *result) (float64, bool) {
		v, ok := r.Figures.at("sqlite/pawl", callers).median(memory)
		return v / 1e6, ok
	}
}

// verdict says how a value stands to its target.
func (t *target) verdict(v float64) string {
	better := func(limit float64) bool { return t.most && v <= limit || !t.most && v >= limit }
	switch {
	case better(t.aim):
		return "reaches the aim"
	case better(t.floor):
		return "holds"
	}
	return "**falls short**"
}

// errFloor: -check was given and a floor is not reached.
var errFloor = errors.New("a floor is not reached")

// report prints the tables, and writes them, the plot and the figures where it is asked to.
func (c *campaign) report() error {
	text, short := c.tables()
	fmt.Print(text)
	if c.out != "" {
		if err := between(c.out, text); err != nil {
			return err
		}
		if err := os.WriteFile(strings.TrimSuffix(c.out, ".md")+".svg", c.plot(), 0o644); err != nil {
			return err
		}
	}
	if c.json != "" {
		raw, err := json.MarshalIndent(c.result, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.json, append(raw, '\n'), 0o644); err != nil {
			return err
		}
	}
	if c.check && short {
		return errFloor
	}
	return nil
}

// tables writes the run as Markdown and reports whether a floor is not reached.
func (c *campaign) tables() (text string, short bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, %s, Linux %s, %s. Medians of %d rounds of %v a point.\n\n", c.Machine.When.Format(time.DateOnly), c.Machine.Cores,
		c.Machine.Processor, c.Machine.Kernel, c.Machine.Go, c.rounds, c.length)
	b.WriteString("| target | floor | aim | measured | |\n|---|---|---|---|---|\n")
	for _, t := range targets {
		v, ok := t.of(&c.result)
		if !ok {
			continue
		}
		sign := "≥"
		if t.most {
			sign = "≤"
		}
		verdict := t.verdict(v)
		short = short || strings.Contains(verdict, "falls short")
		fmt.Fprintf(&b, "| %s | %s %g %s | %s %g %s | %s %s | %s |\n", t.what, sign, t.floor, t.unit, sign, t.aim, t.unit, digits(v), t.unit, verdict)
	}
	b.WriteString("\nCalls per second / p50 at each number of callers; then CPU, bytes written and flushes per call at the largest number but one.\n\n| |")
	for _, n := range c.callers {
		fmt.Fprintf(&b, " %d |", n)
	}
	b.WriteString(" CPU | written | flushes |\n|---|" + strings.Repeat("---|", len(c.callers)+3) + "\n")
	detail := c.callers[max(0, len(c.callers)-2)]
	for _, e := range c.entries {
		fmt.Fprintf(&b, "| %s |", e.label)
		for _, n := range c.callers {
			fs := c.Figures.at(e.name, n)
			rate, ok := fs.median(perSecond)
			if !ok {
				b.WriteString(" |")
				continue
			}
			took, _ := fs.median(p50)
			fmt.Fprintf(&b, " %.0f / %s |", rate, shortSeconds(took))
		}
		fs := c.Figures.at(e.name, detail)
		if used, ok := fs.median(cpu); ok {
			bytes, _ := fs.median(written)
			syncs, _ := fs.median(flushes)
			fmt.Fprintf(&b, " %s | %.1f kB | %.2f |\n", shortSeconds(used), bytes/1e3, syncs)
		} else {
			b.WriteString(" | | |\n")
		}
	}
	for _, s := range c.Starts {
		fmt.Fprintf(&b, "\nWith %d settled operations: the store is open %s after the start of the process, and the first claim of %d operations has come back %s after it (the claim itself took %s).\n",
			c.Settled, shortSeconds(s.Open.Seconds()), s.Claimed, shortSeconds(s.Sweep.Seconds()), shortSeconds(s.Claim.Seconds()))
	}
	return b.String(), short
}

func shortSeconds(s float64) string { return short(time.Duration(s * float64(time.Second))) }

func digits(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// between writes a text between the markers of a file.
func between(path, text string) error {
	const begin, end = "<!-- figures -->\n", "<!-- end of figures -->"
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	i := bytes.Index(raw, []byte(begin))
	j := bytes.Index(raw, []byte(end))
	if i < 0 || j < i {
		return fmt.Errorf("%s has no %q and %q", path, strings.TrimSpace(begin), end)
	}
	out := append([]byte{}, raw[:i+len(begin)]...)
	out = append(out, "\n"+text+"\n"...)
	return os.WriteFile(path, append(out, raw[j:]...), 0o644)
}
