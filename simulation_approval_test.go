package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// yes is somebody's word as the simulation itself knows it.
type yes struct {
	who string
	at  time.Time // of the store, when it began to be given
}

// approvers look at what waits for a yes. Several decide about one operation at the same
// time, for and against it, and some after it has changed or its time is over.
func (s *sim) approvers(p *process, d draw) {
	ops, err := s.store.Find(context.Background(), pawl.Query{AllTenants: true, Review: true, Status: pawl.Prepared})
	if err != nil || p.dead.Load() {
		return
	}
	for i, op := range ops {
		if d.chance(0.2) {
			continue
		}
		for n := range 1 + d.IntN(3) {
			own := s.dice.at("approver", op.ID.String(), fmt.Sprint(op.Version, i, n), s.clock(time.Now()))
			s.wg.Go(func() { s.approver(p, own, op) })
		}
	}
}

// approver is one of them.
func (s *sim) approver(p *process, d draw, op *pawl.Operation) {
	decision := pawl.Decision{
		Choice: pick(d, pawl.ChoiceApprove, pawl.ChoiceApprove, pawl.ChoiceApprove, pawl.ChoiceApprove, pawl.ChoiceReject, pawl.ChoiceWithdraw),
		Who:    pick(d, "cy", "di", "ed", op.Actor), Why: "looked", Version: op.Version,
	}
	long := pick(d, 10*time.Millisecond, second, 20*second)
	time.Sleep(d.between(0, long))
	if p.dead.Load() {
		return
	}
	word := yes{decision.Who, s.storeNow()}
	if decision.Choice == pawl.ChoiceApprove { // it counts from when it may have been taken
		s.mu.Lock()
		s.said[op.ID] = append(s.said[op.ID], word)
		s.mu.Unlock()
	}
	_, err := p.ex.Decide(context.Background(), op.Tenant, op.ID, decision)
	var refused *pawl.Refusal
	switch {
	case errors.As(err, &refused):
		s.saw("approver refused: " + string(refused.Why))
	case err != nil:
		s.saw("approver met a store that fails")
	default:
		s.saw("approver decided: " + string(decision.Choice))
	}
}

// callOff calls a run off. Once that is told, nothing begins in it any more.
func (s *sim) callOff(p *process, tenant, run string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*second)
	defer cancel()
	if _, err := p.ex.Abort(ctx, tenant, run, pawl.Abort{Who: "ed", Why: "it is off"}); err == nil {
		s.saw("run called off")
		s.mu.Lock()
		s.off[tenant+"|"+run] = true
		s.mu.Unlock()
		s.log("%s: run %s of %q is called off", p.name, run, tenant)
	}
}

// judgeYes holds a permit to what was said: as many people as it takes, each in time, and
// the first permit while their word was good. The caller holds the lock.
func (s *sim) judgeYes(rec *record, c *change) {
	terms := rec.op.Contract.Confirm
	if terms == nil {
		return
	}
	persons := map[string]bool{}
	for _, y := range s.said[rec.op.ID] {
		if !y.at.After(rec.op.Created.Add(terms.Expires)) && (!terms.TwoPersons || y.who != rec.op.Actor) {
			persons[y.who] = true
		}
	}
	need := 1
	if terms.TwoPersons {
		need = 2
	}
	if len(persons) < need {
		s.fail("%s has a permit with the yes of %d, want %d", rec.intention, len(persons), need)
	}
	var e pawl.Entry
	if err := json.Unmarshal(c.entry, &e); err != nil {
		s.fail("%s: %v", rec.intention, err)
		return
	}
	if a := c.state.Approval; e.Event == string(pawl.EventPermit) && (a == nil || e.At.After(a.Until) || a.Until.After(a.Yes[len(a.Yes)-1].At.Add(terms.Valid))) {
		s.fail("%s has its first permit at %s by a yes that was over: %+v", rec.intention, s.clock(e.At), a)
	}
}
