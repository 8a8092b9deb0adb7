package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// errFloor: -check was given and a floor is not reached.
var errFloor = errors.New("a floor is not reached")

// report prints the tables, and writes them, the plot and the figures where it is asked to.
func (c *campaign) report() error {
	text := c.text()
	fmt.Print(text)
	if c.out != "" {
		if err := replaceFigures(c.out, text); err != nil {
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
	if c.check && c.fallsShort() {
		return errFloor
	}
	return nil
}

// fallsShort reports whether a floor that was measured is not reached.
func (r *result) fallsShort() bool {
	return slices.ContainsFunc(targets, func(t target) bool {
		v, ok := t.of(r)
		return ok && !t.reached(v, t.floor)
	})
}

// text is the run as Markdown.
func (c *campaign) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; medians of %s, each point measured for %s.", c.Machine, count(c.rounds, "round"), short(c.length))
	if v, ok := c.quiet().median(others); ok {
		fmt.Fprintf(&b, " Meanwhile others kept %.1f of the %d cores busy.", v, c.Machine.Cores)
	}
	b.WriteString("\n")
	c.targetTable(&b)
	for _, g := range []struct{ name, title string }{
		{"disk", "The disk: each call is one write and one sync"},
		{"http", "HTTP: each call is one POST"},
		{"sqlite", "SQLite"},
		{"postgres", "PostgreSQL"},
	} {
		c.groupTable(&b, g.name, g.title)
	}
	c.startText(&b)
	return b.String()
}

// quiet are the points at which nobody else works on behalf of a contestant.
func (c *campaign) quiet() figures {
	return slices.DeleteFunc(slices.Clone(c.Figures), func(f *figure) bool {
		return f.Contestant != "sqlite/bare" && f.Contestant != "sqlite/pawl"
	})
}

func (c *campaign) targetTable(b *strings.Builder) {
	b.WriteString("\n| target | floor | aim | measured | |\n|---|---|---|---|---|\n")
	for _, t := range targets {
		if v, ok := t.of(&c.result); ok {
			fmt.Fprintf(b, "| %s | %s | %s | %s %s | %s |\n", t.what, t.limit(t.floor), t.limit(t.aim), digits(v), t.unit, t.verdict(v))
		} else {
			fmt.Fprintf(b, "| %s | %s | %s | not measured | |\n", t.what, t.limit(t.floor), t.limit(t.aim))
		}
	}
}

// detail is the number of callers at which more is told.
func (c *campaign) detail() int {
	if slices.Contains(c.callers, 64) {
		return 64
	}
	return slices.Max(c.callers)
}

func (c *campaign) groupTable(b *strings.Builder, group, title string) {
	members := slices.DeleteFunc(slices.Clone(c.entries), func(e *entry) bool { return e.group() != group })
	if len(members) == 0 {
		return
	}
	fmt.Fprintf(b, "\n**%s.** Calls per second / p50 by callers, and more with %d callers:\n\n| |", title, c.detail())
	for _, n := range c.callers {
		fmt.Fprintf(b, " %d |", n)
	}
	b.WriteString(" p99 | CPU | written | flushes | memory |\n|---" + strings.Repeat("|---", len(c.callers)+5) + "|\n")
	for _, e := range members {
		fmt.Fprintf(b, "| %s |", e.label)
		for _, n := range c.callers {
			fs := c.Figures.at(e.name, n)
			cell(b, fs, perSecond, func(v float64) string { return thousands(v) + " / " + fs.span(p50) })
		}
		fs := c.Figures.at(e.name, c.detail())
		cell(b, fs, p99, seconds)
		cell(b, fs, cpu, seconds)
		cell(b, fs, written, func(v float64) string { return fmt.Sprintf("%.1f kB", v/1e3) })
		cell(b, fs, flushes, func(v float64) string { return fmt.Sprintf("%.2f", v) })
		cell(b, fs, memory, func(v float64) string {
			if v == 0 {
				return ""
			}
			return fmt.Sprintf("%.0f MB", v/1e6)
		})
		b.WriteString("\n")
	}
}

// cell writes the median of a value, or an empty cell where nothing was measured.
func cell(b *strings.Builder, fs figures, value func(*figure) float64, write func(float64) string) {
	if v, ok := fs.median(value); ok {
		b.WriteString(" " + write(v))
	}
	b.WriteString(" |")
}

// span is the median of a value in seconds.
func (fs figures) span(value func(*figure) float64) string {
	v, _ := fs.median(value)
	return seconds(v)
}

func (c *campaign) startText(b *strings.Builder) {
	if len(c.Starts) == 0 {
		return
	}
	of := func(value func(startup) time.Duration) string {
		v, _ := c.startMedian(func(s startup) float64 { return value(s).Seconds() })
		return seconds(v)
	}
	fmt.Fprintf(b, "\n**Start-up** on the grown store, %s settled operations and 1,000 that a killed process left open: the store is open after %s, "+
		"and the sweeper's first claim, which took %s, is back after %s. The daemon's first probe reaches the provider %s after its process was started.\n",
		thousands(float64(c.Settled)), of(func(s startup) time.Duration { return s.Open }), of(func(s startup) time.Duration { return s.Claim }),
		of(func(s startup) time.Duration { return s.Sweep }), of(func(s startup) time.Duration { return s.Daemon }))
}

func seconds(s float64) string { return short(time.Duration(s * float64(time.Second))) }

func count(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func digits(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// The figures of a page stand between these lines.
const figuresBegin, figuresEnd = "<!-- figures -->\n", "<!-- end of figures -->"

// replaceFigures writes a text between the markers of a file.
func replaceFigures(path, text string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, begins := bytes.Cut(raw, []byte(figuresBegin))
	_, tail, ends := bytes.Cut(rest, []byte(figuresEnd))
	if !begins || !ends {
		return fmt.Errorf("%s: want the lines %q and %q, between which the figures go", path, strings.TrimSpace(figuresBegin), figuresEnd)
	}
	page := slices.Concat(head, []byte(figuresBegin+"\n"+text+"\n"+figuresEnd), tail)
	return os.WriteFile(path, page, 0o644)
}
