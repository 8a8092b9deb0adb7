package trials

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl"
)

// decisionCommands are what people decide.
//
//	decide BY OP CHOICE [who=W] [id=D] [version=stale] [ref=R] [waiver]
//	                           decide through an executor; print the status, or the rule that refuses it.
//	                           stale is the version before the present one
//	race BY,BY OP CHOICE CHOICE…   decisions about one version at once, by the executors in turn: print
//	                           how many were taken
//	yes OP                     print who said yes, and by which attempt it was used
var decisionCommands = map[string]func(w *world, rest string){
	"decide": func(w *world, rest string) {
		words := strings.Fields(rest)
		if len(words) < 3 {
			w.fatalf("want an executor, an operation and a choice")
		}
		op := w.known(words[1])
		d := pawl.Decision{Choice: pawl.Choice(words[2]), Who: "ana", Why: "looked", Version: op.Version}
		for _, word := range words[3:] {
			name, value, _ := strings.Cut(word, "=")
			switch name {
			case "who":
				d.Who = value
			case "id":
				d.ID = value
			case "version":
				d.Version--
			case "ref":
				d.Ref = value
			case "waiver":
				d.Waiver = "known"
			default:
				w.fatalf("%q is no word of a decision", word)
			}
		}
		env, err := w.executor(words[0]).Decide(context.Background(), op.Tenant, op.ID, d)
		var refused *pawl.Refusal
		if errors.As(err, &refused) {
			w.printf("refused: %s", refused.Why)
			return
		}
		w.check(err)
		w.printf("%s %s", env.Status, env.Reason)
	},
	"race": func(w *world, rest string) {
		words := strings.Fields(rest)
		by := strings.Split(words[0], ",")
		op := w.known(words[1])
		var open []*executor
		for _, name := range by {
			open = append(open, w.executor(name))
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		taken := 0
		for i, choice := range words[2:] {
			wg.Go(func() {
				d := pawl.Decision{Choice: pawl.Choice(choice), Who: "ana", Why: "looked", Version: op.Version}
				_, err := open[i%len(open)].Decide(context.Background(), op.Tenant, op.ID, d)
				var refused *pawl.Refusal
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					taken++
				case !errors.As(err, &refused):
					w.t.Errorf("%s: %v", w.at, err)
				}
			})
		}
		wg.Wait()
		w.printf("%d taken", taken)
	},
	"yes": func(w *world, name string) {
		op := w.known(name)
		if op.Approval == nil {
			w.printf("nobody was asked")
			return
		}
		var who []string
		for _, y := range op.Approval.Yes {
			who = append(who, y.Who)
		}
		used := "not used"
		if !op.Approval.Used.IsZero() {
			used = "used"
		}
		w.printf("%s: %s, %s", name, strings.Join(who, ", "), used)
	},
}
