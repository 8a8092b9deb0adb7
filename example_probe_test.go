package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl"
)

// With a key and a probe, a lost answer is settled inside the same call: pawl asks the
// provider what really happened.
func ExampleFuncOptions() {
	db, closeDB := openExample()
	defer closeDB()
	ex := pawl.New(db, nil)
	defer ex.Stop(context.Background())

	refunds := map[string]string{} // the provider's books, by key
	contract := pawl.Contract{
		Tool: "issue_refund", Class: pawl.Keyed, Retention: 24 * time.Hour,
		Identity: []pawl.Field{pawl.Text("order_id")},
		Probe:    &pawl.ProbeTerms{},
	}
	refund := func(ctx context.Context, _ Refund) (string, error) {
		refunds[pawl.KeyFrom(ctx).String()] = "re_17"
		return "", errors.New("read: connection reset by peer")
	}
	probe := func(_ context.Context, op *pawl.Operation) pawl.ProbeResult {
		id, ok := refunds[op.Key.String()]
		if !ok {
			return pawl.ProbeResult{Outcome: pawl.Absent}
		}
		result, _ := json.Marshal(map[string]string{"id": id})
		return pawl.ProbeResult{Outcome: pawl.Found, Match: pawl.MatchKey, Count: 1, Refs: []string{id}, Result: result}
	}
	if err := ex.Register(pawl.NewFunc(contract, refund, &pawl.FuncOptions{Probe: probe})); err != nil {
		log.Fatal(err)
	}
	env, err := ex.Do(context.Background(), pawl.Call{Tool: "issue_refund", Run: "run-7", Step: "3", Args: []byte(`{"order_id":"A-1182"}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(env.Status, env.Reason, env.ResultRef, "refunds:", len(refunds))
	// Output: SUCCEEDED probe_found re_17 refunds: 1
}

// An observer sees every change after it is durable.
func ExampleObserver() {
	db, closeDB := openExample()
	defer closeDB()
	ex := pawl.New(db, &pawl.Options{
		Log: slog.New(slog.DiscardHandler),
		Observers: []*pawl.Observer{{
			Changed: func(_ context.Context, op *pawl.Operation, e *pawl.Entry) { fmt.Println(e.Seq, e.Event, e.To) },
			Refused: func(_ context.Context, call *pawl.Call, env *pawl.Envelope) { fmt.Println("refused:", env.Reason) },
		}},
	})
	defer ex.Stop(context.Background())
	err := ex.Register(pawl.NewFunc(pawl.Contract{Tool: "cancel_order", Identity: []pawl.Field{pawl.Text("order_id")}},
		func(context.Context, Refund) (bool, error) { return true, nil }, nil))
	if err != nil {
		log.Fatal(err)
	}
	for _, args := range []string{`{"order_id":"A-1"}`, `{"order_id":""}`} {
		if _, err := ex.Do(context.Background(), pawl.Call{Tool: "cancel_order", Run: "run-7", Step: "1", Args: []byte(args)}); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1 begin PENDING
	// 2 answer SUCCEEDED
	// refused: identity_missing
}
