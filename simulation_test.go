package pawl_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/storetest"
)

var (
	simulationSeeds = flag.Int("simulation.seeds", 0, "number of schedules that the simulation plays; 0 means each test's own number")
	simulationSeed  = flag.Uint64("simulation.seed", 1, "seed of the first schedule")
	simulationGoOn  = flag.Bool("simulation.goon", false, "play on after a schedule that fails, and print none")
	simulationTrace = flag.Bool("simulation.trace", false, "print every schedule")
)

// sometimes lists what has to happen somewhere in the schedules of one run: a fault that
// never strikes and a path that is never taken are not tested.
var sometimes = []string{
	"connection refused", "given up before the write", "request lost", "answer lost", "connection broke", "landed after the client gave up",
	"request delivered twice", "repeat absorbed by the key", "conflict with ourselves", "in flight", "stored failure replayed",
	"fail before", "fail after", "unreadable", "garbage", "busy", "reject", "port panicked", "port deaf",
	"accept", "accepted work landed", "accepted work never landed", "in progress", "refused as too late", "the same state set again",
	"refused by a fence", "fence called accepted work off", "fence let accepted work be", "fence found the effect",
	"effect hidden by the lag", "effect that the probe never shows", "question without an answer",
	"crash", "store failed", "store busy", "store full", "slow read", "slow write", "write hung", "stop", "clock jump",
	"event takeover", "event retry", "event resend", "event snapshot", "event give_back", "event no_answer", "event review", "event quiet",
	"alarm stale_evidence", "new generation", "run called off", "event permit", "event lapse", "event abort",
	"approver decided: approve", "approver decided: reject", "approver decided: withdraw", "approver refused: version",
	"approver refused: too_late", "approver refused: persons", "told PREPARED approval_needed executed", "told PREPARED approval_needed replayed",
	"told PREPARED approved replayed", "told FAILED_NO_EFFECT not_approved replayed", "told FAILED_NO_EFFECT run_aborted refused",
	"ends FAILED_NO_EFFECT by probe absent", "ends FAILED_NO_EFFECT by fence fenced", "ends FAILED_NO_EFFECT by person person",
	"ends SUCCEEDED by probe probe_found", "ends SUCCEEDED by resend confirmed", "ends SUCCEEDED by late_news late_news",
	"ends SUCCEEDED by person person", "ends UNKNOWN in review",
	"person decided: happened true", "person decided: happened false", "person refused: too_early", "person refused: version",
	"told SUCCEEDED confirmed replayed", "told SUCCEEDED probe_found attached", "told SUCCEEDED done_elsewhere replayed",
	"told SUCCEEDED not_yours replayed", "told UNKNOWN no_answer executed", "told UNKNOWN open_elsewhere replayed",
	"told UNKNOWN store refused", "told FAILED_NO_EFFECT parameter_mismatch refused", "told FAILED_NO_EFFECT subject_busy refused",
	"told FAILED_NO_EFFECT deadline refused", "told FAILED_NO_EFFECT busy refused", "told FAILED_NO_EFFECT stopping refused",
	"told FAILED_NO_EFFECT store refused", "told FAILED_NO_EFFECT generations refused", "told FAILED_NO_EFFECT attempts replayed",
}

// rarely lists what need not happen in the few schedules that are played on files.
var rarely = []string{
	"clock jump", "fence called accepted work off", "fence let accepted work be", "given up before the write",
	"person refused: version", "told FAILED_NO_EFFECT generations refused", "approver refused: too_late", "told PREPARED approved replayed",
}

// TestSimulation plays schedules drawn from seeds against the real executor, in fake
// time: several processes on one store, calls in other words and at other steps, lost,
// late, repeated and refused requests, probes that lag, fences, crashes, stores that
// fail, clocks that jump, people who decide, calls that need a yes, and runs that are
// called off. Each provider keeps to its declared terms and counts effects in a ledger of
// its own, by which the promises are judged.
//
// A schedule is the same whenever its seed is played, except where two things happen at
// one instant. A seed that fails now and then fails with -count.
func TestSimulation(t *testing.T) {
	t.Parallel()
	simulate(t, schedules, 2000, sometimes, func(string) func() pawl.Store {
		m := storetest.NewMemory()
		return func() pawl.Store { return m }
	})
}

// TestSimulationOnSQLite plays the same schedules on SQLite files, of which each process
// has its own handle. Their clock is the process's and does not jump.
func TestSimulationOnSQLite(t *testing.T) {
	t.Parallel()
	often := slices.DeleteFunc(slices.Clone(sometimes), func(what string) bool { return slices.Contains(rarely, what) })
	simulate(t, schedulesOnSQLite, 500, often, func(folder string) func() pawl.Store {
		return func() pawl.Store {
			db, err := sqlite.Open(filepath.Join(folder, "pawl.db"), &sqlite.Options{WALSize: 1 << 20, Reserve: 64 << 10})
			if err != nil {
				panic(err)
			}
			return db
		}
	})
}

// simulate plays schedules, each on a store of its own in a folder of its own. Where there
// are enough of them, everything in must has to have happened in one.
func simulate(t *testing.T, seeds, enough int, must []string, store func(folder string) func() pawl.Store) {
	if *simulationSeeds > 0 {
		seeds = *simulationSeeds
	}
	var mu sync.Mutex
	counts := map[string]int{}
	next, end := *simulationSeed, *simulationSeed+uint64(seeds)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == end {
			return 0, false
		}
		next++
		return next - 1, true
	}
	name := t.Name()
	t.Run("schedules", func(t *testing.T) {
		for i := range 2 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for seed, ok := take(); ok && (*simulationGoOn || !t.Failed()); seed, ok = take() {
					folder, err := os.MkdirTemp(t.TempDir(), "")
					if err != nil {
						t.Fatal(err)
					}
					s := playSeed(t, name, seed, store(folder))
					mu.Lock()
					s.notes.Lock()
					for what, n := range s.counts {
						counts[what] += n
					}
					s.notes.Unlock()
					mu.Unlock()
					os.RemoveAll(folder)
				}
			})
		}
	})
	if testing.Verbose() {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			t.Logf("%7d %s", counts[what], what)
		}
	}
	if seeds < enough || t.Failed() {
		return
	}
	for _, what := range must {
		if counts[what] == 0 {
			t.Errorf("never in %d schedules: %s", seeds, what)
		}
	}
}

// playSeed plays one schedule in a bubble of its own.
func playSeed(t *testing.T, name string, seed uint64, open func() pawl.Store) *sim {
	t.Helper()
	hung := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("%s: seed %d hangs", name, seed)) })
	defer hung.Stop()
	var s *sim
	func() {
		defer func() { // synctest panics where goroutines are left over
			if r := recover(); r != nil && s != nil {
				s.broken = append(s.broken, fmt.Sprintf("panic: %v", r))
			}
		}()
		synctest.Test(t, func(*testing.T) {
			s = newSim(seed, open)
			s.play()
		})
	}()
	s.notes.Lock() // whatever a hung call may have noted last
	defer s.notes.Unlock()
	if len(s.broken) > 0 {
		t.Errorf("broken in seed %d:\n\t%s\nreplay: go test -run '^%s$' -simulation.seed %d -simulation.seeds 1 .",
			seed, strings.Join(s.broken, "\n\t"), name, seed)
	}
	if len(s.broken) > 0 && !*simulationGoOn || *simulationTrace {
		t.Logf("the schedule of seed %d:\n\t%s", seed, strings.Join(s.trace, "\n\t"))
	}
	return s
}
