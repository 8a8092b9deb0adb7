package pawl_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

type insideKey struct{}

// watcher is an observer that writes down what ends, and what it was inside of.
type watcher struct {
	mu    sync.Mutex
	lines []string
	swept int
}

func (w *watcher) observer() *pawl.Observer {
	return &pawl.Observer{
		Swept: func(context.Context) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.swept++
		},
		Began: func(ctx context.Context, work *pawl.Work) (context.Context, func()) {
			outer, _ := ctx.Value(insideKey{}).(string)
			ctx = context.WithValue(ctx, insideKey{}, string(work.Kind))
			return pawl.WithTrace(ctx, traceOf(work.Kind)), func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.lines = append(w.lines, fmt.Sprintf("%s %d in %q: %s", work.Kind, work.Attempt, outer, outcome(work)))
			}
		},
	}
}

// traceOf is a trace context of its own for a kind of work.
func traceOf(k pawl.WorkKind) string {
	sum := sha256.Sum256([]byte(k))
	return fmt.Sprintf("00-%x-00f067aa0ba902b7-01", sum[:16])
}

func outcome(w *pawl.Work) string {
	switch {
	case w.Err != nil:
		return "error"
	case w.Envelope != nil:
		return fmt.Sprintf("%s of %v", w.Envelope.Status, w.Operation != nil && w.Operation.ID.String() == w.Envelope.OperationID)
	case w.Evidence != nil:
		return string(w.Evidence.Class)
	case w.Probe != nil:
		return string(w.Probe.Outcome)
	case w.Fence != nil:
		return string(w.Fence.Outcome)
	case w.Kind == pawl.WorkReconcile:
		return string(w.Operation.Status)
	default:
		return "nothing"
	}
}

// told takes what was told since it was last taken.
func (w *watcher) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}

func (w *watcher) want(t *testing.T, lines ...string) {
	t.Helper()
	if got := w.told(); !slices.Equal(got, lines) {
		t.Errorf("got %q, want %q", got, lines)
	}
}

func TestWorkIsTold(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Snapshot = true }, func(h *house) {
		h.provider.script = []string{"lost"}
		w := &watcher{}
		ex := h.executor(&pawl.Options{Observers: []*pawl.Observer{w.observer()}})
		h.want(h.do(ex, call(nil)), "SUCCEEDED probe_found executed", 1)
		w.want(t,
			`snapshot 0 in "call": nothing`, `attempt 1 in "call": AMBIGUOUS`, `probe 0 in "call": found`, `call 0 in "": SUCCEEDED of true`)
		if op := h.operation(); op.Trace != traceOf(pawl.WorkCall) {
			t.Errorf("got trace %q on record, want that of the call", op.Trace)
		}
		h.provider.state = "unreadable"
		h.want(h.do(ex, call(func(c *pawl.Call) { c.Step = "2" })), "FAILED_NO_EFFECT snapshot executed", 1)
		w.want(t, `snapshot 0 in "call": error`, `call 0 in "": FAILED_NO_EFFECT of true`)
		h.do(ex, call(func(c *pawl.Call) { c.Tool = "none" }))
		w.want(t, `call 0 in "": FAILED_NO_EFFECT of false`)
	})
}

// A trace context of the caller goes on to the provider and into the record, with or without
// observers; what only looks like one does not.
func TestTraceOfTheCaller(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct{ sent, want string }{
		{parent, parent},
		{parent[:54], ""},
		{parent + "0", ""},
		{"01" + parent[2:], ""},
		{strings.ToUpper(parent), ""},
		{strings.ReplaceAll(parent, "-", "_"), ""},
		{parent[:3] + strings.Repeat("0", 32) + parent[35:], ""},
		{parent[:36] + strings.Repeat("0", 16) + parent[52:], ""},
		{parent[:53] + "\r\n", ""},
	} {
		t.Run("", func(t *testing.T) {
			play(t, nil, func(h *house) {
				h.want(h.do(h.executor(nil), call(func(k *pawl.Call) { k.Trace = c.sent })), "SUCCEEDED * executed", 1)
				if got := h.operation().Trace; got != c.want {
					t.Errorf("%q: got trace %q on record, want %q", c.sent, got, c.want)
				}
			})
		})
	}
}

// What the sweeper does is inside no call, and a resend is told apart from an attempt.
func TestWorkOfTheSweeperIsTold(t *testing.T) {
	play(t, func(c *pawl.Contract) { c.Probe = nil }, func(h *house) {
		h.provider.script = []string{"hang"}
		w := &watcher{}
		observed := &pawl.Options{Observers: []*pawl.Observer{w.observer()}}
		ex := h.executor(observed)
		ctx, cancel := context.WithTimeout(context.Background(), 3500*time.Millisecond)
		defer cancel()
		if env, err := ex.Do(ctx, call(nil)); err != nil || env.Status != pawl.Unknown {
			t.Fatalf("got %s, %v, want UNKNOWN", env.Status, err)
		}
		stop(ex)
		w.want(t, `call 0 in "": UNKNOWN of true`, `attempt 1 in "call": AMBIGUOUS`)
		h.executor(observed).Start()
		if op := h.settled(); op.Status != pawl.Succeeded || op.SettledBy != pawl.ByResend {
			t.Errorf("got %s by %s, want SUCCEEDED by a resend", op.Status, op.SettledBy)
		}
		w.want(t, `resend 2 in "reconcile": SUCCEEDED`, `reconcile 0 in "": SUCCEEDED`)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.swept == 0 {
			t.Error("nobody was told of a sweep")
		}
	})
}

// An observer that breaks changes nothing, and the others are told all the same.
func TestObserverThatPanicsChangesNothing(t *testing.T) {
	play(t, nil, func(h *house) {
		broken := &pawl.Observer{Began: func(_ context.Context, w *pawl.Work) (context.Context, func()) {
			if w.Kind == pawl.WorkAttempt {
				panic("began")
			}
			return nil, func() { panic(errors.New("ended")) }
		}}
		w := &watcher{}
		ex := h.executor(&pawl.Options{Observers: []*pawl.Observer{broken, w.observer()}})
		h.want(h.do(ex, call(nil)), "SUCCEEDED * executed", 1)
		w.want(t, `attempt 1 in "call": SUCCEEDED`, `call 0 in "": SUCCEEDED of true`)
	})
}
