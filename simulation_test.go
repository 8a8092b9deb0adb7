// The schedules are played without the race detector: rest reads what hung calls may still
// write. The executor itself is raced by the other tests.

//go:build !race

package pawl_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	simulationSeeds = flag.Int("simulation.seeds", 300, "number of schedules that TestSimulation plays")
	simulationSeed  = flag.Uint64("simulation.seed", 1, "seed of the first schedule")
	simulationGoOn  = flag.Bool("simulation.goon", false, "play on after a seed that fails, without its schedule")
	simulationTrace = flag.Bool("simulation.trace", false, "print every schedule")
)

// TestSimulation plays schedules drawn from seeds against the real executor, in fake
// time: several processes on one store, calls in other words and at other steps, lost,
// late, repeated and refused requests, probes that lag, fences, crashes, stores that
// fail, clocks that jump and people who decide. Each provider keeps to its declared
// terms and counts effects in a ledger of its own, by which the promises are judged.
func TestSimulation(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	counts := map[string]int{}
	next := *simulationSeed
	end := next + uint64(*simulationSeeds)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == end {
			return 0, false
		}
		next++
		return next - 1, true
	}
	t.Run("schedules", func(t *testing.T) {
		for i := range 2 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for seed, ok := take(); ok && (*simulationGoOn || !t.Failed()); seed, ok = take() {
					s := playSeed(t, seed)
					mu.Lock()
					for what, n := range s.counts {
						counts[what] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	if testing.Verbose() {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			t.Logf("%7d %s", counts[what], what)
		}
	}
}

// playSeed plays one schedule in a bubble of its own.
func playSeed(t *testing.T, seed uint64) *sim {
	t.Helper()
	hung := time.AfterFunc(20*time.Second, func() { panic(fmt.Sprintf("simulation seed %d hangs", seed)) })
	defer hung.Stop()
	var s *sim
	func() {
		defer func() {
			if r := recover(); r != nil && s != nil {
				s.broken = append(s.broken, fmt.Sprintf("panic: %v", r))
			}
		}()
		synctest.Test(t, func(*testing.T) {
			s = newSim(seed)
			s.play()
		})
	}()
	if len(s.broken) > 0 {
		t.Errorf("broken in seed %d:\n\t%s\nreplay: go test -run TestSimulation -simulation.seed %d -simulation.seeds 1 .",
			seed, strings.Join(s.broken, "\n\t"), seed)
	}
	if len(s.broken) > 0 && !*simulationGoOn || *simulationTrace {
		t.Logf("the schedule of seed %d:\n\t%s", seed, strings.Join(s.trace, "\n\t"))
	}
	return s
}
