package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// judge holds the schedule as a whole to the promises, after everything has come to an end.
func (s *sim) judge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != 0 {
		s.fail("%d requests are still under way", s.pending)
	}
	s.judgeLedgers()
	for _, t := range s.told {
		if t.env.Status == pawl.FailedNoEffect || t.env.Status == pawl.Prepared {
			s.judgeTold(t)
		}
	}
	for _, rec := range s.begins {
		op, err := s.store.Get(context.Background(), rec.op.Tenant, rec.op.ID)
		if err != nil {
			s.fail("%s: %v", rec.intention, err)
			continue
		}
		s.judgeEnd(rec, op)
		s.judgeHistory(rec, op)
	}
}

// judgeLedgers counts effects across steps where the host has to ask for a repeat.
func (s *sim) judgeLedgers() {
	for _, r := range s.remotes {
		if r.contract.Repeat != pawl.RepeatExplicit {
			continue
		}
		done := map[string]bool{}
		for _, e := range r.ledger {
			group := r.guarded(e.by.place)
			if group == "" || e.redoes {
				continue
			}
			if done[group] && !s.ops[e.by.op.ID].again {
				s.fail("%s is a repeat that nobody asked for", e.by)
			}
			done[group] = true
		}
	}
}

// judgeTold looks for an effect that a caller was told would never be: one by a permit
// that was given before.
func (s *sim) judgeTold(t telling) {
	switch t.env.Reason {
	case pawl.ReasonParameterMismatch: // is about the details, and says what became of the rest
		return
	}
	for _, r := range s.remotes {
		for _, e := range r.ledger {
			if e.by.intention != t.intention || e.redoes {
				continue
			}
			permit := s.ops[e.by.op.ID].permits[e.by.n-1]
			given := t.at
			if !permit.hidden { // it may have been given while a slow store kept this answer
				given = t.known
			}
			if permit.at.Before(given) {
				s.fail("%s was told %s (%s %s, call %s) at %s, but its effect %s has a permit of %s", t.intention, t.env.Status, t.env.Reason, t.env.ActionTaken, t.p.name, s.clock(t.at), e.ref, s.clock(permit.at))
			}
		}
	}
}

// judgeEnd checks that an operation ended settled or in review, and truly.
func (s *sim) judgeEnd(rec *record, op *pawl.Operation) {
	effects := len(rec.remote.effects(op.Key.String(), time.Now()))
	wants := op.Status == pawl.Succeeded && op.Reason == pawl.ReasonResultLost
	switch {
	case op.Status.Open() && op.Review.IsZero():
		s.fail("%s ends %s (%s): not settled and not in review; lease %v due %v", rec.intention, op.Status, op.Reason, op.Lease, op.Due)
	case op.Status == pawl.Pending:
		s.fail("%s ends PENDING", rec.intention)
	case op.Status == pawl.Succeeded && effects == 0, op.Status == pawl.FailedNoEffect && effects > 0:
		s.fail("%s ends %s (%s) with %d effects", rec.intention, op.Status, op.Reason, effects)
	case op.Status.Settled() && !wants && (!op.Due.IsZero() || !op.Lease.IsZero()):
		s.fail("%s ends %s and is claimed for ever", rec.intention, op.Status)
	}
	end := string(op.Status)
	if !op.Review.IsZero() {
		end += " in review"
	} else if op.Status.Settled() {
		end += " by " + string(op.SettledBy) + " " + string(op.Reason)
	}
	s.saw("ends " + end)
}

// judgeHistory verifies the chain, and plays the history again through the rules: from
// each recorded state the recorded event must lead to the next.
func (s *sim) judgeHistory(rec *record, op *pawl.Operation) {
	entries, err := s.store.History(context.Background(), op.Tenant, op.ID)
	if err != nil {
		s.fail("%s: history: %v", rec.intention, err)
		return
	}
	if len(entries) != len(rec.states) || int64(len(entries)) != op.Version {
		s.fail("%s: %d entries and %d changes for version %d", rec.intention, len(entries), len(rec.states), op.Version)
		return
	}
	for i, e := range entries {
		s.saw("event " + e.Event)
		c := &rec.states[i]
		if i == 0 {
			continue
		}
		before := rec.states[i-1].state
		if e.From != before.Status || e.To != c.state.Status || e.Reason != c.state.Reason {
			s.fail("%s: entry %d says %s to %s (%s), the states are %s and %s (%s)", rec.intention, e.Seq, e.From, e.To, e.Reason, before.Status, c.state.Status, c.state.Reason)
		}
		if err := replays(c, &e); err != nil {
			s.fail("%s: entry %d (%s): %v", rec.intention, e.Seq, e.Event, err)
		}
	}
	last, now := rec.last(), op.State
	same := *last
	same.Lease, same.Due, same.Token = now.Lease, now.Due, now.Token // claims change these without an entry
	if !sameState(&same, &now) {
		s.fail("%s: the stored state is not the last one of its history", rec.intention)
	}
}

// replays leads the recorded event through Step.
func replays(c *change, e *pawl.Entry) error {
	ev := &pawl.Event{
		Kind: pawl.EventKind(e.Event), At: e.At, Asked: e.At, By: e.By, Token: c.before.Token, Lease: c.state.Lease, Attempt: e.Attempt,
		Evidence: e.Evidence, Probe: e.Probe, Fence: e.Fence, Decision: e.Decision, Reason: e.Reason,
	}
	if ev.Kind == pawl.EventPermit || ev.Kind == pawl.EventLapse {
		ev.Contract = c.before.ContractHash
	}
	if ev.Kind == pawl.EventProbe {
		ev.Asked = c.state.Probes.Last
	}
	if ev.Evidence != nil && c.state.Result != nil {
		ev.Evidence.Result = c.state.Result
	}
	if ev.Kind == pawl.EventSnapshot {
		ev.Before = c.state.Before
	}
	if ev.Kind == pawl.EventReview {
		ev.Reason = c.state.ReviewReason
	}
	if c.state.Token != c.before.Token {
		ev.NewToken = c.state.Token
	}
	before := *c.before
	if ev.Kind == pawl.EventTakeover {
		before.Lease = time.Time{} // it may have been renewed since the worker read it
	}
	var last error
	for _, token := range []int64{c.before.Token, 0} { // the claim was the current one, or over
		ev.Token = token
		tr, err := pawl.Step(&before, ev)
		if err != nil {
			last = err
			continue
		}
		got, want := tr.State, c.state
		got.Chain, want.Chain, got.Lease, got.Due = nil, nil, want.Lease, want.Due
		if sameState(&got, &want) {
			return nil
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		last = fmt.Errorf("replayed to\n\t%s, recorded is\n\t%s", a, b)
	}
	return last
}

func sameState(a, b *pawl.State) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}
