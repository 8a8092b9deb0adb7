package pawl

import (
	"encoding/json"
	"testing"
	"time"
)

func permits(at time.Duration, contract string) *Event {
	return ev(EventPermit, at, func(e *Event) { e.NewToken, e.Lease, e.Contract = 2, e.At.Add(time.Minute), contract })
}

// TestNoPermitWithoutAYesForExactlyThis: whatever of what was approved is changed, and
// however the yes is old, used or missing, nothing may be sent.
func TestNoPermitWithoutAYesForExactlyThis(t *testing.T) { // T11
	t.Parallel()
	approved := func() *Operation { return after(prepared(keyedContract()), decides(time.Second, ChoiceApprove)) }
	hash := keyedContract().Hash()
	if got := refusalOf(approved(), permits(time.Minute, hash)); got != "" {
		t.Fatalf("as approved: got %q, want the permit", got)
	}
	for name, change := range map[string]func(op *Operation){
		"another operation": func(op *Operation) { op.ID = NewID(t0) },
		"another tool":      func(op *Operation) { op.Tool = "refund_all" },
		"another tenant":    func(op *Operation) { op.Tenant = "acme" },
		"another actor":     func(op *Operation) { op.Actor = "eve" },
		"another key":       func(op *Operation) { op.Key[0]++ },
		"other arguments":   func(op *Operation) { op.Args = json.RawMessage(`{"amount":100}`) },
		"other bytes":       func(op *Operation) { op.Request = []byte("POST /refunds/all") },
		"another contract":  func(op *Operation) { op.ContractHash = "another" },
		"a longer life":     func(op *Operation) { op.Approval.Expires = op.Approval.Expires.Add(time.Hour) },
		"no yes":            func(op *Operation) { op.Approval.Yes = nil },
		"one yes of two":    func(op *Operation) { op.Approval.Persons = 2 },
		"a yes of nothing":  func(op *Operation) { op.Approval.Yes[0].Bound = "" },
		"used":              func(op *Operation) { op.Approval.Used = t0 },
		"nobody was asked":  func(op *Operation) { op.Approval = nil },
	} {
		op := approved()
		a := *op.Approval
		op.Approval = &a
		change(op)
		if got := refusalOf(op, permits(time.Minute, hash)); got != RefusedSend {
			t.Errorf("%s: got %q, want the permit refused", name, got)
		}
	}
	for name, e := range map[string]*Event{
		"too old":              permits(DefaultConfirmValid+2*time.Second, hash),
		"the contract changed": permits(time.Minute, "another"),
	} {
		if got := refusalOf(approved(), e); got != RefusedSend {
			t.Errorf("%s: got %q, want the permit refused", name, got)
		}
	}
	op := after(approved(), permits(time.Minute, hash))
	if op.Status != Pending || len(op.Attempts) != 1 || op.Approval.Used.IsZero() {
		t.Errorf("after the permit: got %s with %d attempts, want PENDING with one and the yes used", op.Status, len(op.Attempts))
	}
	if got := refusalOf(op, permits(time.Minute, hash)); got != RefusedStatus {
		t.Errorf("a second permit on one yes: got %q, want it refused", got)
	}
}

// TestBoundDiffers: no two things that differ have one digest by the way they are written.
func TestBoundDiffers(t *testing.T) {
	t.Parallel()
	a, b := prepared(keyedContract()), prepared(keyedContract())
	b.ID = a.ID
	a.Tool, a.Tenant = "x", "y,z"
	b.Tool, b.Tenant = "x,y", "z"
	if a.bound() == b.bound() || a.bound() == "" {
		t.Errorf("got the digests %q and %q, want two", a.bound(), b.bound())
	}
}
