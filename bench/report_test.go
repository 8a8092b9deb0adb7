package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// played is a campaign whose figures are made up: two rounds, of which the second was
// disturbed and all of it ten times as slow.
func played() *campaign {
	c := &campaign{options: &options{callers: []int{1, 64}, rounds: 2, length: time.Second}}
	for _, name := range []string{"disk/append", "sqlite/bare", "sqlite/pawl", "postgres/pawl"} {
		c.entries = append(c.entries, find(name))
	}
	speed := map[string]float64{"disk/append": 10_000, "sqlite/bare": 30_000, "sqlite/pawl": 18_000, "postgres/pawl": 9_000}
	for round, slower := range []float64{1, 10} {
		for name, rate := range speed {
			for _, callers := range c.callers {
				took := time.Duration(slower * float64(callers) / rate * 1e9)
				c.Figures = append(c.Figures, &figure{
					Contestant: name, Callers: callers, Round: round, Calls: 1000, PerSecond: rate / slower,
					P50: took, P99: 3 * took, CPU: took, Written: 4096, Flushes: 1, Memory: 50e6,
				})
			}
		}
	}
	return c
}

func TestRatiosAreTakenInsideRounds(t *testing.T) {
	t.Parallel()
	var fs figures
	for round, rates := range [][2]float64{{10, 20}, {40, 50}, {90, 10}} {
		fs = append(fs, &figure{Contestant: "a", Callers: 64, Round: round, PerSecond: rates[0]},
			&figure{Contestant: "b", Callers: 64, Round: round, PerSecond: rates[1]})
	}
	if got, ok := fs.ratio(perSecond, "a", "b", 64); !ok || got != 0.8 {
		t.Errorf("rounds of 0.5, 0.8 and 9: got %g, want 0.8", got)
	}
	if _, ok := fs.ratio(perSecond, "a", "c", 64); ok {
		t.Error("against what was not measured: got a ratio, want none")
	}
}

func TestVerdictsKnowTheirDirection(t *testing.T) {
	t.Parallel()
	more, less := target{floor: 4, aim: 8}, target{floor: 8, aim: 4, most: true}
	for _, test := range []struct {
		value      float64
		more, less string
	}{
		{9, "holds, and reaches the aim", "**falls short**"},
		{5, "holds", "holds"},
		{3, "**falls short**", "holds, and reaches the aim"},
	} {
		if got := more.verdict(test.value); got != test.more {
			t.Errorf("%g, where at least 4 is wanted: got %q, want %q", test.value, got, test.more)
		}
		if got := less.verdict(test.value); got != test.less {
			t.Errorf("%g, where at most 8 is wanted: got %q, want %q", test.value, got, test.less)
		}
	}
}

func TestCheckFailsWhereAFloorIsNotReached(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pawl float64
		want error
	}{{18_000, nil}, {14_000, errFloor}} {
		c := played()
		c.check = true
		for _, f := range c.Figures {
			f.P99 = f.P50
			if f.Contestant == "sqlite/pawl" {
				f.PerSecond = test.pawl
				f.P50 /= 10
				f.P99 /= 10
				f.CPU /= 10
			} else if f.Contestant == "sqlite/bare" {
				f.PerSecond = 30_000
			}
		}
		if got := c.report(); !errors.Is(got, test.want) {
			t.Errorf("pawl at %g where bare is at 30,000: got %v, want %v", test.pawl, got, test.want)
		}
	}
}

func TestFiguresGoBetweenTheMarkers(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+figuresBegin+"old\n"+figuresEnd+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // writing anew changes nothing else
		if err := replaceFigures(page, "new\n"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if want := "before\n" + figuresBegin + "\nnew\n\n" + figuresEnd + "\nafter\n"; string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := os.WriteFile(page, []byte("no markers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if replaceFigures(page, "new\n") == nil {
		t.Error("a page without markers: got no error, want one")
	}
}

func TestPlotIsWholeAndInItsFrame(t *testing.T) {
	t.Parallel()
	svg := played().plot()
	lines := 0
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 5 { // the disk is in both panels
		t.Errorf("got %d lines, want 5", lines)
	}
	if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
		t.Errorf("a place in the plot is no number:\n%s", svg)
	}
}

func TestEveryPlottedContestantHasItsStyle(t *testing.T) {
	t.Parallel()
	for _, e := range entries {
		if _, ok := lineStyles[e.plot]; e.plot != "" && !ok {
			t.Errorf("%s is plotted as %q, which has no style", e.name, e.plot)
		}
		if (e.open == nil) == (e.measure == nil) {
			t.Errorf("%s: want one of open and measure", e.name)
		}
	}
}
