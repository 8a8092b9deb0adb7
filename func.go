package pawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// NewFunc makes a tool of a Go function. The canonical arguments are decoded into In, and
// what the function returns is the result. KeyFrom gives the function the idempotency
// key to hand to its provider.
//
// An error proves nothing by itself: the outcome is UNKNOWN unless the function wraps it
// with NotSent or Rejected, by which it vouches that there was and will be no effect. A
// panic is UNKNOWN too.
func NewFunc[In, Out any](c Contract, fn func(ctx context.Context, in In) (Out, error), o *FuncOptions) *Tool {
	if o == nil {
		o = &FuncOptions{}
	}
	return &Tool{Contract: c, Port: &funcPort{
		options: *o,
		check: func(args json.RawMessage) error {
			if _, raw := any((*In)(nil)).(*json.RawMessage); raw {
				return nil
			}
			_, err := decodeArgs[In](args)
			return err
		},
		call: func(ctx context.Context, args json.RawMessage) (any, error) {
			in, err := decodeArgs[In](args)
			if err != nil {
				return nil, NotSent(err)
			}
			return fn(ctx, in)
		},
	}}
}

// decodeArgs decodes canonical arguments; numbers in untyped places keep their digits.
func decodeArgs[In any](args json.RawMessage) (in In, err error) {
	switch into := any(&in).(type) {
	case *json.RawMessage:
		*into = bytes.Clone(args)
		return in, nil
	default:
		d := json.NewDecoder(bytes.NewReader(args))
		d.UseNumber()
		err = d.Decode(into)
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return in, fmt.Errorf("argument %q: want a value for %s", wrong.Field, wrong.Type)
	case err != nil:
		return in, errors.New("the arguments do not fit the tool")
	}
	return in, nil
}

// FuncOptions give a Go function what its contract declares beside the call itself.
type FuncOptions struct {
	// Probe asks whether the effect of op exists. It only reads.
	Probe func(ctx context.Context, op *Operation) ProbeResult
	// Fence sees to it that op never has an effect, or finds that it did.
	Fence func(ctx context.Context, op *Operation) FenceResult
	// Snapshot reads the state before the first attempt.
	Snapshot func(ctx context.Context, inv *Invocation) (json.RawMessage, error)
	// Confirm says whether a call needs a yes before it is sent; an error means that it does.
	Confirm func(inv *Invocation) (bool, error)
	// Compensation gives the arguments of the call that undoes op, as Compensator has it.
	Compensation func(op *Operation) (json.RawMessage, error)
	// Ref picks the provider's id of the effect out of the result.
	Ref func(result json.RawMessage) string
}

// NotSent wraps an error of a Go function to vouch that nothing was sent.
func NotSent(err error) error { return &vouched{err: err, class: ClassNotSent} }

// Rejected wraps an error of a Go function to vouch that the provider refused for good.
func Rejected(err error) error { return &vouched{err: err, class: ClassRejected} }

// vouched is an error whose maker claims to know that there was no effect.
type vouched struct {
	err   error
	class AttemptClass
}

func (v *vouched) Error() string { return v.err.Error() }

func (v *vouched) Unwrap() error { return v.err }

type keyContext struct{}

// KeyFrom returns the idempotency key of the call that a Go function runs for.
func KeyFrom(ctx context.Context) Key {
	key, _ := ctx.Value(keyContext{}).(Key)
	return key
}

// funcPort speaks to a Go function. Its outbound request is the canonical arguments.
type funcPort struct {
	options FuncOptions
	check   func(args json.RawMessage) error
	call    func(ctx context.Context, args json.RawMessage) (any, error)
}

func (p *funcPort) Prepare(inv *Invocation) (Outbound, error) {
	return Outbound{Request: inv.Canonical}, p.check(inv.Canonical)
}

func (p *funcPort) Send(ctx context.Context, s *Sending) Evidence {
	out, err := p.call(context.WithValue(ctx, keyContext{}, s.Operation.Key), s.Operation.Request)
	if err == nil {
		return p.returned(out)
	}
	e := Evidence{Class: ClassAmbiguous, Proof: "error", Error: err.Error()}
	var v *vouched
	if errors.As(err, &v) {
		e.Class, e.Proof = v.class, "vouched"
		e.Strength = P1
		if v.class == ClassRejected {
			e.Strength = P3
		}
	}
	return e
}

// returned is the evidence of a function that came back without an error: whatever is
// wrong with its result, the effect exists.
func (p *funcPort) returned(out any) (e Evidence) {
	defer func() {
		if r := recover(); r != nil {
			e = Evidence{Class: ClassResultLost, Proof: "returned", Error: fmt.Sprintf("panic: %T", r)}
		}
	}()
	raw, ready := out.(json.RawMessage)
	result, err := bytes.Clone(raw), error(nil)
	if !ready || raw == nil {
		result, err = json.Marshal(out)
	}
	if err != nil {
		return Evidence{Class: ClassResultLost, Proof: "returned", Error: "the result does not marshal"}
	}
	e = Evidence{Class: ClassSucceeded, Proof: "returned", Result: result}
	if p.options.Ref != nil {
		e.Ref = p.options.Ref(result)
	}
	return e
}

func (p *funcPort) Probe(ctx context.Context, op *Operation) ProbeResult {
	return p.options.Probe(ctx, op)
}

func (p *funcPort) Fence(ctx context.Context, op *Operation) FenceResult {
	return p.options.Fence(ctx, op)
}

func (p *funcPort) Snapshot(ctx context.Context, inv *Invocation) (json.RawMessage, error) {
	return p.options.Snapshot(ctx, inv)
}

func (p *funcPort) Confirm(inv *Invocation) (bool, error) { return p.options.Confirm(inv) }

// Compensation makes the port a Compensator.
func (p *funcPort) Compensation(op *Operation) (json.RawMessage, error) {
	return p.options.Compensation(op)
}

// lacks names a declared part that the function was not given.
func (p *funcPort) lacks(c *Contract) string {
	switch {
	case c.Probe != nil && p.options.Probe == nil:
		return "probe"
	case c.Fence != nil && p.options.Fence == nil:
		return "fence"
	case c.Snapshot && p.options.Snapshot == nil:
		return "snapshot"
	case c.Confirm != nil && !c.Confirm.Always && p.options.Confirm == nil:
		return "confirmation"
	default:
		return ""
	}
}
