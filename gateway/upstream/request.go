package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/gateway/wire"
)

// Request is one request to a server.
type Request struct {
	// Client is who asks; nil is the front itself.
	Client *Client
	Method string
	// Params pass as they are, but for the keys of their _meta that say something about one
	// way only, such as the revision and the progress token: they become those of this way.
	Params json.RawMessage
	// Caller is asked and told what comes in the meantime; nil where nobody is.
	Caller Caller
	// PassInput: a result of type input_required is an answer like any other. Otherwise the
	// caller is asked for the input and the server is called again with it.
	PassInput bool
}

// Answer is what a server responded: a result or an error, as it came.
type Answer struct {
	Result json.RawMessage
	Error  *wire.Error
	// Era is the one that the server was spoken to in.
	Era wire.Era
}

// Call makes one request and returns its answer. It is for what has no effect: where a server
// has forgotten the session the request is made in a new one. The error is ErrUnsent or ErrLost where
// there is none, and wraps the context's where that has ended. When ctx ends the request
// is cancelled at the server.
func (u *Upstream) Call(ctx context.Context, r *Request) (*Answer, error) {
	a, forgotten, err := u.try(ctx, r)
	if forgotten {
		a, _, err = u.try(ctx, r)
	}
	return a, err
}

// try makes the request in one session. Forgotten reports whether the server answered that
// it does not know the session any more, for which the protocol asks for a new one.
func (u *Upstream) try(ctx context.Context, r *Request) (a *Answer, forgotten bool, err error) {
	s, err := u.acquire(ctx, r.Client)
	if err != nil {
		return nil, false, err
	}
	defer u.release(s)
	var header http.Header
	if r.Method == wire.MethodCallTool && s.says.Era == wire.Modern {
		header = http.Header{}
		u.bind(ctx, header, r.Client, r.Params)
	}
	k := s.begin(ctx, r.Client, r.Caller, wire.Meta(r.Params))
	defer k.finish()
	caller := r.Caller
	if r.PassInput {
		caller = nil
	}
	o := k.run(&exchange{method: r.Method, header: header}, r.Params, caller)
	a, err = o.answer(s)
	return a, o.response == nil && o.facts.Code == http.StatusNotFound && !s.alive(), err
}

func (o *outcome) answer(s *session) (*Answer, error) {
	switch {
	case o.response != nil:
		return &Answer{Result: o.response.Result, Error: o.response.Error, Era: s.says.Era}, nil
	case o.unsent():
		return nil, fmt.Errorf("%w: %w", ErrUnsent, o.err)
	}
	return nil, fmt.Errorf("%w: %w", ErrLost, o.err)
}

const (
	// maxRounds caps the times that a server asks for input within one call.
	maxRounds = 10
	// roundPause is the first pause before a call goes on for which nothing was asked: the
	// server wants it later.
	roundPause = 100 * time.Millisecond
)

// errRounds: a server asked for input too often.
var errRounds = errors.New("the server asks for input again and again")

// run makes an exchange, and its continuations where there is a caller for the input that
// the server asks for. Each continuation is what the server asked for to go on with this
// call, so that it is no second call. The outcome is that of the last exchange; its facts
// are those of all.
func (k *call) run(x *exchange, params json.RawMessage, input Caller) *outcome {
	x.told = k.told
	var all *outcome
	for round := 0; ; round++ {
		x.id = k.id
		out, err := k.outgoing(params)
		if err != nil {
			return all.then(notSent("params", err))
		}
		x.params = out
		if k.s.says.Era == wire.Modern {
			header := modernHeader(x.method, out)
			for name, v := range x.header {
				header[name] = v
			}
			x.header = header
		}
		all = all.then(k.s.exchange(k.ctx, x))
		if input == nil || k.s.says.Era != wire.Modern || all.response == nil || !asksForInput(all.response.Result) {
			return all
		}
		if round == maxRounds {
			return all.without(errRounds)
		}
		if params, err = k.continued(params, all.response.Result, input, round); err != nil {
			return all.without(err)
		}
		all.facts.Trace = append(all.facts.Trace, "input_required")
	}
}

// without is the outcome of a call that did not go on after it was asked for input. What
// came last stays in the facts.
func (o *outcome) without(err error) *outcome {
	o.response = nil
	return o.fails(err)
}

// then adds a further exchange of one call.
func (o *outcome) then(next *outcome) *outcome {
	if o == nil {
		return next
	}
	next.facts.BytesBegun += o.facts.BytesBegun
	next.facts.BodyPulled += o.facts.BodyPulled
	next.facts.Trace = append(o.facts.Trace, next.facts.Trace...)
	next.facts.Class, next.facts.Strength, next.facts.Proof = "", "", "" // the first one was sent
	return next
}

func asksForInput(result json.RawMessage) bool {
	o, err := wire.ParseObject(result)
	if err != nil {
		return false
	}
	kind, _ := o.Text("resultType")
	return kind == wire.ResultInputRequired
}

// continued are the params of the next round.
func (k *call) continued(params, result json.RawMessage, input Caller, round int) (json.RawMessage, error) {
	asked, err := wire.ParseObject(result)
	if err != nil {
		return nil, err
	}
	next, err := wire.ParseObject(params)
	if err != nil {
		return nil, err
	}
	next = next.Without(func(name string) bool { return name == "inputResponses" || name == "requestState" })
	if asked.Get("inputRequests") == nil {
		select {
		case <-time.After(roundPause << round):
		case <-k.ctx.Done():
			return nil, k.ctx.Err()
		}
	} else {
		responses, err := input.Input(k.ctx, result)
		if err != nil {
			return nil, err
		}
		if responses != nil {
			next = next.With("inputResponses", responses)
		}
	}
	if state := asked.Get("requestState"); state != nil {
		next = next.With("requestState", state)
	}
	// A request has an id of its own, also one that continues another.
	k.renumber()
	return next.JSON(), nil
}

// Notify sends a notification to the server, in the session of the client.
func (u *Upstream) Notify(ctx context.Context, c *Client, method string, params json.RawMessage) error {
	s, err := u.acquire(ctx, c)
	if err != nil {
		return err
	}
	defer u.release(s)
	return s.peer.post(ctx, wire.Notification(method, params))
}
