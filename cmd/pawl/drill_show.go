package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/sandbox/drill"
)

// showProgress writes the line that is written over as the drill goes on.
func showProgress(talk *terminal.Screen, o *drill.Options, p drill.Progress) {
	line := fmt.Sprintf("faults %s, seed %d: %d of %d tasks", o.Faults, o.Seed, p.Done, p.Tasks)
	if p.Kills > 0 {
		line += fmt.Sprintf(", daemons killed %d times", p.Kills)
	}
	if p.Differ > 0 {
		line += talk.Paint(terminal.Red, fmt.Sprintf(", %d differ", p.Differ))
	}
	talk.Printf("\r\x1b[K%s", line)
}

const (
	// maxTasks is how many tasks that differ are shown, maxLines how many lines of each.
	maxTasks = 10
	maxLines = 5
	// maxDiffer bounds one such line.
	maxDiffer = 600
)

func showDrill(out *terminal.Screen, r *drill.Report) {
	out.Line(fmt.Sprintf("%s, faults %s, seed %d: %d tasks, daemons killed %d times, %v",
		r.Domain, r.Faults, r.Seed, r.Tasks, r.Kills, (time.Duration(r.TookMS) * time.Millisecond).Round(100*time.Millisecond)))
	var rows [][]terminal.Cell
	for _, t := range append(slices.Clone(r.Tools), r.Total) {
		rows = append(rows, []terminal.Cell{
			{Text: cmp.Or(t.Tool, "all")}, {Text: strconv.Itoa(t.Calls)}, {Text: strconv.Itoa(t.Effects)}, {Text: strconv.Itoa(t.Unknown)},
			{Text: shareOf(&t)}, {Text: settledBy(t.SettledBy)},
		})
	}
	out.Columns([]string{"TOOL", "CALLS", "EFFECTS", "UNKNOWN", "WITHOUT A PERSON", "SETTLED BY"}, rows)
	for _, d := range r.Differ[:min(len(r.Differ), maxTasks)] {
		out.Line(out.Paint(terminal.Red, "task "+terminal.Escape(d.Task)+" differs"))
		for _, what := range d.What[:min(len(d.What), maxLines)] {
			out.Line("  ", terminal.Escape(what[:min(len(what), maxDiffer)]))
		}
	}
	if r.OK {
		out.Line(out.Paint(terminal.Green, "no task differs"))
	} else {
		out.Line(out.Paint(terminal.Red, fmt.Sprintf("%d of %d tasks differ", len(r.Differ), r.Tasks)))
	}
}

func shareOf(t *drill.Tool) string {
	if t.Unknown == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*t.WithoutPerson)
}

// settledBy lists what settled how many.
func settledBy(n map[pawl.SettledBy]int) string {
	var parts []string
	for _, by := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%s %d", by, n[by]))
	}
	return strings.Join(parts, ", ")
}
