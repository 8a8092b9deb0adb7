package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// A story is one run as chance has it: its plan, what goes wrong at each tool, and when it is
// called off.
type story struct {
	steps   []string            // the tool of each step
	faults  map[string][]string // by tool, one word for each request; see provider
	kinds   map[string]string   // by tool
	planned bool
	// abortAt is the number of steps before the abort; more than there are means never.
	abortAt int
	// restart is how long after the abort the worker is killed, and another one starts.
	restart time.Duration
	// fails is after how many writes of the store one fails once, 0 never.
	fails int
}

var storyKinds = []string{"keyed", "probed", "alone", "final"}

func drawStory(t *rapid.T) story {
	s := story{faults: map[string][]string{}, kinds: map[string]string{}}
	words := rapid.SampledFrom([]string{"ok", "ok", "ok", "lost", "before", "unsent", "reject", "busy", "fail", "empty", "hang", "slow"})
	n := rapid.IntRange(1, 4).Draw(t, "steps")
	for i := range n {
		tool := fmt.Sprint("do", i)
		s.steps = append(s.steps, tool)
		s.kinds[tool] = rapid.SampledFrom(storyKinds).Draw(t, "kind")
		s.kinds["undo_"+tool] = rapid.SampledFrom(storyKinds[:2]).Draw(t, "kind of undoing")
		s.faults[tool] = rapid.SliceOfN(words, 0, 3).Draw(t, "faults")
		s.faults["undo_"+tool] = rapid.SliceOfN(words, 0, 3).Draw(t, "faults of undoing")
	}
	s.planned = rapid.Bool().Draw(t, "planned")
	s.abortAt = rapid.IntRange(0, n+1).Draw(t, "abort at")
	s.restart = rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 20 * time.Second, 10 * time.Minute}).Draw(t, "restart")
	s.fails = rapid.IntRange(0, 12).Draw(t, "write that fails")
	return s
}

func (s *story) contract(tool string) pawl.Contract {
	c := pawl.Contract{Tool: tool, Identity: []pawl.Field{pawl.Text("id")}, MaxAttempts: 20}
	switch s.kinds[tool] {
	case "keyed":
		c.Class, c.Retention = pawl.Keyed, 24*time.Hour
	case "probed":
		c.Class, c.Retention, c.Probe = pawl.Keyed, 24*time.Hour, &pawl.ProbeTerms{NegativeProof: true}
	case "alone":
		c.Class, c.Probe = pawl.Unsafe, &pawl.ProbeTerms{NegativeProof: true}
	case "final":
		c.Class, c.Probe, c.Irreversible = pawl.Unsafe, &pawl.ProbeTerms{NegativeProof: true}, true
	}
	if !strings.HasPrefix(tool, "undo_") && !c.Irreversible {
		c.Compensation = &pawl.CompensationTerms{Tool: "undo_" + tool}
	}
	return c
}

// byKey undoes an operation whatever its result was.
type byKey struct{ *provider }

func (byKey) Compensation(op *pawl.Operation) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"id": op.Key.String()})
}

// play plays a story and returns what is wrong with its end.
func (s *story) play(t *testing.T) string {
	quiet := slog.New(slog.DiscardHandler)
	store := storetest.NewMemory()
	defer store.Close()
	providers := map[string]*provider{}
	var tools []*pawl.Tool
	for tool := range s.kinds {
		p := &provider{keyed: s.kinds[tool] == "keyed" || s.kinds[tool] == "probed", script: s.faults[tool], delay: 15 * time.Second}
		providers[tool] = p
		tools = append(tools, &pawl.Tool{Contract: s.contract(tool), Port: byKey{p}})
	}
	worker := func() *pawl.Executor {
		ex := pawl.New(store, &pawl.Options{Log: quiet})
		if err := ex.Register(tools...); err != nil {
			t.Fatal(err)
		}
		ex.Start()
		return ex
	}
	var writes atomic.Int64
	fail := func() error {
		if writes.Add(1) == int64(s.fails) {
			return pawl.ErrBusy
		}
		return nil
	}
	store.SetFaults(storetest.Faults{
		BeforeApply: func(*pawl.Change) error { return fail() }, BeforePutRun: func(*pawl.Run) error { return fail() },
	})
	ex := worker()
	defer func() { stop(ex) }()
	if s.planned {
		var plan []pawl.PlanStep
		for i, tool := range s.steps {
			plan = append(plan, pawl.PlanStep{Step: fmt.Sprint(i), Tool: tool})
		}
		for range 3 {
			if _, err := ex.RegisterPlan(context.Background(), "", "", "run", plan); err == nil {
				break
			}
		}
	}
	abort := func() {
		for range 3 { // whoever gets no answer says it again
			if _, err := ex.Abort(context.Background(), "", "run", off); err == nil {
				break
			}
		}
		if s.restart > 0 {
			time.Sleep(s.restart)
			gone, kill := context.WithCancel(context.Background())
			kill()
			ex.Stop(gone)
			ex = worker()
		}
	}
	for i, tool := range s.steps {
		if i == s.abortAt {
			abort()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		ex.Do(ctx, pawl.Call{Tool: tool, Run: "run", Step: fmt.Sprint(i), Args: json.RawMessage(fmt.Sprintf(`{"id":"%d"}`, i))})
		cancel()
	}
	if s.abortAt == len(s.steps) {
		abort()
	}
	time.Sleep(3 * time.Hour)
	return s.judge(ex, providers)
}

// judge holds the end to the promises, by the providers' own ledgers.
func (s *story) judge(ex *pawl.Executor, providers map[string]*provider) string {
	report, err := ex.RunReport(context.Background(), "", "run")
	if err != nil {
		if s.abortAt > 0 {
			return "" // nothing was ever recorded: every call was refused
		}
		return err.Error()
	}
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if s.abortAt <= len(s.steps) && report.Run.Status == pawl.RunOpen {
		bad("the run is open")
	}
	seen := map[string]pawl.RunItem{}
	for _, item := range report.Items {
		seen[item.Tool] = item
	}
	for i, tool := range s.steps {
		done, undone := providers[tool].effects(), providers["undo_"+tool].effects()
		item, known := seen[tool]
		if done > 1 || undone > 1 {
			bad("%s: %d effects and %d compensations, want one at most", tool, done, undone)
		}
		if undone > done {
			bad("%s: undone without having happened", tool)
		}
		if !known {
			if done > 0 {
				bad("%s: an effect that is not on record", tool)
			}
			continue
		}
		if report.Run.Status == pawl.RunOpen {
			if undone > 0 || item.Status == pawl.Succeeded && done != 1 {
				bad("%s: %s with %d effects and %d compensations in a run that goes on", tool, item.Status, done, undone)
			}
			continue
		}
		if i >= s.abortAt && done > 0 {
			bad("%s: it began after the run was called off", tool)
		}
		ok := true
		switch item.Outcome {
		case pawl.Undone:
			ok = done == 1 && undone == 1
		case pawl.NoEffect:
			ok = done == 0 && undone == 0
		case pawl.NotUndoable:
			ok = done == 1 && undone == 0 && s.kinds[tool] == "final"
		case pawl.UndoRefused:
			ok = done == 1 && undone == 0
		case pawl.UndoUnknown:
			ok = report.Run.Status == pawl.RunAborting
		default:
			ok = false // three hours are enough
		}
		if !ok {
			bad("%s (%s): outcome %q (%s) with %d effects and %d compensations; the run is %s", tool, s.kinds[tool], item.Outcome, item.Why, done, undone, report.Run.Status)
		}
	}
	return strings.Join(wrong, "\n")
}

// TestStoriesEndTrue: whatever goes wrong, the ledger ends either with every step's effect or
// with each that can be undone undone and the rest listed; nothing is undone twice or
// blindly.
func TestStoriesEndTrue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStory(rt)
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = s.play(t) })
		if wrong != "" {
			rt.Fatalf("%+v\n%s", s, wrong)
		}
	})
}
