package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/contract"
)

// linted is what `pawl lint --json` writes.
type linted struct {
	File string `json:"file"`
	// OK: the file can be used. Findings are no faults.
	OK       bool               `json:"ok"`
	Problems []problem          `json:"problems"`
	Findings []contract.Finding `json:"findings"`
	// Tools is what is declared about each tool with effects, and what is unknown.
	Tools []contract.Declared `json:"tools"`
}

type problem struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

func newLint() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "lint FILE",
		Short: "Check a contract file and explain its weaknesses",
		Long: `Check a contract file. Problems must be changed before the file can be used.
Weaknesses are explained with what they cost, and do not change the exit code.
Then each tool's terms are listed: what is declared, by a preset too, and what is
unknown, which never permits a send.`,
		Example: "  pawl lint pawl.yaml",
		Args:    oneArg("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			out := terminal.New(c.OutOrStdout())
			file, err := contract.Load(args[0], nil)
			var invalid *contract.InvalidError
			if err != nil && !errors.As(err, &invalid) {
				return err
			}
			l := linted{File: args[0], OK: err == nil, Problems: []problem{}, Findings: []contract.Finding{}, Tools: []contract.Declared{}}
			if invalid != nil {
				for _, p := range invalid.Problems {
					l.Problems = append(l.Problems, problem{p.Line, p.Column, p.Message})
				}
			} else {
				defer file.Close()
				l.Findings = append(l.Findings, contract.Lint(file)...)
				l.Tools = contract.Declarations(file)
			}
			if asJSON {
				if err := writeJSON(out, l); err != nil {
					return err
				}
			} else {
				writeLint(out, &l, invalid)
			}
			switch {
			case l.OK:
				return nil
			case asJSON:
				return &exit{code: exitError}
			}
			n := len(l.Problems) + invalid.More
			return fmt.Errorf("%s in %s", count(n, "problem"), args[0])
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// count writes a number of things.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return itoa(n) + " " + thing
}

func writeLint(out *terminal.Screen, l *linted, invalid *contract.InvalidError) {
	if invalid != nil {
		for _, p := range invalid.Problems {
			out.Line(terminal.EscapeLines(p.String()))
		}
		if invalid.More > 0 {
			out.Line("and " + count(invalid.More, "more problem"))
		}
		return
	}
	for _, f := range l.Findings {
		style := terminal.Yellow
		if f.Severity == contract.Notice {
			style = terminal.Cyan
		}
		about := ""
		if f.Tool != "" {
			about = f.Tool + ": "
		}
		out.Line(fmt.Sprintf("%s:%d: ", terminal.Escape(l.File), f.Line), out.Paint(style, string(f.Severity)), ": ",
			terminal.Escape(about+f.Message), " [", f.Code, "]")
		for _, line := range terminal.Wrap(terminal.Escape(f.Cost), out.Width()-6) {
			out.Line("      ", line)
		}
	}
	if len(l.Findings) == 0 {
		out.Line(terminal.Escape(l.File), ": ", out.Paint(terminal.Green, "no weakness found"))
	}
	for _, d := range l.Tools {
		writeDeclared(out, &d)
	}
}

// writeDeclared lists what is declared about a tool. Long expressions are left to the file.
func writeDeclared(out *terminal.Screen, d *contract.Declared) {
	var known, sources []string
	for _, t := range d.Terms {
		if len(t.Value) <= 40 {
			known = append(known, t.Name+": "+t.Value)
		} else {
			known = append(known, t.Name)
		}
	}
	for _, c := range d.Claims {
		source := c.Source
		if c.VerifiedOn != "" {
			source += " (" + c.VerifiedOn + ")"
		}
		if c.Source != "" && !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	out.Line()
	out.Line(out.Paint(terminal.Bold, terminal.Escape(d.Tool)), ", ", string(d.Class))
	for _, row := range []struct {
		name   string
		values []string
	}{{"declared", known}, {"unknown", d.Unknown}, {"sources", sources}} {
		for i, line := range terminal.Wrap(terminal.Escape(strings.Join(row.values, ", ")), out.Width()-12) {
			name := row.name
			if i > 0 {
				name = ""
			}
			out.Line(fmt.Sprintf("  %-10s", name), line)
		}
	}
}
