package drill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sandbox/retail"
)

const (
	// maxCalls bounds the calls of one step.
	maxCalls = 100
	// maxUnheard is how often the host has it proven that nothing happened before it gives a
	// step up where no answer ever arrives: it cannot hear that the shop refuses.
	maxUnheard = 2
	// glance is the pause between two looks at what is not settled, and waiting how long the
	// host looks before it makes the call again: that has the provider asked at once.
	glance  = 100 * time.Millisecond
	waiting = 5 * time.Second
)

// host plays one task.
type host struct {
	d      *drill
	task   *retail.Task
	script *script
	shop   *retail.Shop
	token  string
	run    string

	mu    sync.Mutex
	calls map[string]int // by tool
	n     int
	wrong []string
}

// step has one step happen, and asks for it again as the script says.
func (h *host) step(ctx context.Context, k int) error {
	st := h.script.steps[k]
	before := h.shop.Effects()[st.write.Tool]
	var twin sync.WaitGroup
	var twinErr error
	if st.together {
		twin.Go(func() {
			if twinErr = pause(ctx, 3*time.Millisecond); twinErr == nil {
				_, twinErr = h.call(ctx, st, st.args)
			}
		})
	}
	err := h.settle(ctx, st, before)
	twin.Wait()
	if err := errors.Join(err, twinErr); err != nil {
		return err
	}
	for _, a := range st.asks {
		if err := h.ask(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// settle makes a step's call, and makes it again, until its outcome is final.
func (h *host) settle(ctx context.Context, st *step, before int) error {
	var env *pawl.Envelope
	unheard := 0
	for range maxCalls {
		var err error
		had := h.shop.Effects()[st.write.Tool] - before
		if env, err = h.call(ctx, st, st.args); err != nil {
			return err
		}
		effects := h.shop.Effects()[st.write.Tool] - before
		if st.together && env.Status == pawl.FailedNoEffect {
			effects = had // what has come since may be the twin's, which was sent after this answer
		}
		switch {
		case env.Status == pawl.Succeeded:
			if effects == 0 && !st.idle {
				h.note("step %s: %s says SUCCEEDED (%s), and the shop has no such effect", st.id, st.write.Tool, env.Reason)
			}
			if st.refused {
				h.note("step %s: %s says SUCCEEDED, and the shop refuses it", st.id, st.write.Tool)
			}
			return nil
		case env.Status == pawl.FailedNoEffect:
			if effects != 0 && !st.idle {
				h.note("step %s: %s says FAILED_NO_EFFECT (%s), and the shop has the effect", st.id, st.write.Tool, env.Reason)
				return nil
			}
			if !env.RetrySafe {
				if !st.refused || env.Reason != pawl.ReasonRejected {
					h.note("step %s: %s ends with FAILED_NO_EFFECT (%s), refused by the shop: %v", st.id, st.write.Tool, env.Reason, st.refused)
				}
				return nil
			}
			if env.Reason == pawl.ReasonAbsent {
				unheard++
			}
			if unheard == maxUnheard && st.refused && h.d.opts.Faults == FaultsLost {
				return nil
			}
			err = pause(ctx, again)
		case env.OperationID == "":
			err = pause(ctx, again)
		default:
			err = h.await(ctx, st, env.OperationID, before)
		}
		if err != nil {
			return err
		}
	}
	h.note("step %s: %s is not settled after %d calls: %s (%s)", st.id, st.write.Tool, maxCalls, env.Status, env.Reason)
	return nil
}

// ask makes a call that was made before: it is answered from the record.
func (h *host) ask(ctx context.Context, a ask) error {
	before := h.shop.Effects()[a.of.write.Tool]
	env, err := h.call(ctx, a.of, a.args)
	if err != nil {
		return err
	}
	want, reason := pawl.Succeeded, env.Reason
	switch {
	case a.of.refused && a.changed:
		return nil // the shop's no is replayed, or this is another thing to refuse
	case a.of.refused:
		want, reason = pawl.FailedNoEffect, pawl.ReasonRejected
	case a.changed:
		want, reason = pawl.FailedNoEffect, pawl.ReasonParameterMismatch
	}
	if env.Status != want || env.Reason != reason {
		h.note("step %s asked again (%s, changed: %v): got %s (%s), want %s (%s)", a.of.id, a.of.write.Tool, a.changed, env.Status, env.Reason, want, reason)
	}
	// A copy of an address that lands late is none of this call's.
	if got := h.shop.Effects()[a.of.write.Tool]; got != before && !retail.Converges(a.of.write.Tool) {
		h.note("step %s asked again: %s has had its effect once more", a.of.id, a.of.write.Tool)
	}
	return nil
}

// call makes one call. Its id is new each time, except that some are used twice: they must
// mean nothing.
func (h *host) call(ctx context.Context, st *step, args map[string]any) (*pawl.Envelope, error) {
	h.mu.Lock()
	h.calls[st.write.Tool]++
	h.n++
	id := fmt.Sprintf("call_%d", h.n-h.n%3/2)
	h.mu.Unlock()
	var env pawl.Envelope
	err := h.d.client.ask(ctx, h.token, http.MethodPost, "/v1/calls", map[string]any{
		"tool": st.write.Tool, "args": args, "run": h.run, "step": st.id, "deadline_ms": st.turn.Milliseconds(),
		"attributes": map[string]string{"tool_call_id": id},
	}, &env)
	if err == nil {
		h.d.fleet.answered()
	}
	return &env, err
}

// operation is what the host reads of one.
type operation struct {
	ID        string         `json:"id"`
	Tool      string         `json:"tool"`
	Status    pawl.Status    `json:"status"`
	Version   int64          `json:"version"`
	SettledBy pawl.SettledBy `json:"settled_by"`
	Review    time.Time      `json:"review"`
}

// await waits for an operation to be settled. What the daemon asks a person about is decided
// as one would: it happened if the shop's ledger shows it, and it did not if the ledger
// does not when nothing can arrive any more.
func (h *host) await(ctx context.Context, st *step, id string, before int) error {
	for end := time.Now().Add(waiting); time.Now().Before(end); {
		var seen struct {
			Operation operation `json:"operation"`
			SafeAt    time.Time `json:"safe_at"`
		}
		if err := h.d.client.ask(ctx, h.token, http.MethodGet, "/v1/operations/"+id, nil, &seen); err != nil {
			return err
		}
		op := &seen.Operation
		if op.Status.Settled() {
			return nil
		}
		if !op.Review.IsZero() {
			happened := h.shop.Effects()[st.write.Tool] > before
			if happened || time.Now().After(seen.SafeAt) {
				if err := h.decide(ctx, op, happened); err != nil {
					return err
				}
			}
		}
		if err := pause(ctx, glance); err != nil {
			return err
		}
	}
	return nil
}

// decide settles an operation as a person does who looks at the shop's database. That it
// changed meanwhile, or that it is too early, is no fault: it is looked at again.
func (h *host) decide(ctx context.Context, op *operation, happened bool) error {
	choice := pawl.ChoiceDidNotHappen
	if happened {
		choice = pawl.ChoiceHappened
	}
	var env pawl.Envelope
	err := h.d.client.ask(ctx, h.token, http.MethodPost, "/v1/reviews/"+op.ID+"/decisions", map[string]any{
		"version": op.Version, "choice": choice, "why": "looked it up in the shop's ledger",
	}, &env)
	var p *problem
	if errors.As(err, &p) && p.status == http.StatusConflict {
		return nil
	}
	return err
}

// record is an operation with its history.
type record struct {
	operation
	// doubted: it was UNKNOWN at some time.
	doubted bool
}

// operations reads everything that the daemon has on record about the task.
func (h *host) operations(ctx context.Context) ([]record, error) {
	var all []record
	for path := "/v1/operations?limit=200"; ; {
		var page struct {
			Operations []operation `json:"operations"`
			Next       string      `json:"next"`
		}
		if err := h.d.client.ask(ctx, h.token, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		for _, op := range page.Operations {
			var past struct {
				History []struct {
					To pawl.Status `json:"to"`
				} `json:"history"`
			}
			if err := h.d.client.ask(ctx, h.token, http.MethodGet, "/v1/operations/"+op.ID+"/history", nil, &past); err != nil {
				return nil, err
			}
			r := record{operation: op}
			for _, e := range past.History {
				r.doubted = r.doubted || e.To == pawl.Unknown
			}
			if !op.Status.Settled() {
				h.note("operation %s of %s is %s at the end", op.ID, op.Tool, op.Status)
			}
			all = append(all, r)
		}
		if page.Next == "" {
			return all, nil
		}
		path = "/v1/operations?limit=200&before=" + page.Next
	}
}

// compare holds the shop and its ledger to what the script makes of another one.
func (h *host) compare() {
	got, want := h.shop.Changes(), h.script.want.Changes()
	what := maps.Clone(want)
	maps.Copy(what, got)
	for _, name := range slices.Sorted(maps.Keys(what)) {
		if got[name] != want[name] {
			h.note("%s: got %s, want %s", name, shown(got[name]), shown(want[name]))
		}
	}
	had, due := h.shop.Effects(), h.script.want.Effects()
	for _, tool := range retail.Tools {
		if n := had[tool]; n != due[tool] && (n < due[tool] || !retail.Converges(tool)) {
			h.note("%s: got %d effects, want %d", tool, n, due[tool])
		}
	}
}

func shown(row string) string {
	if row == "" {
		return "no change"
	}
	return row
}

func (h *host) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}
