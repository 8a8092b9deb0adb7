package main

import (
	"bytes"
	"fmt"
	"math"
)

const (
	plotWidth, plotHeight = 760, 420
	plotLeft, plotRight   = 80, 190
	plotTop, plotBottom   = 30, 50
	decades, smallest     = 4, 2
)

// colours can be told apart by most people, on light and dark ground.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// plot draws calls per second over callers, both on logarithmic axes, as SVG.
func (c *campaign) plot() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<style>text{fill:#333}.axis{stroke:#999}.grid{stroke:#ddd}@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}</style>
<text x="%d" y="18">durable calls per second over the number of callers</text>
`, plotWidth, plotHeight, plotLeft)
	most := float64(c.callers[len(c.callers)-1])
	x := func(callers float64) float64 {
		return plotLeft + math.Log(callers)/math.Log(math.Max(2, most))*(plotWidth-plotLeft-plotRight)
	}
	y := func(rate float64) float64 {
		return plotTop + (1-(math.Log10(rate)-smallest)/decades)*(plotHeight-plotTop-plotBottom)
	}
	for d := smallest; d <= smallest+decades-1; d++ {
		at := y(math.Pow10(d))
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			plotLeft, plotWidth-plotRight, at, at, plotLeft-8, at+4, thousands(int(math.Pow10(d))))
	}
	for _, n := range c.callers {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(float64(n)), plotHeight-plotBottom+20, n)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (plotLeft+plotWidth-plotRight)/2, plotHeight-10, "callers")
	line := 0
	for _, e := range c.entries {
		if e.plot == "" {
			continue
		}
		colour := colours[line%len(colours)]
		var points string
		for _, n := range c.callers {
			if rate, ok := c.Figures.at(e.name, n).median(perSecond); ok {
				points += fmt.Sprintf("%.1f,%.1f ", x(float64(n)), y(math.Max(rate, math.Pow10(smallest))))
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x(float64(n)), y(math.Max(rate, math.Pow10(smallest))), colour)
			}
		}
		if points == "" {
			continue
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", points, colour)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			plotWidth-plotRight+14, plotTop+line*22, colour, plotWidth-plotRight+32, plotTop+line*22+11, e.plot)
		line++
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func thousands(n int) string {
	if n >= 1000 {
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
}
