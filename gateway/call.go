package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/gateway/upstream"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// callTool answers tools/call: a read passes straight through, and everything else is an
// effect that the executor has happen once.
func (x *exchange) callTool() reply {
	name, ok := x.params.Text("name")
	if !ok {
		return failure(invalid("name is missing"))
	}
	args := x.params.Get("arguments")
	if args == nil {
		args = json.RawMessage("{}")
	}
	if args[0] != '{' {
		return failure(invalid("arguments: want a JSON object"))
	}
	if name == statusTool {
		return x.status(args)
	}
	goOn, wrong := x.continuation()
	if wrong != nil {
		return failure(wrong)
	}
	if goOn != nil {
		return goOn()
	}
	t := x.door.tool(x.ctx, x.client, name)
	if t == nil {
		return failure(invalid("unknown tool: %q", clip(name)))
	}
	if t.read {
		return x.read(t)
	}
	if x.params.Get("requestState") != nil {
		return failure(invalid("%v", errState))
	}
	return x.effect(t, args)
}

// read passes a call on that has no effect.
func (x *exchange) read(t *tool) reply {
	r := x.pass(t.up, x.params.With("name", wire.Quote(t.Name)).JSON())
	if r.err != nil && r.err.Code == codeDown {
		// Models do not get to see errors of the protocol.
		env := pawl.Refuse(pawl.ReasonRead, t.pawl)
		return x.result(t, &env)
	}
	return r
}

// effect has a call's effect happen once.
func (x *exchange) effect(t *tool, args json.RawMessage) reply {
	if err := x.g.declare(t); errors.Is(err, contract.ErrUndeclared) {
		return failure(invalid("unknown tool: %q", clip(t.outward)))
	} else if err != nil {
		return x.failed("declare tool", err)
	}
	call, wrong := x.intention(t, args)
	if wrong != nil {
		return failure(wrong)
	}
	d := &doing{k: newTalk(x), t: t, call: call}
	d.k.key = x.callKey(&call)
	if r, asked := x.askedAlready(d.k.key); asked {
		return r
	}
	return d.run(x)
}

// callKey tells the calls of a client apart.
func (x *exchange) callKey(c *pawl.Call) string {
	h := sha256.New()
	for _, part := range []string{c.Tenant, c.Actor, c.Tool, c.Run, c.ParentRun, c.Step, x.request()} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return string(h.Sum(nil))
}

// doing is a call of an effect on its way.
type doing struct {
	k    *talk
	t    *tool
	call pawl.Call
	// asked: a person was asked about it already.
	asked bool
}

// run makes the call, or joins it where it is under way already, and waits for its envelope
// in this request.
func (d *doing) run(x *exchange) reply {
	ctx, cancel := x.turn()
	done := make(chan pawl.Envelope, 1)
	x.g.work.Go(func() {
		defer cancel()
		env, err := x.g.ex.Do(upstream.WithCaller(ctx, x.upstream(), d.k), d.call)
		if err != nil {
			// The envelope is true all the same, and says what to do.
			x.g.opts.Log.ErrorContext(ctx, "call could not be recorded", slog.Any("error", err), slog.String("operation", env.OperationID))
		}
		done <- env
	})
	env, parked := wait(d.k, x, cancel, done, d.run, d.run)
	if parked != nil {
		return *parked
	}
	return d.settle(x, &env)
}
