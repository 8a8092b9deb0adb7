package contract

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
)

// confirming is a tool with amounts whose contract says what of a yes.
func confirming(t *testing.T, terms string) *tool {
	t.Helper()
	return mustParse(t, `version: 1
upstreams:
  pay: {url: "https://pay.example.com"}
tools:
  refund:
    upstream: pay
    request: {method: POST, path: /refunds, body: args}
    identity: {order_id: text, amount: decimal(2)}
    free: [to]
`+block(terms), nil).tools[0]
}

func asks(t *testing.T, tool *tool, args string) (bool, error) {
	t.Helper()
	c := tool.contract.WithDefaults()
	call := &pawl.Call{Tool: c.Tool, Args: json.RawMessage(args), Run: "r"}
	id, err := pawl.Identify(&c, call)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Confirm(&pawl.Invocation{Tool: c.Tool, Args: id.Args, Identity: id.Identity})
}

// TestConfirm: amounts are compared exactly, and what cannot be judged is asked about.
func TestConfirm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terms, args string
		want        bool
		err         bool
	}{
		{"confirm: always", `{"order_id":"A","amount":1}`, true, false},
		{"confirm: never", `{"order_id":"A","amount":1}`, false, false},
		{"confirm: {when: true}", `{"order_id":"A","amount":1}`, true, false},
		{"confirm: {when: args.amount > 100.00}", `{"order_id":"A","amount":"100.00"}`, false, false},
		{"confirm: {when: args.amount > 100.00}", `{"order_id":"A","amount":100.01}`, true, false},
		{"confirm: {when: args.amount > 100.00}", `{"order_id":"A","amount":9007199254740993}`, true, false},
		{"confirm: {when: 'args.to != \"a\"'}", `{"order_id":"A","amount":1,"to":"b"}`, true, false},
		{"confirm: {when: 'args.to != \"a\"'}", `{"order_id":"A","amount":1}`, false, true}, // there is no to
		{"confirm: {when: 'args.to > 5'}", `{"order_id":"A","amount":1,"to":"b"}`, false, true},
	} {
		tool := confirming(t, c.terms)
		got, err := asks(t, tool, c.args)
		if err != nil != c.err || !c.err && got != c.want {
			t.Errorf("%s, %s: got %v, %v; want %v, an error: %v", c.terms, c.args, got, err, c.want, c.err)
		}
		if err != nil && !errors.Is(err, errEvaluation) {
			t.Errorf("%s, %s: got %v, want %v", c.terms, c.args, err, errEvaluation)
		}
	}
}

// TestConfirmTerms: what is written is what the executor gets.
func TestConfirmTerms(t *testing.T) {
	t.Parallel()
	got := confirming(t, "confirm: {when: true, two_persons: true, expires: 4h, valid: 5m}\nwatch: {by: [order_id, to], within: 10m}").contract
	if c := got.Confirm; c == nil || !c.Always || !c.TwoPersons || c.Expires.Hours() != 4 || c.Valid.Minutes() != 5 {
		t.Errorf("confirm: got %+v, want every term", c)
	}
	if w := got.Watch; w == nil || len(w.By) != 2 || w.Within.Minutes() != 10 {
		t.Errorf("watch: got %+v, want both fields and 10 minutes", w)
	}
	if c := confirming(t, "confirm: never").contract; c.Confirm != nil {
		t.Errorf("never: got %+v, want no terms", c.Confirm)
	}
}
