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
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/sandbox"
)

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// brief is what a script shows of a key or a digest.
func brief(s string) string { return s[:min(len(s), 8)] }

// ledger prints how many effects the provider counts, landed or not, and each.
func (w *world) ledger() {
	list, err := w.provider.box.Effects(sandbox.Filter{Pending: true})
	w.check(err)
	w.printf("%s", count(len(list), "effect"))
	for _, e := range list {
		if len(list) > maxShown {
			break
		}
		words := []string{" ", e.Kind, ascii(e.Subject)}
		if e.Currency != "" {
			words = append(words, strconv.FormatInt(e.Amount, 10), e.Currency)
		}
		if e.Key != "" {
			words = append(words, "key", brief(e.Key))
		}
		w.printf("%s", strings.Join(words, " "))
	}
}

// maxShown is how many rows of a table a script shows; of more only their number.
const maxShown = 12

// requests prints how many requests with an effect in mind reached the provider, and each:
// method, path, key, a digest of the body, what was decided and what was answered.
func (w *world) requests() {
	all, err := w.provider.box.Requests(sandbox.Filter{})
	w.check(err)
	list := slices.DeleteFunc(all, func(r sandbox.Request) bool { return r.Method == "GET" })
	w.printf("%s", count(len(list), "request"))
	for _, r := range list {
		if len(list) > maxShown {
			break
		}
		words := []string{" ", r.Method, r.Path}
		if r.Key != "" {
			words = append(words, "key", brief(r.Key))
		}
		told := orDash(r.Answer)
		if status := w.provider.replied(r.Seq); status != 0 {
			told = strconv.Itoa(status)
		}
		words = append(words, "body", brief(r.Fingerprint), orDash(r.Outcome), "->", told)
		if r.Via != "" {
			words = append(words, "("+r.Via+")")
		}
		w.printf("%s", strings.Join(words, " "))
	}
}

// ascii shows characters that look alike apart.
func ascii(s string) string {
	if q := strconv.QuoteToASCII(s); q != `"`+s+`"` {
		return q
	}
	return s
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// describe is an operation on record: status, reason, what settled it, attempts, the
// provider's id, and why a person is asked.
func (w *world) describe(op *pawl.Operation) string {
	words := []string{w.name(op.ID.String()), string(op.Status)}
	if op.Reason != "" {
		words = append(words, string(op.Reason))
	}
	if op.SettledBy != "" {
		words = append(words, "by="+string(op.SettledBy))
	}
	words = append(words, fmt.Sprintf("attempts=%d", len(op.Attempts)))
	if op.Ref != "" {
		words = append(words, op.Ref)
	}
	if op.Gen > 0 {
		words = append(words, fmt.Sprintf("gen=%d", op.Gen))
	}
	if !op.Review.IsZero() {
		words = append(words, "review="+string(op.ReviewReason))
	}
	return strings.Join(words, " ")
}

// until polls the record until a condition holds: a status or a reason, "settled", "review", "free" (nobody
// holds a claim), "ended" (no attempt is out), or NAME>=N for attempts, probes, absent and the renewals of a claim since
// until began to look.
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

// history prints what happened to an operation, equal lines in a row once. Probes without
// a usable answer prove nothing and are left out. Of a settled operation it waits for what
// its attempts still have to say.
func (w *world) history(name string) {
	op := w.known(name)
	if op.Status.Settled() {
		op = w.until(name, "ended")
	}
	entries, err := w.record().History(context.Background(), op.Tenant, op.ID)
	w.check(err)
	before := ""
	for _, e := range entries {
		if e.Probe != nil && e.Probe.Outcome == pawl.Inconclusive {
			continue
		}
		words := []string{" ", strings.TrimPrefix(e.By, "worker "), e.Event}
		if e.Evidence != nil {
			words = append(words, string(e.Evidence.Class), e.Evidence.Proof)
			if e.Evidence.Code != 0 {
				words = append(words, strconv.Itoa(e.Evidence.Code))
			}
		}
		if e.Probe != nil {
			words = append(words, string(e.Probe.Outcome))
		}
		if e.Fence != nil {
			words = append(words, string(e.Fence.Outcome))
		}
		words = append(words, "->", string(e.To), string(e.Reason))
		if e.Note != "" {
			words = append(words, "("+e.Note+")")
		}
		line := strings.TrimRight(strings.Join(words, " "), " ")
		if line != before {
			w.printf("%s", line)
		}
		before = line
	}
}

// seen prints what the last probe with a match saw.
func (w *world) seen(name string) {
	op := w.known(name)
	entries, err := w.record().History(context.Background(), op.Tenant, op.ID)
	w.check(err)
	for _, e := range slices.Backward(entries) {
		if e.Probe != nil && e.Probe.Outcome == pawl.Found {
			w.printf("%s by %s", strings.Join(e.Probe.Refs, " "), e.Probe.Match)
			return
		}
	}
}

// keys compares the keys that the provider got with those on record.
func (w *world) keys() {
	effects, err := w.provider.box.Effects(sandbox.Filter{Pending: true})
	w.check(err)
	for i, op := range w.operations() {
		if i >= len(effects) {
			break
		}
		w.printf("%s %s: provider %s, record %s, equal %v", op.Tool, effects[i].Kind, effects[i].Key, op.Key, effects[i].Key == op.Key.String())
	}
}

// item prints what a person has to go by: the effect, the key, whether the times are there,
// and the evidence of each attempt.
func (w *world) item(name string) {
	op := w.known(name)
	w.printf("%s, key %s, asked since its last change: %v", op.Effect, op.Key, !op.Review.Before(op.Updated))
	for _, a := range op.Attempts {
		w.printf("attempt %d by %s, permit on record %v, lost %v", a.N, a.Worker, !a.Permit.IsZero(), a.Lost)
	}
	line, _, _ := strings.Cut(string(op.Request), "\n")
	w.printf("request %s", strings.Replace(line, w.provider.url(), "", 1))
}

// raised lists the alarms so far, each once.
func (w *world) raised() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.alarms)
	return slices.Compact(slices.Clone(w.alarms))
}

// recordCommands look at the record, never at an executor's memory.
//
//	until OP CONDITION   wait for a condition and print the operation; see until
//	op OP                print an operation
//	ops                  print every operation, oldest first
//	drained              wait until every operation is settled or asks a person
//	sound                wait as drained does, and check that each history holds together and ends
//	                     where its operation stands
//	tally [full]          print how many operations there are of each status and number of
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
		for _, op := range list {
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

// kind is an operation without what tells it from its like.
func kind(op *pawl.Operation, full bool) string {
	words := []string{op.Tool, string(op.Status)}
	if full {
		words = append(words, string(op.Reason), "by="+string(op.SettledBy))
	}
	words = append(words, fmt.Sprintf("attempts=%d", len(op.Attempts)))
	if !op.Review.IsZero() {
		words = append(words, "review")
	}
	return strings.Join(words, " ")
}

func (w *world) tally(full bool) {
	n := map[string]int{}
	var kinds []string
	for _, op := range w.operations() {
		k := kind(op, full)
		if n[k]++; n[k] == 1 {
			kinds = append(kinds, k)
		}
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		w.printf("%d x %s", n[k], k)
	}
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

// lint prints what is weak about a tool.
func (w *world) lint(tool string) {
	file, err := contract.Load(w.write(), nil)
	w.check(err)
	defer file.Close()
	for _, f := range contract.Lint(file) {
		if f.Tool == tool {
			w.printf("%s %s", f.Severity, f.Code)
		}
	}
}

func (w *world) await(c <-chan struct{}, otherwise string) {
	select {
	case <-c:
	case <-time.After(patience):
		w.fatalf("%s", otherwise)
	}
}

// age moves every row into a new store as it would stand in an old one: each of its times
// lies that much earlier.
func (w *world) age(d time.Duration) {
	for name := range w.executors {
		w.stop(name)
	}
	list := w.operations()
	w.check(w.view.Close())
	w.view = nil
	w.stores++
	for _, op := range list {
		aged := older(op, d)
		entry := pawl.Entry{Seq: 1, At: aged.Updated, Event: string(pawl.EventBegin), By: "worker A", To: op.Status, Reason: op.Reason, Attempt: 1}
		raw, err := pawl.EncodeEntry(&entry)
		w.check(err)
		aged.Version, aged.Chain = 1, pawl.ChainHash(nil, raw)
		standing, err := w.record().Begin(context.Background(), aged, raw)
		w.check(err)
		if standing != nil {
			w.fatalf("%s stands in the way of itself", w.describe(op))
		}
	}
	w.check(w.provider.box.Advance(d))
}

func older(op *pawl.Operation, d time.Duration) *pawl.Operation {
	aged := *op
	back := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(-d)
		}
	}
	for _, t := range []*time.Time{
		&aged.Deadline, &aged.Created, &aged.Lease, &aged.Due, &aged.Updated, &aged.Review, &aged.Probes.Last, &aged.Probes.Fenced,
	} {
		back(t)
	}
	aged.Attempts = slices.Clone(op.Attempts)
	for i := range aged.Attempts {
		back(&aged.Attempts[i].Permit)
		back(&aged.Attempts[i].Ended)
	}
	return &aged
}
