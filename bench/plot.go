package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The plot has a panel for each kind of store, beside one another on one scale.
const (
	panelLeft, panelWidth, panelStep = 64, 270, 520
	panelTop, panelHeight            = 58, 310
	plotWidth, plotHeight            = 1040, 420
	labelHeight                      = 16
)

// lineStyle is how a contestant's line is drawn: the colour says who it is, the dash in
// which of its forms. The colours can be told apart by most people, on light and dark.
type lineStyle struct {
	colour, dash string
	width        float64
}

var lineStyles = map[string]lineStyle{
	"disk: append and sync": {"#8a8f98", "2 4", 1.5},
	"bare harness":          {"#8a8f98", "", 2},
	"pgbench":               {"#8a8f98", "", 2},
	"pawl":                  {"#2f7ed8", "", 3.5},
	"pawl, daemon":          {"#2f7ed8", "7 4", 2},
	"pawl, four daemons":    {"#2f7ed8", "2 3", 2},
	"DBOS workflow":         {"#d9632b", "", 2},
	"DBOS step":             {"#d9632b", "7 4", 2},
	"River":                 {"#2f9e68", "", 2},
}

// plotLine is a contestant's line: calls per second by callers.
type plotLine struct {
	label  string
	points [][2]float64
}

// line collects a contestant's points, if it has any.
func (c *campaign) line(e *entry) (plotLine, bool) {
	l := plotLine{label: e.plot}
	for _, n := range c.callers {
		if rate, ok := c.Figures.at(e.name, n).median(perSecond); ok {
			l.points = append(l.points, [2]float64{float64(n), rate})
		}
	}
	return l, len(l.points) > 0 && e.plot != ""
}

// plot draws calls per second over callers, both on logarithmic axes, as SVG.
func (c *campaign) plot() []byte {
	panels := map[string][]plotLine{}
	least, most := math.Inf(1), 1.0
	for _, e := range c.entries {
		l, ok := c.line(e)
		if !ok {
			continue
		}
		for _, p := range l.points {
			least, most = min(least, p[1]), max(most, p[1])
		}
		if group := e.group(); group == "disk" {
			panels["sqlite"], panels["postgres"] = append(panels["sqlite"], l), append(panels["postgres"], l)
		} else {
			panels[group] = append(panels[group], l)
		}
	}
	s := &sketch{
		callers: slices.Sorted(slices.Values(c.callers)),
		low:     math.Floor(math.Log10(min(least, most))), high: math.Ceil(math.Log10(most)),
	}
	fmt.Fprintf(&s.out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">
<title>Durable calls per second over the number of callers</title>
<style>
text { fill: #3b4048 } .title { font-weight: 600; font-size: 14px } .grid { stroke: #8a8f98; stroke-opacity: .3 }
@media (prefers-color-scheme: dark) { text { fill: #c9ced6 } }
</style>
<text x="%d" y="20">Durable calls per second over the number of callers; medians, both axes logarithmic</text>
`, plotWidth, plotHeight, panelLeft)
	s.panel(0, "SQLite", panels["sqlite"])
	s.panel(1, "PostgreSQL", panels["postgres"])
	s.out.WriteString("</svg>\n")
	return s.out.Bytes()
}

// sketch is a plot that is being drawn.
type sketch struct {
	out       bytes.Buffer
	callers   []int
	low, high float64 // decades
}

func (s *sketch) x(panel int, callers float64) float64 {
	first, last := float64(s.callers[0]), float64(s.callers[len(s.callers)-1])
	at := 0.0
	if last > first {
		at = math.Log(callers/first) / math.Log(last/first)
	}
	return float64(panelLeft+panel*panelStep) + at*panelWidth
}

func (s *sketch) y(rate float64) float64 {
	at := 0.0
	if s.high > s.low {
		at = (math.Log10(rate) - s.low) / (s.high - s.low)
	}
	return panelTop + (1-at)*panelHeight
}

func (s *sketch) panel(n int, title string, lines []plotLine) {
	left := float64(panelLeft + n*panelStep)
	fmt.Fprintf(&s.out, `<text class="title" x="%.0f" y="44">%s</text>`+"\n", left, title)
	for d := s.low; d <= s.high; d++ {
		y := s.y(math.Pow(10, d))
		fmt.Fprintf(&s.out, `<line class="grid" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/>`+"\n", left, left+panelWidth, y, y)
		fmt.Fprintf(&s.out, `<text x="%.0f" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, y+4, thousands(math.Pow(10, d)))
	}
	for _, callers := range s.callers {
		fmt.Fprintf(&s.out, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", s.x(n, float64(callers)), panelTop+panelHeight+20, callers)
	}
	fmt.Fprintf(&s.out, `<text x="%.0f" y="%d" text-anchor="middle">callers</text>`+"\n", left+panelWidth/2, panelTop+panelHeight+40)
	for _, l := range lines {
		s.line(n, l)
	}
	s.labels(n, lines)
}

func (s *sketch) line(panel int, l plotLine) {
	style := lineStyles[l.label]
	var points []string
	for _, p := range l.points {
		x, y := s.x(panel, p[0]), s.y(p[1])
		points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
		fmt.Fprintf(&s.out, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s"/>`+"\n", x, y, 1.5+style.width/2, style.colour)
	}
	fmt.Fprintf(&s.out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%g" stroke-dasharray="%s"/>`+"\n",
		strings.Join(points, " "), style.colour, style.width, style.dash)
}

// labels names the lines where they end, one below the other where they end together.
func (s *sketch) labels(panel int, lines []plotLine) {
	end := func(l plotLine) float64 { return s.y(l.points[len(l.points)-1][1]) }
	slices.SortFunc(lines, func(a, b plotLine) int { return int(end(a) - end(b)) })
	at := make([]float64, len(lines))
	for i, l := range lines {
		at[i] = end(l)
		if i > 0 {
			at[i] = max(at[i], at[i-1]+labelHeight)
		}
	}
	// What was pushed over the lower edge goes up again.
	for i, lowest := len(at)-1, float64(panelTop+panelHeight); i >= 0 && at[i] > lowest; i-- {
		at[i], lowest = lowest, lowest-labelHeight
	}
	right := float64(panelLeft + panel*panelStep + panelWidth)
	for i, l := range lines {
		style := lineStyles[l.label]
		fmt.Fprintf(&s.out, `<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="%g" stroke-dasharray="%s"/>`+"\n",
			right+10, right+30, at[i], at[i], style.colour, style.width, style.dash)
		fmt.Fprintf(&s.out, `<text x="%.0f" y="%.1f">%s</text>`+"\n", right+36, at[i]+4, l.label)
	}
}

// thousands writes a whole number with a comma for every three digits.
func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
