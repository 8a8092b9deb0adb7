package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pawl-dev/pawl"
)

// An error of a function proves nothing: the outcome is UNKNOWN, and a repeat sends
// nothing. A person who has looked settles it.
func ExampleExecutor_Decide() {
	db, closeDB := openExample()
	defer closeDB()
	ex := pawl.New(db, nil)
	defer ex.Stop(context.Background())

	mail := pawl.Contract{Tool: "send_email", Identity: []pawl.Field{pawl.Text("to"), pawl.Text("template")}, Effect: "e-mail {template} to {to}"}
	type email struct{ To, Template string }
	err := ex.Register(pawl.NewFunc(mail, func(context.Context, email) (string, error) {
		return "", errors.New("connection reset by peer") // sent, or not?
	}, nil))
	if err != nil {
		log.Fatal(err)
	}

	call := pawl.Call{Tool: "send_email", Run: "run-7", Step: "4", Args: []byte(`{"to":"ana@example.com","template":"refund_confirmed"}`)}
	env, err := ex.Do(context.Background(), call)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(env.Status, env.NextAction, "-", env.Effect)

	id, err := pawl.ParseID(env.OperationID)
	if err != nil {
		log.Fatal(err)
	}
	op, err := db.Get(context.Background(), "", id)
	if err != nil {
		log.Fatal(err)
	}
	env, err = ex.Decide(context.Background(), "", id, pawl.Decision{
		Choice: pawl.ChoiceHappened, Who: "ana", Why: "found in the mail provider's log", Ref: "msg_88", Version: op.Version,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(env.Status, env.ResultRef)
	// Output:
	// UNKNOWN ask_user - e-mail refund_confirmed to ana@example.com: may or may not have been done
	// SUCCEEDED msg_88
}

// A function that knows that nothing was sent says so, and the call is tried again under
// the same key.
func ExampleNotSent() {
	db, closeDB := openExample()
	defer closeDB()
	ex := pawl.New(db, nil)
	defer ex.Stop(context.Background())

	tries := 0
	err := ex.Register(pawl.NewFunc(pawl.Contract{Tool: "create_ticket", Identity: []pawl.Field{pawl.Text("ext_ref")}},
		func(ctx context.Context, in struct {
			ExtRef string `json:"ext_ref"`
		}) (string, error) {
			tries++
			fmt.Println("try", tries, "with key", pawl.KeyFrom(ctx))
			if tries == 1 {
				return "", pawl.NotSent(errors.New("no connection"))
			}
			return "T-1", nil
		}, nil))
	if err != nil {
		log.Fatal(err)
	}
	env, err := ex.Do(context.Background(), pawl.Call{Tool: "create_ticket", Run: "run-7", Step: "1", Args: []byte(`{"ext_ref":"R-9"}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(env.Status, string(env.Result))
	// Output:
	// try 1 with key 8232b83bf780fb525471e735a0f84551
	// try 2 with key 8232b83bf780fb525471e735a0f84551
	// SUCCEEDED "T-1"
}
