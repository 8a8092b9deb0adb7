package pawl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sqlite"
)

// Refund is what the model asks for.
type Refund struct {
	OrderID string      `json:"order_id"`
	Amount  json.Number `json:"amount"`
}

// openExample opens a store that is gone after the example.
func openExample() (pawl.Store, func()) {
	dir, err := os.MkdirTemp("", "pawl-example")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sqlite.Open(filepath.Join(dir, "pawl.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	return db, func() {
		db.Close()
		os.RemoveAll(dir)
	}
}

// Protect a Go function: however often the model asks, it runs once.
func Example() {
	db, closeDB := openExample()
	defer closeDB()
	ex := pawl.New(db, nil)
	defer ex.Stop(context.Background())

	err := ex.Register(pawl.NewFunc(pawl.Contract{
		Tool:     "issue_refund",
		Identity: []pawl.Field{pawl.Text("order_id"), pawl.Decimal("amount", 2)},
		Free:     []string{"reason"},
	}, func(_ context.Context, in Refund) (map[string]string, error) {
		fmt.Println("refunding", in.OrderID)
		return map[string]string{"id": "re_17"}, nil
	}, nil))
	if err != nil {
		log.Fatal(err)
	}

	for _, args := range []string{
		`{"order_id": "A-1182", "amount": 49.90, "reason": "arrived broken"}`,
		`{"order_id": "A-1182", "amount": "49.9", "reason": "the customer asked again"}`,
	} {
		env, err := ex.Do(context.Background(), pawl.Call{Tool: "issue_refund", Run: "run-7", Step: "3", Args: []byte(args)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(env.Status, env.ActionTaken, string(env.Result), env.Differs)
	}
	// Output:
	// refunding A-1182
	// SUCCEEDED executed {"id":"re_17"} []
	// SUCCEEDED replayed {"id":"re_17"} [reason]
}
