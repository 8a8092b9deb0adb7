package receivertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The vectors about what comes late: to a fence, an undoing, a not-after, the end of the
// work, a database that is away.

// A request in flight works for a while, and the suite gives it some time to begin.
const (
	works  = "wait=1500ms"
	begins = 500 * time.Millisecond
)

// during runs f while a request under the key is worked on, and returns that one's answer.
func during(ctx context.Context, t *Target, key, drill string, after time.Duration, f func() error) (*answered, error) {
	type result struct {
		a   *answered
		err error
	}
	done := make(chan result, 1)
	go func() {
		a, err := t.do(ctx, asked{key: key, drill: drill})
		done <- result{a, err}
	}()
	err := wait(ctx, after)
	if err == nil {
		err = f()
	}
	first := <-done
	if err != nil {
		return nil, err
	}
	return first.a, first.err
}

// refused asks for a refusal without an effect.
func refused(ctx context.Context, t *Target, a asked) error {
	return exactly(ctx, t, 0, func() error {
		res, err := t.do(ctx, a)
		if err == nil && !res.refused() {
			err = fmt.Errorf("got status %d, want a refusal", res.status)
		}
		return err
	})
}

func inFlightElsewhere(ctx context.Context, t *Target) error {
	key := fresh()
	return once(ctx, t, func() error {
		return success(during(ctx, t, key, works, begins, func() error {
			second, err := t.do(ctx, asked{key: key, url: t.Node})
			if err == nil && second.status != 409 && !second.replayed() {
				err = fmt.Errorf("got status %d, want 409 or the answer again", second.status)
			}
			return err
		}))
	})
}

func storeAway(ctx context.Context, t *Target) error {
	key := fresh()
	return once(ctx, t, func() error {
		if err := t.Store(ctx, false); err != nil {
			return err
		}
		res, err := t.do(ctx, asked{key: key})
		if err := t.Store(ctx, true); err != nil {
			return err
		}
		if err := want(503)(res, err); err != nil {
			return err
		}
		if res.header.Get("Pawl-Effect") != "none" && !strings.Contains(strings.ReplaceAll(res.body, " ", ""), `"effect":"none"`) {
			return fmt.Errorf(`the answer does not say that nothing was done ("effect": "none")`)
		}
		return success(t.do(ctx, asked{key: key}))
	})
}

func outlasts(ctx context.Context, t *Target) error {
	key := fresh()
	n, err := made(ctx, t, func() error {
		drill := fmt.Sprintf("wait=%s", t.Lease+2*time.Second)
		_, err := during(ctx, t, key, drill, t.Lease+time.Second, func() error {
			return want(409)(t.do(ctx, asked{key: key}))
		})
		if err != nil {
			return err
		}
		_, err = t.do(ctx, asked{key: key})
		return err
	})
	if err == nil && n > 1 {
		err = fmt.Errorf("got %d effects, want one at most", n)
	}
	return err
}

func lateAfterUndo(ctx context.Context, t *Target) error {
	key := fresh()
	if err := once(ctx, t, func() error { return success(t.do(ctx, asked{key: key})) }); err != nil {
		return err
	}
	if err := success(t.do(ctx, asked{key: fresh(), url: about(t.Undo, key)})); err != nil {
		return fmt.Errorf("the undoing: %w", err)
	}
	return exactly(ctx, t, 0, func() error {
		_, err := t.do(ctx, asked{key: key}) // refused, or told what there was
		return err
	})
}

func undoFirst(ctx context.Context, t *Target) error {
	key := fresh()
	if err := success(t.do(ctx, asked{key: fresh(), url: about(t.Undo, key)})); err != nil {
		return fmt.Errorf("the undoing: %w", err)
	}
	return refused(ctx, t, asked{key: key})
}

func undoTwice(ctx context.Context, t *Target) error {
	key, undo := fresh(), fresh()
	if err := success(t.do(ctx, asked{key: key})); err != nil {
		return err
	}
	first, err := t.do(ctx, asked{key: undo, url: about(t.Undo, key)})
	if err := success(first, err); err != nil {
		return fmt.Errorf("the undoing: %w", err)
	}
	if err := same(first)(t.do(ctx, asked{key: undo, url: about(t.Undo, key)})); err != nil {
		return fmt.Errorf("the undoing again: %w", err)
	}
	other, err := t.do(ctx, asked{key: fresh(), url: about(t.Undo, key)})
	if err == nil && other.status >= 500 {
		err = fmt.Errorf("another undoing: got status %d", other.status)
	}
	return err
}

func notAfter(ctx context.Context, t *Target) error {
	at := func(d time.Duration) http.Header {
		return http.Header{http.CanonicalHeaderKey(t.NotAfter): {time.Now().UTC().Add(d).Format(time.RFC3339Nano)}}
	}
	if err := refused(ctx, t, asked{key: fresh(), header: at(-time.Minute)}); err != nil {
		return fmt.Errorf("a minute late: %w", err)
	}
	key := fresh()
	return once(ctx, t, func() error {
		first, err := t.do(ctx, asked{key: key, header: at(time.Minute)})
		if err := success(first, err); err != nil {
			return fmt.Errorf("a minute early: %w", err)
		}
		return same(first)(t.do(ctx, asked{key: key, header: at(-time.Minute)}))
	})
}

func notAfterMalformed(ctx context.Context, t *Target) error {
	return exactly(ctx, t, 0, func() error {
		return want(400)(t.do(ctx, asked{key: fresh(), header: http.Header{http.CanonicalHeaderKey(t.NotAfter): {"soon"}}}))
	})
}

// wantState asks the record for a state.
func wantState(ctx context.Context, t *Target, key string, fence bool, want string) error {
	got, err := t.state(ctx, key, fence)
	if err == nil && got != want {
		err = fmt.Errorf("the record: got state %q, want %q (fence: %v)", got, want, fence)
	}
	return err
}

func fenceFirst(ctx context.Context, t *Target) error {
	key := fresh()
	for _, ask := range []struct {
		fence bool
		want  string
	}{{false, "absent"}, {true, "fenced"}, {false, "fenced"}, {true, "fenced"}} {
		if err := wantState(ctx, t, key, ask.fence, ask.want); err != nil {
			return err
		}
	}
	return refused(ctx, t, asked{key: key})
}

func fenceAfter(ctx context.Context, t *Target) error {
	key := fresh()
	first, err := t.do(ctx, asked{key: key})
	if err := success(first, err); err != nil {
		return err
	}
	for _, fence := range []bool{false, true, false} {
		if err := wantState(ctx, t, key, fence, "done"); err != nil {
			return err
		}
	}
	return same(first)(t.do(ctx, asked{key: key}))
}

func fenceInFlight(ctx context.Context, t *Target) error {
	key := fresh()
	return once(ctx, t, func() error {
		return success(during(ctx, t, key, works, begins, func() error {
			for _, fence := range []bool{false, true} {
				if err := wantState(ctx, t, key, fence, "in_flight"); err != nil {
					return err
				}
			}
			return nil
		}))
	})
}
