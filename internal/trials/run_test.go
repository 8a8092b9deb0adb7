package trials

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// runCommands are about a whole run.
//
//	plan RUN [{"step":…,"tool":…}, …]   register a plan, by executor A
//	abort RUN                     call it off, by executor A, whose sweeper then starts
//	over RUN                      wait until nothing is left to do for it, and print it
//	run RUN                       print it: each operation and what has become of it
var runCommands = map[string]func(w *world, rest string){
	"plan": func(w *world, rest string) {
		run, text, _ := strings.Cut(rest, " ")
		var steps []pawl.PlanStep
		w.check(json.Unmarshal([]byte(text), &steps))
		_, err := w.executor("A").RegisterPlan(context.Background(), "", "", run, steps)
		var bad *pawl.PlanError
		switch {
		case errors.As(err, &bad):
			w.printf("%s: %s", bad.Code, bad.What)
		default:
			w.check(err)
			w.printf("planned")
		}
	},
	"abort": func(w *world, run string) {
		e := w.executor("A")
		e.Start()
		_, err := e.Abort(context.Background(), "", run, pawl.Abort{Who: "ana", Why: "it is off"})
		w.check(err)
	},
	"over": func(w *world, run string) {
		for end := time.Now().Add(patience); w.report(run).Run.Status != pawl.RunAborted; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				w.fatalf("the run is not over: %s", w.report(run).Message)
			}
		}
		w.showRun(run)
	},
	"run": func(w *world, run string) { w.showRun(run) },
}

func (w *world) report(run string) *pawl.RunReport {
	r, err := w.executor("A").RunReport(context.Background(), "", run)
	w.check(err)
	return r
}

func (w *world) showRun(run string) {
	r := w.report(run)
	w.printf("%s %s", r.Run.ID, r.Run.Status)
	for _, i := range r.Items {
		words := []string{w.name(i.Operation.String()), i.Tool, string(i.Status), string(i.Outcome)}
		if i.Corrective != "" {
			words = append(words, "to do: "+i.Corrective)
		}
		w.printf("  %s", strings.TrimSpace(strings.Join(words, " ")))
	}
}
