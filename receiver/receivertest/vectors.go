package receivertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// vectors are numbered as in docs/receiver.md.
var vectors = []*vector{
	{id: "V01", draft: true, asks: "a first request is carried out once", try: func(ctx context.Context, t *Target) error {
		return once(ctx, t, func() error { return success(t.do(ctx, asked{key: fresh()})) })
	}},
	{id: "V02", draft: true, asks: "the same request again gets the same answer, marked as a replay", try: replays},
	{id: "V03", draft: true, asks: "a key in flight is 409 with Retry-After", needs: []means{drills}, try: func(ctx context.Context, t *Target) error {
		return inFlight(ctx, t, "", 409)
	}},
	{id: "V03b", asks: "a key in flight at another process is refused, or waited for and replayed", needs: []means{drills, node, effects}, try: inFlightElsewhere},
	{id: "V04", draft: true, asks: "another payload under the key is 422, and the first still replays", try: func(ctx context.Context, t *Target) error {
		key := fresh()
		return once(ctx, t, func() error {
			first, err := t.do(ctx, asked{key: key})
			if err := success(first, err); err != nil {
				return err
			}
			if err := want(422)(t.do(ctx, asked{key: key, body: t.OtherBody})); err != nil {
				return fmt.Errorf("the other payload: %w", err)
			}
			return same(first)(t.do(ctx, asked{key: key}))
		})
	}},
	{id: "V05", draft: true, asks: "a missing key is 400 and says so", try: func(ctx context.Context, t *Target) error {
		return exactly(ctx, t, 0, func() error { return explained(t.do(ctx, asked{})) })
	}},
	{id: "V06", draft: true, asks: "the key is one text in quotes, with escapes and parameters; anything else is 400", try: syntax},
	{id: "V07", draft: true, asks: "callers with the same key are independent", needs: []means{caller}, try: func(ctx context.Context, t *Target) error {
		key := fresh()
		return exactly(ctx, t, 2, func() error {
			if err := success(t.do(ctx, asked{key: key})); err != nil {
				return err
			}
			second, err := t.do(ctx, asked{key: key, authorization: t.OtherAuthorization})
			if err == nil && second.replayed() {
				return fmt.Errorf("one caller got the answer of the other")
			}
			return success(second, err)
		})
	}},
	{id: "V08", asks: "the same key on another route never gets the first route's answer", needs: []means{another}, try: func(ctx context.Context, t *Target) error {
		key := fresh()
		if err := success(t.do(ctx, asked{key: key})); err != nil {
			return err
		}
		second, err := t.do(ctx, asked{key: key, url: t.Other})
		if err == nil && second.replayed() {
			return fmt.Errorf("the answer of another route was replayed")
		}
		return err
	}},
	{id: "V09a", draft: true, asks: "an error of the caller's (4xx) replays", needs: []means{drills}, try: func(ctx context.Context, t *Target) error {
		key := fresh()
		first, err := t.do(ctx, asked{key: key, drill: "status=400"})
		if err != nil {
			return err
		}
		return same(first)(t.do(ctx, asked{key: key}))
	}},
	{id: "V09b", asks: "an error of the service's (5xx) is kept, or everything it did is undone: one effect in the end", needs: []means{drills, effects}, try: func(ctx context.Context, t *Target) error {
		return atMostOne(ctx, t, "status=500")
	}},
	{id: "V10", asks: "in flight and another payload: 422 wins", needs: []means{drills}, try: func(ctx context.Context, t *Target) error {
		return inFlight(ctx, t, t.OtherBody, 422)
	}},
	{id: "V11", asks: "past its retention a key is refused while a tombstone stands, and never carried out again", needs: []means{retention, effects}, try: func(ctx context.Context, t *Target) error {
		key := fresh()
		return once(ctx, t, func() error {
			if err := success(t.do(ctx, asked{key: key})); err != nil {
				return err
			}
			if err := wait(ctx, t.Retention+t.Retention/2+time.Second); err != nil {
				return err
			}
			return want(409)(t.do(ctx, asked{key: key}))
		})
	}},
	{id: "V12", asks: "a crash after the change and before the answer: the same request again makes one effect in all", needs: []means{drills, effects, restart}, try: func(ctx context.Context, t *Target) error {
		key := fresh()
		return once(ctx, t, func() error {
			_, _ = t.do(ctx, asked{key: key, drill: "crash"}) // its answer is lost
			if err := t.Restart(ctx); err != nil {
				return err
			}
			return success(t.do(ctx, asked{key: key}))
		})
	}},
	{id: "V12b", asks: "a key is still known after a crash", needs: []means{effects, restart}, try: func(ctx context.Context, t *Target) error {
		key := fresh()
		return once(ctx, t, func() error {
			first, err := t.do(ctx, asked{key: key})
			if err := success(first, err); err != nil {
				return err
			}
			if err := t.Restart(ctx); err != nil {
				return err
			}
			return same(first)(t.do(ctx, asked{key: key}))
		})
	}},
	{id: "V13", asks: "a client that hangs up changes nothing: one effect, and the answer is kept", needs: []means{drills}, try: hangsUp},
	{id: "V14", asks: "a database that is away is 503, with nothing done and saying so", needs: []means{store, effects}, try: storeAway},
	{id: "V15", asks: "a record that cannot be written at the end: one effect in the end", needs: []means{drills, effects}, try: func(ctx context.Context, t *Target) error {
		return atMostOne(ctx, t, "record")
	}},
	{id: "V16", asks: "a panic leaves nothing half done: one effect in the end", needs: []means{drills, effects}, try: func(ctx context.Context, t *Target) error {
		return atMostOne(ctx, t, "panic")
	}},
	{id: "V17", asks: "work that takes longer than it may is not done by a second request beside it", needs: []means{lease, drills, effects}, try: outlasts},
	{id: "V18", asks: "order of members, blanks, spelling of numbers and other headers do not make another payload", try: func(ctx context.Context, t *Target) error {
		key := fresh()
		return once(ctx, t, func() error {
			first, err := t.do(ctx, asked{key: key, body: `{"amount": 1, "note": "n"}`})
			if err := success(first, err); err != nil {
				return err
			}
			return same(first)(t.do(ctx, asked{key: key, body: "{ \"note\":\"n\",\n\"amount\":1.0}", header: http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}))
		})
	}},
	{id: "V19", asks: "64 requests at once, at every process, make one effect", needs: []means{effects}, try: atOnce},
	{id: "V21", asks: "an answer that is too large to keep is refused when it is asked for again, and not made again", needs: []means{drills, effects}, try: func(ctx context.Context, t *Target) error {
		key := fresh()
		return once(ctx, t, func() error {
			if err := success(t.do(ctx, asked{key: key, drill: "size=2000000"})); err != nil {
				return err
			}
			again, err := t.do(ctx, asked{key: key, drill: "size=2000000"})
			if err == nil && !again.replayed() && !again.refused() {
				err = fmt.Errorf("got status %d, want the answer again or a refusal", again.status)
			}
			return err
		})
	}},
	{id: "V22", asks: "an error never repeats the key", try: func(ctx context.Context, t *Target) error {
		key := fresh()
		for _, a := range []asked{{keys: []string{key + "\x7f"}}, {keys: []string{`"` + key}}, {keys: []string{quoted(key), quoted(key)}}} {
			res, err := t.do(ctx, a)
			if err != nil {
				continue // the client itself may refuse to send it
			}
			if strings.Contains(res.body, key) {
				return fmt.Errorf("the key is in the answer of status %d", res.status)
			}
		}
		return nil
	}},
	{id: "V23", asks: "a key on a GET is ignored", try: func(ctx context.Context, t *Target) error {
		first, err := t.do(ctx, asked{method: http.MethodGet, key: fresh()})
		if err == nil && (first.replayed() || first.status == 409 || first.status == 422) {
			return fmt.Errorf("got status %d", first.status)
		}
		return err
	}},
	{id: "V24", asks: "a late copy does not make again what was undone", needs: []means{undoing, effects}, try: lateAfterUndo},
	{id: "U01", asks: "an undoing that comes first refuses the late original", needs: []means{undoing, effects}, try: undoFirst},
	{id: "U02", asks: "an undoing that comes twice is one", needs: []means{undoing}, try: undoTwice},
	{id: "N01", asks: "a request after its not-after is refused, and one in time is replayed after it", needs: []means{lateness, effects}, try: notAfter},
	{id: "N02", asks: "a not-after that is no instant is 400", needs: []means{lateness, effects}, try: notAfterMalformed},
	{id: "F01", asks: "a fence makes absence final: the late request is refused", needs: []means{records, effects}, try: fenceFirst},
	{id: "F02", asks: "the record and a fence tell what was done, and the fence changes nothing of it", needs: []means{records}, try: fenceAfter},
	{id: "F03", asks: "a request in flight is told as such, and no fence goes past it", needs: []means{records, drills, effects}, try: fenceInFlight},
}

func success(a *answered, err error) error {
	if err == nil && (a.status < 200 || a.status > 299) {
		err = fmt.Errorf("got status %d, want a success", a.status)
	}
	return err
}

func want(status int) func(*answered, error) error {
	return func(a *answered, err error) error {
		if err == nil && a.status != status {
			err = fmt.Errorf("got status %d, want %d", a.status, status)
		}
		return err
	}
}

// explained is 400 as a problem, or with a link to the service's rules.
func explained(a *answered, err error) error {
	if err := want(400)(a, err); err != nil {
		return err
	}
	if !strings.HasPrefix(a.header.Get("Content-Type"), "application/problem+json") && a.header.Get("Link") == "" {
		return fmt.Errorf("got Content-Type %q and no Link, want problem+json", a.header.Get("Content-Type"))
	}
	return nil
}

// same asks for the first answer, marked as a replay.
func same(first *answered) func(*answered, error) error {
	return func(a *answered, err error) error {
		switch {
		case err != nil:
			return err
		case a.status != first.status || a.body != first.body:
			return fmt.Errorf("got status %d and %d bytes, want the first answer: status %d and %d bytes", a.status, len(a.body), first.status, len(first.body))
		case !a.replayed():
			return fmt.Errorf("got no Idempotent-Replayed: true")
		}
		return nil
	}
}

func replays(ctx context.Context, t *Target) error {
	key := fresh()
	return once(ctx, t, func() error {
		first, err := t.do(ctx, asked{key: key})
		if err := success(first, err); err != nil {
			return err
		}
		return same(first)(t.do(ctx, asked{key: key}))
	})
}

// inFlight asks a second time while the first request is worked on.
func inFlight(ctx context.Context, t *Target, body string, status int) error {
	key := fresh()
	return once(ctx, t, func() error {
		return success(during(ctx, t, key, works, begins, func() error {
			second, err := t.do(ctx, asked{key: key, body: body})
			if err := want(status)(second, err); err != nil {
				return err
			}
			if status == 409 && second.header.Get("Retry-After") == "" {
				return fmt.Errorf("got no Retry-After")
			}
			return nil
		}))
	})
}

func syntax(ctx context.Context, t *Target) error {
	key := fresh()
	return exactly(ctx, t, 2, func() error {
		first, err := t.do(ctx, asked{keys: []string{quoted(key)}})
		if err := success(first, err); err != nil {
			return fmt.Errorf("a key in quotes: %w", err)
		}
		if err := same(first)(t.do(ctx, asked{keys: []string{quoted(key) + ";v=1"}})); err != nil {
			return fmt.Errorf("a parameter behind the key: %w", err)
		}
		escaped := quoted(key + `"\`)
		first, err = t.do(ctx, asked{keys: []string{escaped}})
		if err := success(first, err); err != nil {
			return fmt.Errorf("a key with escapes: %w", err)
		}
		if err := same(first)(t.do(ctx, asked{keys: []string{escaped}})); err != nil {
			return fmt.Errorf("a key with escapes: %w", err)
		}
		for what, keys := range map[string][]string{
			"an empty key": {`""`}, "no closing quote": {`"` + key}, "a list": {`("` + key + `")`},
			"a character outside ASCII": {`"` + key + `é"`}, "two lines": {quoted(key), quoted(key)},
		} {
			if err := want(400)(t.do(ctx, asked{keys: keys})); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		bare, err := t.do(ctx, asked{keys: []string{key}})
		if err == nil && bare.status != 400 && !bare.replayed() {
			return fmt.Errorf("a key without quotes: got status %d, want 400, or the answer of its quoted form", bare.status)
		}
		return err
	})
}

// atMostOne fails on purpose, asks again as a client would, and counts.
func atMostOne(ctx context.Context, t *Target, drill string) error {
	key := fresh()
	n, err := made(ctx, t, func() error {
		_, _ = t.do(ctx, asked{key: key, drill: drill}) // whatever comes
		_, _ = t.do(ctx, asked{key: key})
		_, err := t.do(ctx, asked{key: key})
		return err
	})
	if err == nil && n > 1 {
		err = fmt.Errorf("got %d effects, want one at most", n)
	}
	return err
}

func hangsUp(ctx context.Context, t *Target) error {
	key := fresh()
	return once(ctx, t, func() error {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		if _, err := t.do(short, asked{key: key, drill: "wait=700ms"}); err == nil {
			return fmt.Errorf("the service answered before the client hung up")
		}
		if err := wait(ctx, 1500*time.Millisecond); err != nil {
			return err
		}
		again, err := t.do(ctx, asked{key: key})
		if err == nil && !again.replayed() {
			return fmt.Errorf("got no replay of the answer that nobody read")
		}
		return success(again, err)
	})
}

func atOnce(ctx context.Context, t *Target) error {
	key := fresh()
	return once(ctx, t, func() error {
		var wg sync.WaitGroup
		for i := range 64 {
			a := asked{key: key}
			if i%2 == 1 {
				a.url = t.Node // or the target's own
			}
			wg.Go(func() { _, _ = t.do(ctx, a) }) // some are refused as in flight
		}
		wg.Wait()
		return success(t.do(ctx, asked{key: key}))
	})
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
