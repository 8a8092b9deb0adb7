package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// provider is a pretend provider with a ledger of its own. Each attempt takes the next
// word of its script; an empty script means "ok".
//
//	ok        does it and answers
//	lost      does it; the connection breaks at once
//	slow      does it; the answer comes after the delay
//	hang      does it; no answer ever comes
//	before    breaks before doing it
//	unsent    provably sends nothing
//	reject    definite refusal that the contract lists
//	busy      refusal that the contract calls transient
//	fail      does it and answers with a failure
//	empty     does it; the answer cannot be read
//	panic     does it and the port panics
//	deaf      does it; the port ignores its context and comes back a day later
//	garbage   does it; the result is no JSON
//	huge      does it; the result is larger than what is kept
type provider struct {
	mu     sync.Mutex
	script []string
	delay  time.Duration
	// keyed: a second request under one key has no second effect and replays the first.
	keyed bool
	// probe answers in place of the ledger, when set.
	probe func(op *pawl.Operation) pawl.ProbeResult
	// slowProbe, when set, is told when a probe begins and ends; it takes 100 s.
	slowProbe func(ctx context.Context, enter bool)
	prepare   func()
	// asks says whether a call needs a yes.
	asks   func(inv *pawl.Invocation) (bool, error)
	state  string
	sends  []string // key and request of every request received
	ledger []string // key of every effect
	probes int
	before []string // key of every snapshot read
}

func (p *provider) Prepare(inv *pawl.Invocation) (pawl.Outbound, error) {
	if p.prepare != nil {
		p.prepare()
	}
	return pawl.Outbound{Request: inv.Canonical}, nil
}

func (p *provider) next() string {
	if len(p.script) == 0 {
		return "ok"
	}
	word := p.script[0]
	p.script = p.script[1:]
	return word
}

func (p *provider) Send(ctx context.Context, s *pawl.Sending) pawl.Evidence {
	p.mu.Lock()
	word := p.next()
	if word == "unsent" {
		p.mu.Unlock()
		return pawl.Evidence{Class: pawl.ClassNotSent, Strength: pawl.P1, Proof: "no_connection"}
	}
	key := s.Operation.Key.String()
	p.sends = append(p.sends, key+" "+string(s.Operation.Request))
	does := !slices.Contains([]string{"before", "reject", "busy"}, word)
	if does && !(p.keyed && slices.Contains(p.ledger, key)) {
		p.ledger = append(p.ledger, key)
	}
	delay := p.delay
	p.mu.Unlock()
	id := "r-" + key[:8]
	success := pawl.Evidence{Class: pawl.ClassSucceeded, Result: json.RawMessage(`{"id":"` + id + `"}`), Ref: id}
	switch word {
	case "ok":
		return success
	case "slow":
		select {
		case <-time.After(delay):
			return success
		case <-ctx.Done():
			return pawl.Evidence{Class: pawl.ClassAmbiguous}
		}
	case "hang":
		<-ctx.Done()
		return pawl.Evidence{Class: pawl.ClassAmbiguous}
	case "reject":
		return pawl.Evidence{Class: pawl.ClassRejected, Strength: pawl.P3}
	case "busy":
		return pawl.Evidence{Class: pawl.ClassRejected, Strength: pawl.P3, Transient: true}
	case "fail":
		return pawl.Evidence{Class: pawl.ClassEffectPossible, Code: 500}
	case "empty":
		return pawl.Evidence{Class: pawl.ClassResultLost, Code: 200}
	case "deaf":
		time.Sleep(24 * time.Hour)
		return success
	case "garbage":
		return pawl.Evidence{Class: pawl.ClassSucceeded, Result: json.RawMessage("<html>")}
	case "huge":
		success.Result = json.RawMessage(`"` + strings.Repeat("x", pawl.MaxResult) + `"`)
		return success
	case "panic":
		panic("the port broke")
	default:
		return pawl.Evidence{Class: pawl.ClassAmbiguous}
	}
}

func (p *provider) Probe(ctx context.Context, op *pawl.Operation) pawl.ProbeResult {
	if p.slowProbe != nil {
		p.slowProbe(ctx, true)
		time.Sleep(100 * time.Second)
		p.slowProbe(ctx, false)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes++
	if p.probe != nil {
		return p.probe(op)
	}
	n := 0
	for _, key := range p.ledger {
		if key == op.Key.String() {
			n++
		}
	}
	if n == 0 {
		return pawl.ProbeResult{Outcome: pawl.Absent}
	}
	id := "r-" + op.Key.String()[:8]
	return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchKey, Count: n, Refs: []string{id}, Result: json.RawMessage(`{"id":"` + id + `"}`)}
}

func (p *provider) Snapshot(_ context.Context, inv *pawl.Invocation) (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == "panic" {
		panic("snapshot")
	}
	if p.state == "unreadable" {
		return nil, fmt.Errorf("the provider is away")
	}
	p.before = append(p.before, inv.Key.String())
	return json.RawMessage(`{"state":"` + p.state + `"}`), nil
}

func (p *provider) effects() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ledger)
}

func (p *provider) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sends)
}

// house is one store with executors on it, inside a synctest bubble.
type house struct {
	t        *testing.T
	store    *storetest.Memory
	provider *provider
	contract pawl.Contract
	began    time.Time
}

// play runs a test inside a bubble of fake time. The contract starts from a refund that
// takes a key and can be asked by it; edit may change it.
func play(t *testing.T, edit func(*pawl.Contract), test func(h *house)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := pawl.Contract{
			Tool: "refund", Class: pawl.Keyed, Retention: 24 * time.Hour,
			Identity: []pawl.Field{pawl.Text("order_id")}, Free: []string{"reason"}, Probe: &pawl.ProbeTerms{},
		}
		if edit != nil {
			edit(&c)
		}
		h := &house{t: t, store: storetest.NewMemory(), provider: &provider{keyed: c.Class == pawl.Keyed}, contract: c, began: time.Now()}
		t.Cleanup(func() { h.store.Close() })
		test(h)
	})
}

// executor starts another worker on the house's store.
func (h *house) executor(o *pawl.Options) *pawl.Executor {
	h.t.Helper()
	if o == nil {
		o = &pawl.Options{}
	}
	ex := pawl.New(h.store, o)
	if err := ex.Register(&pawl.Tool{Contract: h.contract, Port: h.provider}); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { stop(ex) })
	return ex
}

func stop(ex *pawl.Executor) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ex.Stop(ctx)
}

// call is a refund of order A at step 1, changed as the test says.
func call(edit func(*pawl.Call)) pawl.Call {
	c := pawl.Call{Tool: "refund", Run: "run-1", Step: "1", Args: json.RawMessage(`{"order_id":"A","amount":49.90}`)}
	if edit != nil {
		edit(&c)
	}
	return c
}

func (h *house) do(ex *pawl.Executor, c pawl.Call) pawl.Envelope {
	h.t.Helper()
	env, err := ex.Do(context.Background(), c)
	if err != nil {
		h.t.Fatalf("Do: %v", err)
	}
	return env
}

// want checks an envelope by "STATUS reason action", where an empty word is not looked at.
func (h *house) want(env pawl.Envelope, words string, effects int) {
	h.t.Helper()
	got := []string{string(env.Status), string(env.Reason), string(env.ActionTaken)}
	for i, w := range strings.Fields(words) {
		if w != "*" && got[i] != w {
			h.t.Errorf("got %v, want %s", got, words)
			break
		}
	}
	if n := h.provider.effects(); n != effects {
		h.t.Errorf("got %d effects at the provider, want %d", n, effects)
	}
}

// operation reads the only operation of the store.
func (h *house) operation() *pawl.Operation {
	h.t.Helper()
	ops, err := h.store.Find(context.Background(), pawl.Query{AllTenants: true})
	if err != nil || len(ops) != 1 {
		h.t.Fatalf("got %d operations (%v), want 1", len(ops), err)
	}
	return ops[0]
}

// settled waits until the only operation is settled or a person is asked.
func (h *house) settled() *pawl.Operation {
	h.t.Helper()
	for range 100_000 {
		if op := h.operation(); op.Status.Settled() || !op.Review.IsZero() {
			return op
		}
		time.Sleep(time.Second)
	}
	op := h.operation()
	h.t.Fatalf("still %s (%s) after %v", op.Status, op.Reason, time.Since(h.began))
	return nil
}
