package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// verdict is what a person said.
type verdict int

const (
	nothing verdict = iota // no answer, or none that says yes or no
	yes
	no
)

// verdictOf reads the answer to an elicitation. A yes is a form that was sent with its box
// ticked: a client that accepts whatever it is asked says nothing.
func verdictOf(answer json.RawMessage, failed *wire.Error) verdict {
	o, err := wire.ParseObject(answer)
	if failed != nil || err != nil {
		return nothing
	}
	content, err := wire.ParseObject(o.Get("content"))
	switch action, _ := o.Text("action"); {
	case action == "decline":
		return no
	case action == "accept" && err == nil && bytes.Equal(content.Get("confirm"), []byte("true")):
		return yes
	case action == "accept" && err == nil && bytes.Equal(content.Get("confirm"), []byte("false")):
		return no
	}
	return nothing
}

// form is the question's form: one box to tick.
var form = json.RawMessage(`{"type":"object","properties":{"confirm":{"type":"boolean","title":"Yes, do it","default":false}},"required":["confirm"]}`)

// settle answers with an envelope, or first asks the person at the client where a word of
// theirs can change it: a yes that the contract wants, or that what is done is wanted once
// more.
func (d *doing) settle(x *exchange, env *pawl.Envelope) reply {
	if !d.asked && x.canElicit() {
		switch {
		case env.Status == pawl.Prepared && (env.Reason == pawl.ReasonApprovalNeeded || env.Reason == pawl.ReasonLookAlike):
			return d.approve(x, env)
		case env.Status == pawl.Succeeded && env.ActionTaken == pawl.Replayed && d.call.Step == "" && !d.call.Again &&
			x.g.answered.before(env.OperationID, x.g.opts.RepeatAfter) && x.g.repeats(d.t.pawl):
			return d.again(x, env)
		}
	}
	if env.Status == pawl.Succeeded && env.OperationID != "" && x.ctx.Err() == nil {
		x.g.answered.add(env.OperationID)
	}
	return x.result(d.t, env)
}

// approve asks for the yes that a call needs. An answer that comes after the client's
// patience is over counts all the same: the sweeper sends what was approved.
func (d *doing) approve(x *exchange, env *pawl.Envelope) reply {
	id, err := pawl.ParseID(env.OperationID)
	if err != nil {
		return x.result(d.t, env)
	}
	it, err := x.g.ex.Review(x.ctx, x.who.Tenant, id)
	if err != nil {
		return x.failed("read operation", err)
	}
	question := "May this be done? " + it.Operation.Effect
	if env.Reason == pawl.ReasonLookAlike {
		question = "This looks like something that was asked for shortly before. May it be done all the same? " + it.Operation.Effect
	}
	decide := func(ctx context.Context, v verdict) {
		choice := map[verdict]pawl.Choice{yes: pawl.ChoiceApprove, no: pawl.ChoiceReject}[v]
		if choice == "" {
			return
		}
		_, err := x.g.ex.Decide(ctx, x.who.Tenant, id, pawl.Decision{
			ID: fmt.Sprintf("elicit-%s-%d", id, it.Operation.Version), Choice: choice, Who: x.person(), Why: "answered in the client " + clip(x.name),
			Version: it.Operation.Version,
		})
		var refused *pawl.Refusal
		if err != nil && !errors.As(err, &refused) { // what the rules refuse shows in the operation's status
			x.g.opts.Log.ErrorContext(ctx, "answer could not be recorded", slog.Any("error", err), slog.String("operation", id.String()))
		}
	}
	then := &doing{k: d.k, t: d.t, call: d.call, asked: true}
	return d.put(x, question, decide, func(x *exchange, v verdict) reply {
		if v == nothing {
			return x.result(d.t, env)
		}
		return then.run(x)
	}, then.run)
}

// person is who answers at the client, for the record.
func (x *exchange) person() string {
	if x.who.Actor != "" {
		return x.who.Actor
	}
	return "user of " + clip(x.name)
}

// again asks whether what is done already is wanted once more. A yes is a new step.
func (d *doing) again(x *exchange, env *pawl.Envelope) reply {
	then := &doing{k: newTalk(x), t: d.t, call: d.call, asked: true}
	then.call.Step, then.call.Again = "again-"+rand.Text()[:12], true
	then.k.key = x.callKey(&then.call)
	var wanted atomic.Bool
	question := "The same was done before in this run. Do it once more? " + env.Effect
	return d.put(x, question, func(context.Context, verdict) {}, func(x *exchange, v verdict) reply {
		if v != yes {
			return x.result(d.t, env)
		}
		wanted.Store(true)
		return then.run(x)
	}, func(x *exchange) reply {
		if wanted.Load() {
			return then.run(x)
		}
		return x.result(d.t, env)
	})
}

// put asks the person at the client and goes on with the answer: decide records it, whenever
// it comes, and then makes the reply. Rejoin answers a request that brings the answer once
// more.
func (d *doing) put(x *exchange, question string, decide func(context.Context, verdict), then func(*exchange, verdict) reply, rejoin func(*exchange) reply) reply {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), x.g.opts.AnswerTime)
	said := make(chan verdict, 2) // the answer, and the end of the wait for it
	enough := func() {
		select {
		case said <- nothing:
		default:
		}
	}
	x.g.work.Go(func() {
		defer cancel()
		v := verdictOf(d.k.Ask(ctx, wire.MethodElicit, x.elicitation(question)))
		decide(ctx, v)
		said <- v
	})
	if x.era == wire.Legacy {
		defer time.AfterFunc(time.Until(x.deadline())-answerReserve, enough).Stop()
	}
	var await func(x *exchange) reply
	await = func(x *exchange) reply {
		v, parked := wait(d.k, x, enough, said, await, rejoin)
		if parked != nil {
			return *parked
		}
		x.arrived = later(x.arrived, time.Now().Add(afterAnswer-x.g.budget(x.client)))
		return then(x, v)
	}
	return await(x)
}

const (
	// answerReserve is left of a legacy client's patience to tell it that nobody has answered.
	answerReserve = 2 * time.Second
	// afterAnswer is the least time that a call has once its question is answered.
	afterAnswer = 15 * time.Second
)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// elicitation is a question to a person, answered by a form.
func (x *exchange) elicitation(message string) json.RawMessage {
	o := wire.Object{{Name: "message", Value: wire.Quote(message)}, {Name: "requestedSchema", Value: form}}
	if x.version >= wire.Version20251125 {
		o = o.With("mode", wire.Quote("form"))
	}
	return o.JSON()
}

// repeats reports whether a new step makes a new effect of a tool's.
func (g *Gateway) repeats(name string) bool {
	for _, c := range g.ex.Contracts() {
		if c.Tool == name {
			return c.Scope == pawl.ScopeStep
		}
	}
	return false
}

// answered remembers which operations' outcome a client was told, and when first: only then
// is the same call more than a repeat.
type answered struct {
	mu sync.Mutex
	at map[string]time.Time
}

// maxAnswered is how many are remembered.
const maxAnswered = 10_000

func (a *answered) add(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil || len(a.at) >= maxAnswered {
		a.at = make(map[string]time.Time)
	}
	if a.at[id].IsZero() {
		a.at[id] = time.Now()
	}
}

func (a *answered) before(id string, age time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.at[id]
	return ok && time.Since(at) >= age
}
