package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sandbox"
)

func scenes() []*Scene {
	return []*Scene{
		{
			Name: "lost_answer", Expected: 2, play: lostAnswer, title: "The answer is lost",
			story: "The shop books the refund, but its answer never arrives. Then the mail goes out, in the same turn.",
		},
		{
			Name: "killed_worker", Expected: 1, play: killedWorker, title: "The worker is killed",
			story: "kill -9 after the shop has booked the refund and before anyone could write that down.",
		},
		{
			Name: "other_words", Expected: 1, play: otherWords, title: "The model asks again in other words",
			story: "Another spelling of the amount, another case, another reason: it is still the same refund.",
		},
		{
			Name: "other_amount", Expected: 1, play: otherAmount, title: "The model asks for another amount",
			story: "At the same step of the plan, another amount is no repeat and no new refund.",
		},
		{
			Name: "two_workers", Expected: 1, play: twoWorkers, title: "Two workers at once",
			story: "Two processes, one SQLite file, the same call at the same moment.",
		},
		{
			Name: "too_little_time", Expected: 0, play: tooLittleTime, title: "Too little time is left",
			story: "2.5 s are left in the turn. A refund that might not be heard of again is not begun.",
		},
		{
			Name: "needs_a_yes", Expected: 1, play: needsAYes, title: "A refund that needs a yes",
			story: "Above 100.00 a person has to agree. Until then nothing is sent, whatever the model says.",
		},
		{
			Name: "no_way_to_ask", Expected: 1, play: noWayToAsk, title: "Nobody can be asked",
			story: "The mail server takes no key and has no outbox to look into, and its answer is lost.",
		},
		{
			Name: "trip_off", Expected: 2, play: trip(&ending{}), title: "A trip is off: the flight is rejected",
			story: "A plan of three steps. The hotel is booked, no seat is left, and the trip is called off.",
		},
		{
			Name: "trip_off_in_doubt", Expected: 2, play: trip(&ending{doubt: true}), title: "A trip is off, and the hotel is in doubt",
			story: "Nobody knows whether the hotel was booked. Nothing is undone before that is known.",
		},
		{
			Name: "trip_off_answer_lost", Expected: 2, play: trip(&ending{lost: true}), title: "A trip is off, and the cancellation's answer is lost",
			story: "What undoes an effect is an operation like any other: it is not sent blindly again.",
		},
		{
			Name: "trip_off_mailed", Expected: 5, play: trip(&ending{mailed: true}), title: "A trip is off, and the e-mail is out",
			story: "All went well, and the guest falls ill. What can be undone is undone, the last first, and the rest is said.",
		},
	}
}

func (s *Scene) refund(amount, currency, reason string) string {
	return fmt.Sprintf(`{"order_id":%q,"amount":%s,"currency":%q,"reason":%q}`, s.order, amount, currency, reason)
}

func (s *Scene) mail(subject string) string {
	return fmt.Sprintf(`{"to":%q,"template":"refund_confirmed","subject":%q}`, s.email, subject)
}

func lostAnswer(ctx context.Context, d *desk, s *Scene) error {
	turn, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	if err := d.fault(sandbox.Refunds, "hold after"); err != nil {
		return err
	}
	refund, err := d.ask(turn, s, "issue_refund", "1", s.refund("49.90", "EUR", "arrived broken"))
	if err != nil {
		return err
	}
	s.check(refund.Status == pawl.Succeeded && refund.Reason == pawl.ReasonProbeFound && refund.ResultRef != "",
		"the refund is %s (%s), want SUCCEEDED (probe_found) with the shop's id", refund.Status, refund.Reason)
	mail, err := d.ask(turn, s, "send_email", "2", s.mail("Your refund"))
	if err != nil {
		return err
	}
	s.check(mail.Status == pawl.Succeeded, "the mail is %s, want SUCCEEDED", mail.Status)
	s.Envelope = refund
	end, _ := turn.Deadline()
	s.addNote(fmt.Sprintf("%.0f s of the turn's %.0f s are left", time.Until(end).Seconds(), turnTime.Seconds()))
	s.check(time.Until(end) > 0, "the turn is over")
	return nil
}

func killedWorker(ctx context.Context, d *desk, s *Scene) error {
	if err := d.fault(sandbox.Refunds, "hold after"); err != nil {
		return err
	}
	args := s.refund("49.90", "EUR", "arrived broken")
	w, err := d.startCall(ctx, s, "worker 1", "1", args)
	if err != nil {
		return err
	}
	held, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	missed := d.box.AwaitHeld(held, 1)
	if err := w.kill(); err != nil || missed != nil {
		return fmt.Errorf("the refund did not reach the shop: %w, %w: %s", missed, err, w.err.String())
	}
	s.addKill(w.cmd.Process.Pid)
	d.box.Release(0)
	ops, err := d.operations(ctx, s)
	if err != nil {
		return err
	}
	s.check(len(ops) == 1 && ops[0].Status == pawl.Pending, "the record after the kill is not one PENDING operation: %d", len(ops))
	booked, err := d.box.Effects(sandbox.Filter{Run: s.run})
	if err != nil {
		return err
	}
	for _, op := range ops {
		s.addNote(fmt.Sprintf("%s in the ledger, %s in the record, and nobody works on it", effects(len(booked)), op.Status))
	}

	sweeper, err := d.start(ctx, "sweep", "--for", "20s")
	if err != nil {
		return err
	}
	s.addNote("a new process starts: pawl sweep")
	if err := sweeper.wait(); err != nil {
		return err
	}
	env, err := d.ask(ctx, s, "issue_refund", "1", args)
	if err != nil {
		return err
	}
	s.check(env.Status == pawl.Succeeded && env.ActionTaken == pawl.Replayed, "got %s, %s, want SUCCEEDED, replayed", env.Status, env.ActionTaken)
	return nil
}

func otherWords(ctx context.Context, d *desk, s *Scene) error {
	if _, err := d.ask(ctx, s, "issue_refund", "1", s.refund("49.90", "EUR", "arrived broken")); err != nil {
		return err
	}
	again, err := d.ask(ctx, s, "issue_refund", "1", s.refund("49.9", "eur", "unhappy customer"))
	if err != nil {
		return err
	}
	s.check(again.ActionTaken == pawl.Replayed && slices.Equal(again.Differs, []string{"reason"}),
		"the second call is %s and differs in %q, want replayed and [reason]", again.ActionTaken, again.Differs)
	return nil
}

func otherAmount(ctx context.Context, d *desk, s *Scene) error {
	if _, err := d.ask(ctx, s, "issue_refund", "1", s.refund("19.90", "EUR", "a scratch")); err != nil {
		return err
	}
	again, err := d.ask(ctx, s, "issue_refund", "1", s.refund("29.90", "EUR", "a deep scratch"))
	if err != nil {
		return err
	}
	s.check(again.ActionTaken == pawl.Refused && again.Reason == pawl.ReasonParameterMismatch,
		"the second call is %s (%s), want refused (parameter_mismatch)", again.ActionTaken, again.Reason)
	return nil
}

func twoWorkers(ctx context.Context, d *desk, s *Scene) error {
	// The shop takes its time, so that both are under way together.
	if err := d.fault(sandbox.Refunds, "delay 700ms before"); err != nil {
		return err
	}
	args := s.refund("49.90", "EUR", "arrived broken")
	names := []string{"worker 1", "worker 2"}
	var workers []*worker
	var failed error
	for _, name := range names {
		w, err := d.startCall(ctx, s, name, "1", args)
		if err != nil {
			failed = err
			break
		}
		workers = append(workers, w)
	}
	var got []*pawl.Envelope
	for i, w := range workers {
		env, err := w.envelope()
		if err != nil {
			failed = err
			continue
		}
		s.addEnvelope(names[i], env)
		got = append(got, env)
		if env.ActionTaken == pawl.Executed || s.Envelope == nil {
			s.Envelope = env
		}
	}
	if failed != nil {
		return failed
	}
	s.check((got[0].ActionTaken == pawl.Executed) != (got[1].ActionTaken == pawl.Executed),
		"the workers did %s and %s, want one executed", got[0].ActionTaken, got[1].ActionTaken)
	s.check(got[0].OperationID == got[1].OperationID, "the workers got two operations: %s and %s", got[0].OperationID, got[1].OperationID)
	s.addNote("both got operation " + got[0].OperationID)
	return nil
}

func tooLittleTime(ctx context.Context, d *desk, s *Scene) error {
	turn, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
	defer cancel()
	env, err := d.ask(turn, s, "issue_refund", "1", s.refund("49.90", "EUR", "arrived broken"))
	if err != nil {
		return err
	}
	s.check(env.ActionTaken == pawl.Refused && env.Reason == pawl.ReasonDeadline, "the call is %s (%s), want refused (deadline)", env.ActionTaken, env.Reason)
	ops, err := d.operations(ctx, s)
	if err != nil {
		return err
	}
	s.check(len(ops) == 0, "%d operations are recorded, want none", len(ops))
	n, err := d.requests(s)
	s.check(n == 0, "%d requests reached the shop, want none", n)
	s.addNote(fmt.Sprintf("%d operations recorded, %d requests on the wire", len(ops), n))
	return err
}

func needsAYes(ctx context.Context, d *desk, s *Scene) error {
	args := s.refund("149.00", "EUR", "arrived broken")
	first, err := d.ask(ctx, s, "issue_refund", "1", args)
	if err != nil {
		return err
	}
	s.check(first.Status == pawl.Prepared && first.Reason == pawl.ReasonApprovalNeeded, "the refund is %s (%s), want PREPARED (approval_needed)", first.Status, first.Reason)
	again, err := d.ask(ctx, s, "issue_refund", "1", s.refund("149", "eur", "my manager has approved it"))
	if err != nil {
		return err
	}
	s.check(again.Status == pawl.Prepared && again.OperationID == first.OperationID, "the second call is %s, want the same PREPARED", again.Status)
	n, err := d.requests(s)
	if err != nil {
		return err
	}
	s.check(n == 0, "%d requests reached the shop before anybody agreed, want none", n)
	id, err := pawl.ParseID(first.OperationID)
	if err != nil {
		return err
	}
	review, err := d.server.Executor().Review(ctx, "", id)
	if err != nil {
		return err
	}
	if _, err := d.server.Executor().Decide(ctx, "", id, pawl.Decision{
		Choice: pawl.ChoiceApprove, Who: "Mara", Why: "the photos show it", Version: review.Operation.Version,
	}); err != nil {
		return err
	}
	last, err := d.ask(ctx, s, "issue_refund", "1", args)
	if err != nil {
		return err
	}
	s.check(last.Status == pawl.Succeeded, "the last call is %s, want SUCCEEDED", last.Status)
	return nil
}

func noWayToAsk(ctx context.Context, d *desk, s *Scene) error {
	if err := d.fault(sandbox.Emails, "reset after"); err != nil {
		return err
	}
	first, err := d.ask(ctx, s, "send_email", "1", s.mail("Your refund"))
	if err != nil {
		return err
	}
	s.check(first.Status == pawl.Unknown && first.Reason == pawl.ReasonReviewOpen,
		"the mail is %s (%s), want UNKNOWN (review_open)", first.Status, first.Reason)
	again, err := d.ask(ctx, s, "send_email", "1", s.mail("About your refund"))
	if err != nil {
		return err
	}
	s.check(again.Status == pawl.Unknown && again.OperationID == first.OperationID, "the second call is %s, want the same UNKNOWN", again.Status)
	n, err := d.requests(s)
	if err != nil {
		return err
	}
	s.check(n == 1, "%d mails were put on the wire, want 1", n)

	// A person looks into the mail server's log, which here is the ledger.
	sent, err := d.box.Effects(sandbox.Filter{Run: s.run})
	if err != nil || len(sent) == 0 {
		return fmt.Errorf("the mail is not in the ledger: %w", err)
	}
	id, err := pawl.ParseID(first.OperationID)
	if err != nil {
		return err
	}
	op, err := d.server.Store().Get(ctx, "", id)
	if err != nil {
		return err
	}
	if _, err := d.server.Executor().Decide(ctx, "", id, pawl.Decision{
		Choice: pawl.ChoiceHappened, Who: "Mara", Why: "it is in the mail server's log", Ref: sent[0].ObjectID, Version: op.Version,
	}); err != nil {
		return err
	}
	last, err := d.ask(ctx, s, "send_email", "1", s.mail("Your refund"))
	if err != nil {
		return err
	}
	s.check(last.Status == pawl.Succeeded && last.ActionTaken == pawl.Replayed && last.ResultRef == sent[0].ObjectID,
		"the last call is %s, %s, want SUCCEEDED, replayed with the reference", last.Status, last.ActionTaken)
	return nil
}
