package trials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// recordCommands look at the record, never at an executor's memory.
//
//	until OP CONDITION   wait for a condition and print the operation; see until
//	op OP                print an operation
//	ops                  print every operation, oldest first
//	drained              wait until every operation is settled or asks a person
//	sound                wait as drained does, and check that each history holds together and ends
//	                     where its operation stands
//	tally [full]         print how many operations there are of each status and number of
//	                     attempts; full: and of each reason
//	history OP           print what happened to it
//	answer OP            print status and body of the provider's answers, as kept
//	keys                 print each effect's key beside the record's, and whether they are one
//	item OP              print what the review item of an operation rests on
//	seen OP              print the provider's ids that the last probe with a match saw
//	alarms               wait for an alarm, and print which ones there were so far
//	age D                let that time pass: the store is one whose rows are so much older, and
//	                     the provider's clock goes on
var recordCommands = map[string]func(w *world, rest string){
	"until": func(w *world, rest string) {
		name, condition, _ := strings.Cut(rest, " ")
		w.printf("%s", w.describe(w.until(name, condition)))
	},
	"op": func(w *world, name string) { w.printf("%s", w.describe(w.known(name))) },
	"ops": func(w *world, _ string) {
		list := w.operations()
		w.printf("%s", count(len(list), "operation"))
		for _, op := range list[:shown(len(list))] {
			w.printf("  %s", w.describe(op))
		}
	},
	"sound":   func(w *world, _ string) { w.sound() },
	"tally":   func(w *world, how string) { w.tally(how == "full") },
	"drained": func(w *world, _ string) { w.drained() },
	"history": func(w *world, name string) { w.history(name) },
	"answer": func(w *world, name string) {
		op := w.known(name)
		entries, err := w.record().History(context.Background(), op.Tenant, op.ID)
		w.check(err)
		for _, e := range entries {
			if e.Evidence != nil {
				w.printf("%d %s", e.Evidence.Code, e.Evidence.Body)
			}
		}
	},
	"keys": func(w *world, _ string) { w.keys() },
	"item": func(w *world, name string) { w.item(name) },
	"seen": func(w *world, name string) { w.seen(name) },
	"alarms": func(w *world, _ string) {
		w.check(poll(func() (string, error) {
			if len(w.raised()) == 0 {
				return "there is no alarm", nil
			}
			return "", nil
		}))
		w.printf("alarms: %s", strings.Join(w.raised(), " "))
	},
	"age": func(w *world, d string) { w.age(w.duration(d)) },
}

// until polls the record until a condition holds: a status or a reason, "settled",
// "review", "free" (nobody holds a claim), "ended" (no attempt is out), or NAME>=N for
// attempts, probes, absent, and renewed: the renewals of a claim since until began to look.
func (w *world) until(name, condition string) *pawl.Operation {
	var op *pawl.Operation
	w.renewed, w.lease = 0, time.Time{}
	w.check(poll(func() (string, error) {
		if op = w.operation(name); op == nil {
			return "there is no " + name, nil
		}
		if op.Lease.After(w.lease) {
			w.renewed, w.lease = w.renewed+1, op.Lease
		}
		if w.holds(op, condition) {
			return "", nil
		}
		return fmt.Sprintf("%s does not come to %s: %s\n%s", name, condition, w.describe(op), w.everything(op)), nil
	}))
	return op
}

// everything is the whole history of an operation, for a script that does not go on.
func (w *world) everything(op *pawl.Operation) string {
	entries, err := w.record().History(context.Background(), op.Tenant, op.ID)
	text, more := json.MarshalIndent(entries, "", "  ")
	if err := errors.Join(err, more); err != nil {
		return err.Error()
	}
	return string(text)
}

func (w *world) holds(op *pawl.Operation, condition string) bool {
	if what, least, ok := strings.Cut(condition, ">="); ok {
		n, err := strconv.Atoi(least)
		w.check(err)
		return map[string]int{"attempts": len(op.Attempts), "probes": op.Probes.Count, "absent": op.Probes.Absent, "renewed": w.renewed - 1}[what] >= n
	}
	now, err := w.record().Now(context.Background())
	w.check(err)
	switch condition {
	case "settled":
		return op.Status.Settled()
	case "ended":
		return !slices.ContainsFunc(op.Attempts, pawl.Attempt.Out)
	case "review":
		return !op.Review.IsZero()
	case "free":
		return !op.Lease.After(now)
	}
	return string(op.Status) == condition || string(op.Reason) == condition
}

// drained waits until every operation is settled or asks a person.
func (w *world) drained() {
	w.check(poll(func() (string, error) {
		for _, op := range w.operations() {
			if op.Status.Open() && op.Review.IsZero() {
				return "neither settled nor before a person: " + w.describe(op), nil
			}
		}
		return "", nil
	}))
}

// sound checks every history against its operation.
func (w *world) sound() {
	w.drained()
	for _, op := range w.operations() {
		entries, err := w.record().History(context.Background(), op.Tenant, op.ID)
		w.check(err)
		if last := entries[len(entries)-1]; last.To != op.Status || last.Reason != op.Reason || last.Seq != op.Version {
			w.fatalf("the history of %s ends in %s %s", w.describe(op), last.To, last.Reason)
		}
	}
	w.printf("sound")
}

func (w *world) await(c <-chan struct{}, otherwise string) {
	select {
	case <-c:
	case <-time.After(patience):
		w.fatalf("%s", otherwise)
	}
}
