package trials

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	for _, e := range list[:shown(len(list))] {
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

// shown is how many rows of n are printed.
func shown(n int) int {
	if n > maxShown {
		return 0
	}
	return n
}

// requests prints how many requests with an effect in mind reached the provider, and each:
// method, path, key, a digest of the body, what was decided and what was answered.
func (w *world) requests() {
	all, err := w.provider.box.Requests(sandbox.Filter{})
	w.check(err)
	list := slices.DeleteFunc(all, func(r sandbox.Request) bool { return r.Method == "GET" })
	w.printf("%s", count(len(list), "request"))
	for _, r := range list[:shown(len(list))] {
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

// lint prints whether a tool has a weakness.
func (w *world) lint(tool, code string) {
	file, err := contract.Load(w.write(), nil)
	w.check(err)
	defer file.Close()
	for _, f := range contract.Lint(file) {
		if f.Tool == tool && f.Code == code {
			w.printf("%s %s", f.Severity, f.Code)
		}
	}
}
