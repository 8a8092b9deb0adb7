package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// ledger is a provider that counts what reaches it, by key.
type ledger struct {
	mu   sync.Mutex
	sent map[string]int
}

func (l *ledger) Prepare(inv *pawl.Invocation) (pawl.Outbound, error) {
	return pawl.Outbound{Request: inv.Canonical}, nil
}

func (l *ledger) Send(_ context.Context, s *pawl.Sending) pawl.Evidence {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[s.Operation.ID.String()]++
	return pawl.Evidence{Class: pawl.ClassSucceeded, Result: []byte(`{}`)}
}

func (l *ledger) effects(id pawl.ID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent[id.String()]
}

// testDecisions has two people decide at once, on two workers that sweep, and others ask for
// the same call meanwhile: one decision, and an effect only after a yes. In some rounds the
// run is called off at the same time, in others the time for a yes ends.
func testDecisions(t *testing.T, s suite) {
	s.test(t, "two people at once", func(t *testing.T, store pawl.Store) {
		rounds := 100
		if testing.Short() {
			rounds = 10
		}
		book := &ledger{sent: map[string]int{}}
		contracts := []pawl.Contract{
			{Tool: "refund", Identity: []pawl.Field{pawl.Text("id")}, Confirm: &pawl.ConfirmTerms{Always: true}},
			{Tool: "hasty", Identity: []pawl.Field{pawl.Text("id")}, Confirm: &pawl.ConfirmTerms{Always: true, Expires: time.Millisecond}},
		}
		var workers []*pawl.Executor
		for i := range 2 {
			ex := pawl.New(store, &pawl.Options{
				Worker: fmt.Sprint("w", i), Turn: 20 * time.Second, SweepEvery: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
			})
			for _, c := range contracts {
				if err := ex.Register(&pawl.Tool{Contract: c, Port: book}); err != nil {
					t.Fatal(err)
				}
			}
			ex.Start()
			defer ex.Stop(context.Background())
			workers = append(workers, ex)
		}
		ends := map[pawl.Choice]int{}
		for round := range rounds {
			ends[decideAtOnce(t, store, workers, book, round)]++
		}
		if ends[pawl.ChoiceApprove] == 0 || ends[pawl.ChoiceReject]+ends[pawl.ChoiceWithdraw] == 0 || ends[""] == 0 && !testing.Short() {
			t.Errorf("%v: the race was never run, want rounds with a yes, with a no, and with neither", ends)
		}
	})
}

// decideAtOnce plays one round and returns the decision that was taken; none where the run
// was called off, or the time was over, before anybody had decided.
func decideAtOnce(t *testing.T, store pawl.Store, workers []*pawl.Executor, book *ledger, round int) (taken pawl.Choice) {
	t.Helper()
	ctx := context.Background()
	calledOff, tooLate := round%5 == 1, round%5 == 3
	tool := "refund"
	if tooLate {
		tool = "hasty"
	}
	call := pawl.Call{Tool: tool, Run: fmt.Sprint("r", round), Step: "1", Args: fmt.Appendf(nil, `{"id":"%d"}`, round)}
	env, err := workers[0].Do(ctx, call)
	if err != nil || env.Status != pawl.Prepared && !tooLate {
		t.Fatalf("round %d: got %s, %v; want PREPARED", round, env.Status, err)
	}
	id, err := pawl.ParseID(env.OperationID)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	made := map[string]pawl.Choice{}
	for i, c := range []struct {
		name   string
		choice pawl.Choice
	}{
		{"ana", pawl.ChoiceApprove}, {"ana", pawl.ChoiceApprove}, {"bo", pawl.ChoiceReject}, {"bo", pawl.ChoiceReject}, {"host", pawl.ChoiceWithdraw},
	} {
		wg.Go(func() {
			time.Sleep(time.Duration((round*5+i*3)%7) * 300 * time.Microsecond)
			_, err := workers[i%2].Decide(ctx, "", id, pawl.Decision{ID: c.name, Choice: c.choice, Who: c.name, Why: "looked", Version: 1})
			var refused *pawl.Refusal
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made[c.name] = c.choice
			case !errors.As(err, &refused):
				t.Errorf("round %d: %s: %v", round, c.name, err)
			}
		})
	}
	wg.Go(func() {
		if _, err := workers[1].Do(ctx, call); err != nil {
			t.Errorf("round %d: repeat: %v", round, err)
		}
	})
	if calledOff {
		wg.Go(func() {
			time.Sleep(time.Duration(round*3%7) * 300 * time.Microsecond)
			if _, err := workers[0].Abort(ctx, "", call.Run, pawl.Abort{Who: "bo", Why: "the trip is off"}); err != nil {
				t.Errorf("round %d: abort: %v", round, err)
			}
		})
	}
	wg.Wait()
	if len(made) > 1 || len(made) == 0 && !calledOff && !tooLate {
		t.Errorf("round %d: got decisions %v, want one", round, made)
	}
	for _, c := range made {
		taken = c
	}
	op, err := settledBy(ctx, store, id)
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	want, effects := pawl.FailedNoEffect, 0
	if taken == pawl.ChoiceApprove && (!calledOff || op.Status == pawl.Succeeded) { // a run may be called off between the yes and its use
		want, effects = pawl.Succeeded, 1
	}
	if op.Status != want || book.effects(id) != effects {
		t.Errorf("round %d, %s: got %s and %d effects, want %s and %d", round, taken, op.Status, book.effects(id), want, effects)
	}
	return taken
}

// settledBy waits until an operation is settled.
func settledBy(ctx context.Context, store pawl.Store, id pawl.ID) (*pawl.Operation, error) {
	for end := time.Now().Add(20 * time.Second); ; {
		op, err := store.Get(ctx, "", id)
		if err != nil || op.Status.Settled() {
			return op, err
		}
		if time.Now().After(end) {
			return op, fmt.Errorf("still %s", op.Status)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
