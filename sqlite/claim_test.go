package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestClaimGoesOn has more lanes in front than one Claim looks at.
func TestClaimGoesOn(t *testing.T) {
	t.Parallel()
	db := openTest(t, newPath(t), small())
	past := time.Now().Add(-time.Hour)
	var ops []*pawl.Operation
	var firsts [][]byte
	for i := range maxLanes + 100 {
		op, first := storetest.Op(storetest.Seed{Tenant: fmt.Sprint(i), Tool: "mail", Identity: "A", At: past})
		ops, firsts = append(ops, op), append(firsts, first)
	}
	fill(t, db, ops, firsts)
	op, first := storetest.Op(storetest.Seed{Tenant: "last", Tool: "refund", Identity: "A", At: past})
	fill(t, db, []*pawl.Operation{op}, [][]byte{first})
	for range 2 {
		got, err := db.Claim(t.Context(), pawl.Claim{Tools: []string{"refund"}, Limit: 10, Token: 2, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 1 && got[0].ID == op.ID {
			return
		}
	}
	t.Error("two claims did not come round to the last lane")
}
