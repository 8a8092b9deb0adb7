package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/gateway/upstream"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// talk is the client's side of one call: what the upstream asks and tells while it works
// goes to the request in which the client waits. A legacy client is asked on the spot. A
// modern one is answered with the question, and comes again with a request that continues
// the call; the call goes on meanwhile.
type talk struct {
	client  *client
	session *session // of a legacy client
	meta    wire.Object
	key     string // of a call of an effect: see callKey

	mu    sync.Mutex
	x     *exchange // in which the client waits, or did last
	open  []*question
	count int
	asked chan struct{} // holds one word: there is a question
	told  bool          // the upstream tells of its progress itself
	beats int
}

var _ upstream.Caller = (*talk)(nil)

// question is what an upstream asks in one go.
type question struct {
	requests wire.Object
	answer   chan wire.Object
}

func newTalk(x *exchange) *talk {
	return &talk{client: x.client, session: x.of, meta: x.meta.Without(ours), x: x, asked: make(chan struct{}, 1)}
}

func (t *talk) current() *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.x
}

// wait waits in a request for the call's outcome; hangUp is called if the client stops to
// wait in it. Where the call asks a modern client
// something, the second result is the answer to this request, and resume answers the one
// that continues it; rejoin, if not nil, one that continues it once more.
func wait[T any](t *talk, x *exchange, hangUp func(), done <-chan T, resume, rejoin func(x *exchange) reply) (T, *reply) {
	stop := context.AfterFunc(x.ctx, hangUp)
	defer stop()
	t.mu.Lock()
	t.x = x
	t.mu.Unlock()
	beat := time.NewTicker(x.g.opts.Beat)
	defer beat.Stop()
	for {
		select {
		case v := <-done:
			return v, nil
		case <-t.asked:
			if requests := t.questions(); len(requests) > 0 {
				var none T
				r := x.park(requests, &pause{
					resume: func(x *exchange, answers wire.Object) reply {
						t.answer(answers)
						return resume(x)
					},
					rejoin: rejoin, drop: t.giveUp, key: t.key,
				})
				return none, &r
			}
		case <-beat.C:
			t.beat(x)
		}
	}
}

// beat tells the client that its call is waited for: as progress where it has asked for
// progress and the upstream tells of none. The numbers are small, so that those of an
// upstream that begins to tell are larger.
func (t *talk) beat(x *exchange) {
	token := t.meta.Get(wire.MetaProgressToken)
	t.mu.Lock()
	t.beats++
	n, told := t.beats, t.told
	t.mu.Unlock()
	if token == nil || told {
		x.out.alive()
		return
	}
	// A client that has gone is told nothing.
	_ = x.out.send(wire.Notification(wire.NotifyProgress, wire.Object{
		{Name: "progressToken", Value: token},
		{Name: "progress", Value: json.RawMessage(fmt.Sprintf("%d.%03d", n/1000, n%1000))},
		{Name: "message", Value: wire.Quote("waiting for the upstream")},
	}.JSON()))
}

// Ask implements upstream.Caller.
func (t *talk) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *wire.Error) {
	if t.client.era == wire.Legacy {
		m, err := t.session.ask(ctx, t.current().out, method, params)
		switch {
		case err != nil:
			return nil, &wire.Error{Code: wire.CodeInternal, Message: errGone.Error()}
		case m.Error != nil:
			return nil, m.Error
		}
		return m.Result, nil
	}
	t.mu.Lock()
	t.count++
	key := fmt.Sprintf("pawl-%d", t.count)
	t.mu.Unlock()
	if params == nil {
		params = json.RawMessage("{}") // the SDK's client cannot read a question without them
	}
	request := wire.Object{{Name: "method", Value: wire.Quote(method)}, {Name: "params", Value: params}}
	answers, err := t.put(ctx, wire.Object{{Name: key, Value: request.JSON()}})
	if err != nil {
		return nil, &wire.Error{Code: wire.CodeInternal, Message: errGone.Error()}
	}
	return answers.Get(key), nil
}

// Input implements upstream.Caller.
func (t *talk) Input(ctx context.Context, result json.RawMessage) (json.RawMessage, error) {
	o, err := wire.ParseObject(result)
	if err != nil {
		return nil, err
	}
	raw := o.Get("inputRequests")
	if raw == nil {
		return nil, nil
	}
	requests, err := wire.ParseObject(raw)
	if err != nil {
		return nil, fmt.Errorf("inputRequests: %w", err)
	}
	if len(requests) == 0 {
		return nil, nil
	}
	if t.client.era == wire.Modern {
		answers, err := t.put(ctx, requests)
		if err != nil {
			return nil, err
		}
		return answers.JSON(), nil
	}
	answers := wire.Object{}
	for _, m := range requests {
		request, err := wire.ParseObject(m.Value)
		if err != nil {
			return nil, fmt.Errorf("inputRequests: %w", err)
		}
		method, _ := request.Text("method")
		answer, failed := t.Ask(ctx, method, request.Get("params"))
		if failed != nil {
			return nil, failed
		}
		answers = append(answers, wire.Member{Name: m.Name, Value: answer})
	}
	return answers.JSON(), nil
}

// put opens a question and waits for its answer.
func (t *talk) put(ctx context.Context, requests wire.Object) (wire.Object, error) {
	q := &question{requests: requests, answer: make(chan wire.Object, 1)}
	t.mu.Lock()
	t.open = append(t.open, q)
	t.mu.Unlock()
	t.ring()
	select {
	case answers := <-q.answer:
		if answers == nil {
			return nil, errGone
		}
		return answers, nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		for i := range t.open {
			if t.open[i] == q {
				t.open = append(t.open[:i:i], t.open[i+1:]...)
				break
			}
		}
		return nil, ctx.Err()
	}
}

func (t *talk) ring() {
	select {
	case t.asked <- struct{}{}:
	default:
	}
}

// questions are all that is open.
func (t *talk) questions() wire.Object {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all wire.Object
	for _, q := range t.open {
		all = append(all, q.requests...)
	}
	return all
}

// answer hands out the answers of a continuation. A question that it leaves out is put
// again.
func (t *talk) answer(answers wire.Object) {
	t.mu.Lock()
	var left []*question
	for _, q := range t.open {
		mine := wire.Object{}
		for _, m := range q.requests {
			if v := answers.Get(m.Name); v != nil {
				mine = append(mine, wire.Member{Name: m.Name, Value: v})
			}
		}
		if len(mine) == len(q.requests) {
			q.answer <- mine
		} else {
			left = append(left, q)
		}
	}
	t.open = left
	t.mu.Unlock()
	if len(left) > 0 {
		t.ring()
	}
}

// giveUp ends the questions that nobody answers.
func (t *talk) giveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.open {
		close(q.answer)
	}
	t.open = nil
}

// Tell implements upstream.Caller.
func (t *talk) Tell(method string, params json.RawMessage) {
	t.mu.Lock()
	x := t.x
	if method == wire.NotifyProgress {
		t.told = true
	}
	t.mu.Unlock()
	// What comes after the answer finds nobody.
	_ = x.out.send(wire.Notification(method, params))
}

// Meta implements upstream.Caller.
func (t *talk) Meta() wire.Object { return t.meta }
