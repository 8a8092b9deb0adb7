package pawl

import (
	"context"
	"encoding/json"
	"testing"
)

// delegated is a port whose requests callers send; header makes the headers.
type delegated struct {
	Port
	header func() map[string]string
}

func (d delegated) Header(*Sending) map[string]string { return d.header() }

func (delegated) Classify(*Sending, *Answer) Evidence { return Evidence{} }

func handing(header func() map[string]string, hand chan *Permit) *flight {
	return &flight{e: New(nil, nil), id: NewID(t0), tool: &Tool{Port: delegated{header: header}}, hand: hand}
}

// TestReportAtTheLastMoment: a report that was taken counts, also where the wait for it ends at
// the same moment.
func TestReportAtTheLastMoment(t *testing.T) {
	t.Parallel()
	over, end := context.WithCancel(context.Background())
	end()
	for range 64 { // each takes one of two ways by chance
		var f *flight
		f = handing(func() map[string]string {
			if w, taken := f.e.reportedFor(attemptID{f.id, 1}, 7); taken {
				w.reports <- Evidence{Class: ClassSucceeded, Result: json.RawMessage(`{}`)}
			}
			return nil
		}, make(chan *Permit, 1))
		if ev := f.byCaller(over, &Sending{Operation: &Operation{}}, &Permit{Attempt: 1, Token: 7}); ev.Class != ClassSucceeded {
			t.Fatalf("got %s (%s), want the report that was taken", ev.Class, ev.Proof)
		}
	}
}

// TestHeadersThatCannotBeMade: the permit is not given out, and nothing can have been sent.
func TestHeadersThatCannotBeMade(t *testing.T) {
	t.Parallel()
	hand := make(chan *Permit, 1)
	f := handing(func() map[string]string { panic("broken") }, hand)
	ev := f.byCaller(context.Background(), &Sending{Operation: &Operation{}}, &Permit{Attempt: 1, Token: 7})
	if ev.Class != ClassNotSent || len(hand) > 0 || len(f.e.handed) > 0 {
		t.Errorf("got %+v and %d permits, want it not sent and none given out", ev, len(hand))
	}
}
