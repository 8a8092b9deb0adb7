package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/sandbox"
)

const opening = `A support agent refunds a broken order and confirms it by mail. Things go wrong on the
way, and at the end trips are called off. The shop is a sandbox behind real HTTP, with a
ledger of its own: effects are counted there, not in pawl's record.

  agent  what the model asks for        pawl    what is recorded and concluded
  wire   what goes to the shop          model   the envelope that the model reads
`

func showOpening(out *terminal.Screen) { out.Printf("%s", opening) }

func showTitle(out *terminal.Screen, n int, s *Scene) {
	out.Printf("\n%s\n   %s\n\n", out.Paint(terminal.Bold, fmt.Sprintf("%d. %s", n, s.title)), s.story)
}

// indent is where texts of a timeline begin.
const indent = 20

func showScene(out *terminal.Screen, s *Scene) {
	slices.SortStableFunc(s.lines, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range s.lines {
		showLine(out, s.lines[0].at, l)
	}
	mark, style := "as expected", terminal.Green
	if !s.OK() {
		mark, style = fmt.Sprintf("WRONG, expected %d", s.Expected), terminal.Red
	}
	out.Printf("   %s  %s\n", out.Paint(terminal.Bold, fmt.Sprintf("%-15s", "ledger")), out.Paint(style, effects(s.Effects)+", "+mark))
	for _, w := range s.wrong {
		out.Printf("   %s\n", out.Paint(terminal.Red, "WRONG: "+terminal.Escape(w)))
	}
}

func effects(n int) string {
	if n == 1 {
		return "1 effect"
	}
	return fmt.Sprintf("%d effects", n)
}

func showLine(out *terminal.Screen, start time.Time, l line) {
	width := out.Width() - indent
	lines := terminal.Wrap(terminal.Escape(l.text), width)
	if l.status != "" {
		lines = terminal.Wrap(string(l.status)+"  "+terminal.Escape(l.text), width)
	}
	for i, text := range lines {
		head := fmt.Sprintf("%*s", indent, "")
		if i == 0 {
			head = fmt.Sprintf("   %s  %s  ", out.Paint(terminal.Dim, fmt.Sprintf("%6.3f", l.at.Sub(start).Seconds())), fmt.Sprintf("%-7s", l.who))
		}
		if rest := len(l.status); i == 0 && l.status != "" {
			text = out.Paint(statusStyle(l.status), string(l.status)) + " " + text[rest:]
		} else {
			text = out.Paint(l.style, text)
		}
		out.Line(head, text)
	}
	for _, more := range l.more {
		for _, text := range terminal.Wrap(terminal.Escape(more), width) {
			out.Printf("%*s%s\n", indent, "", out.Paint(terminal.Dim, text))
		}
	}
}

func statusStyle(s pawl.Status) terminal.Style {
	switch {
	case s == pawl.Succeeded:
		return terminal.Green
	case s.Open():
		return terminal.Yellow
	default:
		return terminal.Bold // a wanted outcome, not an alarm
	}
}

func showEnd(out *terminal.Screen, r *Report, expected int) {
	out.Printf("\n%s\n", out.Paint(terminal.Bold, "Summary"))
	var rows [][]terminal.Cell
	for _, s := range r.Scenes {
		style := terminal.Green
		if !s.OK() {
			style = terminal.Red
		}
		by := string(s.SettledBy)
		if by == "" {
			by = "-"
		}
		rows = append(rows, []terminal.Cell{
			{Text: s.title}, {Text: string(s.Status), Style: statusStyle(s.Status)}, {Text: by},
			{Text: fmt.Sprint(s.Effects), Style: style}, {Text: fmt.Sprint(s.Expected)},
		})
	}
	out.Columns([]string{"SCENE", "STATUS", "SETTLED BY", "EFFECTS", "EXPECTED"}, rows)

	out.Printf("\n%s\n", out.Paint(terminal.Bold, "The shop's ledger"))
	rows = nil
	for _, e := range r.ledger {
		key := e.Key
		if key == "" {
			key = "-"
		}
		rows = append(rows, []terminal.Cell{
			{Text: fmt.Sprint(e.Seq)}, {Text: e.Run}, {Text: e.Kind}, {Text: e.ObjectID}, {Text: e.Subject}, {Text: money(&e)}, {Text: key},
		})
	}
	out.Columns([]string{"N", "RUN", "KIND", "OBJECT", "SUBJECT", "AMOUNT", "KEY"}, rows)
	verdict := fmt.Sprintf("%s in the ledger, %d expected. It took %.1f s.", effects(len(r.ledger)), expected, r.took.Seconds())
	if r.OK {
		out.Printf("\n%s\n", out.Paint(terminal.Green, verdict))
	} else {
		out.Printf("\n%s\n", out.Paint(terminal.Red, "THE DEMO FAILED: "+verdict))
	}
	if r.dir != "" {
		out.Printf("The files are in %s: try pawl ops list -c %s/pawl.yaml\n", r.dir, r.dir)
	}
}

// money is an amount in the currency of the demo, which has two decimal places.
func money(e *sandbox.Effect) string {
	if e.Currency == "" {
		return "-"
	}
	return fmt.Sprintf("%d.%02d %s", e.Amount/100, e.Amount%100, e.Currency)
}
