package main

import (
	"slices"
	"time"
)

// figure is what was measured at one point.
type figure struct {
	Contestant string `json:"contestant"`
	Callers    int    `json:"callers"`
	Round      int    `json:"round"`
	Calls      int    `json:"calls"`
	// PerSecond is calls per second, P50 and P99 how long a call took.
	PerSecond float64       `json:"calls_per_second"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	// CPU, Written and Flushes are per call, of the whole team.
	CPU     time.Duration `json:"cpu_ns_per_call"`
	Written float64       `json:"bytes_written_per_call"`
	Flushes float64       `json:"flushes_per_call"`
	// Memory is the peak in bytes; 0 where it is not known.
	Memory int64 `json:"peak_memory_bytes"`
	// Others is how many processors worked for anybody else meanwhile: other programs, the
	// kernel's own threads, and the provider that does nothing.
	Others float64 `json:"processors_of_others"`
}

// newFigure sums up calls that took what is given.
func newFigure(took []time.Duration, wall time.Duration, used usage) *figure {
	slices.Sort(took)
	n := len(took)
	return &figure{
		Calls: n, PerSecond: float64(n) / wall.Seconds(), P50: took[n/2], P99: took[n*99/100],
		Others: max(0, (used.busy-used.cpu).Seconds()/wall.Seconds()),
		CPU:    used.cpu / time.Duration(n), Written: float64(used.written) / float64(n), Flushes: float64(used.flushes) / float64(n),
	}
}

// figures are all points of a run.
type figures []*figure

// at selects the rounds of one point.
func (fs figures) at(contestant string, callers int) figures {
	var found figures
	for _, f := range fs {
		if f.Contestant == contestant && f.Callers == callers {
			found = append(found, f)
		}
	}
	return found
}

// median is the middle of one value over the rounds, and whether there is any.
func (fs figures) median(value func(*figure) float64) (float64, bool) {
	var all []float64
	for _, f := range fs {
		all = append(all, value(f))
	}
	return middle(all)
}

func middle(all []float64) (float64, bool) {
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2, true
}

// ratio is the median over the rounds of one contestant's value by another's in the same
// round, and whether any round has both.
func (fs figures) ratio(value func(*figure) float64, over, under string, callers int) (float64, bool) {
	var all []float64
	for _, a := range fs.at(over, callers) {
		for _, b := range fs.at(under, callers) {
			if a.Round == b.Round && value(b) > 0 {
				all = append(all, value(a)/value(b))
			}
		}
	}
	return middle(all)
}

func perSecond(f *figure) float64 { return f.PerSecond }
func p50(f *figure) float64       { return f.P50.Seconds() }
func p99(f *figure) float64       { return f.P99.Seconds() }
func cpu(f *figure) float64       { return f.CPU.Seconds() }
func written(f *figure) float64   { return f.Written }
func flushes(f *figure) float64   { return f.Flushes }
func others(f *figure) float64    { return f.Others }
func memory(f *figure) float64    { return float64(f.Memory) }
