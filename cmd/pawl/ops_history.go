package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

// writeHistory writes one line for each change and, if asked to, what it rests on.
func writeHistory(out *terminal.Screen, entries []pawl.Entry, evidence bool) {
	if !evidence {
		var rows [][]terminal.Cell
		for i := range entries {
			rows = append(rows, historyLine(&entries[i]))
		}
		out.Columns([]string{"N", "AT", "EVENT", "STATUS", "REASON", "BY", "WHAT"}, rows)
		return
	}
	for i := range entries {
		e := &entries[i]
		out.Printf("%s  %s  %s  %s  %s\n", out.Paint(terminal.Dim, fmt.Sprintf("%3d", e.Seq)), when(e.At),
			out.Paint(terminal.Bold, terminal.Escape(e.Event)), out.Paint(styleOf(e.To), string(e.To)), terminal.Escape(string(e.Reason)))
		for _, f := range factsOf(e) {
			if f[1] != "" {
				out.Printf("       %s%s\n", out.Paint(terminal.Dim, fmt.Sprintf("%-12s", f[0])), terminal.Escape(f[1]))
			}
		}
	}
}

func historyLine(e *pawl.Entry) []terminal.Cell {
	return []terminal.Cell{
		{Text: itoa(e.Seq), Style: terminal.Dim}, {Text: when(e.At)}, {Text: e.Event}, {Text: string(e.To), Style: styleOf(e.To)},
		{Text: string(e.Reason)}, {Text: e.By}, {Text: what(e)},
	}
}

// what says in a few words what a change rests on.
func what(e *pawl.Entry) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.Attempt > 0 {
		add("attempt %d", e.Attempt)
	}
	if v := e.Evidence; v != nil {
		add("%s", v.Class)
		if v.Code != 0 {
			add("status %d", v.Code)
		}
		if v.Proof != "" {
			add("%s", v.Proof)
		}
	}
	if p := e.Probe; p != nil {
		add("%s", p.Outcome)
		if p.Outcome == pawl.Found {
			add("by %s", p.Match)
		}
	}
	if f := e.Fence; f != nil {
		add("%s", f.Outcome)
	}
	if d := e.Decision; d != nil {
		add("%s", decided(d))
		add("%q", d.Why)
	}
	if e.Note != "" {
		add("%s", e.Note)
	}
	return strings.Join(parts, ", ")
}

func decided(d *pawl.Decision) string {
	switch d.Choice {
	case pawl.ChoiceHappened:
		return "it happened"
	case pawl.ChoiceDidNotHappen:
		return "it did not happen"
	default:
		return string(d.Choice)
	}
}

// maxShown is how much of a body is shown; --json has it whole.
const maxShown = 2000

// factsOf is everything that a change rests on.
func factsOf(e *pawl.Entry) [][2]string {
	facts := [][2]string{{"by", e.By}, {"note", e.Note}}
	add := func(name, value string) { facts = append(facts, [2]string{name, value}) }
	if e.Attempt > 0 {
		add("attempt", itoa(e.Attempt))
	}
	if v := e.Evidence; v != nil {
		proof := string(v.Class)
		if v.Strength != "" {
			proof += " (" + string(v.Strength) + ")"
		}
		add("class", proof)
		add("proof", v.Proof)
		if v.Code != 0 {
			add("status", itoa(v.Code))
		}
		for _, name := range sortedKeys(v.Header) {
			add("header", name+": "+v.Header[name])
		}
		add("body", excerpt(v.Body))
		add("result", string(v.Result))
		add("ref", v.Ref)
		add("sent", fmt.Sprintf("%d bytes begun, %d bytes of the body taken", v.BytesBegun, v.BodyPulled))
		add("trace", strings.Join(v.Trace, " "))
		add("peer", v.Peer)
		add("error", v.Error)
		add("took", v.Took.String())
	}
	if p := e.Probe; p != nil {
		add("outcome", string(p.Outcome))
		if p.Outcome == pawl.Found {
			add("match", fmt.Sprintf("by %s, %d found", p.Match, max(p.Count, 1)))
		}
		add("refs", strings.Join(p.Refs, ", "))
		if p.Code != 0 {
			add("status", itoa(p.Code))
		}
		add("body", excerpt(p.Body))
		add("result", string(p.Result))
		add("error", p.Error)
	}
	if f := e.Fence; f != nil {
		add("outcome", string(f.Outcome))
		add("ref", f.Ref)
		add("body", excerpt(f.Body))
		add("error", f.Error)
	}
	if d := e.Decision; d != nil {
		add("decision", decided(d))
		add("who", d.Who)
		add("why", d.Why)
		add("ref", d.Ref)
		add("result", string(d.Result))
		add("waiver", d.Waiver)
	}
	return facts
}

func excerpt(body []byte) string {
	if len(body) > maxShown {
		return string(body[:maxShown]) + fmt.Sprintf(" … and %d bytes more", len(body)-maxShown)
	}
	return string(body)
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
