package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestRowRefused changes one stored value behind the store's back.
func TestRowRefused(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		`UPDATE intents SET intent = replace(intent, '"actor"', '"actos"')`,
		`UPDATE intents SET run = 'run-9'`,
		`UPDATE intents SET key = zeroblob(16)`,
		`UPDATE intents SET key = zeroblob(3)`,
		`UPDATE intents SET gen = 7`,
		`UPDATE intents SET intent_sum = intent_sum + 1`,
		`UPDATE lanes SET tool = 'refund2' WHERE lane = (SELECT lane FROM intents)`,
		`UPDATE states SET status = 'SUCCEEDED'`,
		`UPDATE states SET version = 2`,
		`UPDATE states SET open = 0`,
		`UPDATE states SET held = 4`,
		`UPDATE intents SET state = replace(state, 'w1', 'w2')`,
		`UPDATE states SET ref = 'r'`,
		`UPDATE states SET review = 1`,
		`UPDATE states SET token = token + 1`,
		`UPDATE states SET lease = lease + 1`,
		`UPDATE states SET due = due - 1`,
		`UPDATE states SET step_claim = zeroblob(16)`,
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var told []pawl.ID
			o := small()
			o.OnCorrupt = func(id pawl.ID, err error) {
				mu.Lock()
				defer mu.Unlock()
				if !errors.Is(err, pawl.ErrCorrupt) {
					t.Errorf("told of %v, want %v", err, pawl.ErrCorrupt)
				}
				told = append(told, id)
			}
			db := openTest(t, newPath(t), o)
			op, first := storetest.Op(storetest.Seed{Tool: "refund", Run: "run-1", Identity: "A", At: time.Now().Add(-time.Hour)})
			if _, err := db.Begin(t.Context(), op, first); err != nil {
				t.Fatal(err)
			}
			tamper(t, db, change)

			if _, err := db.Get(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrCorrupt) {
				t.Errorf("get: got %v, want %v", err, pawl.ErrCorrupt)
			}
			if _, err := db.History(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrCorrupt) {
				t.Errorf("history: got %v, want %v", err, pawl.ErrCorrupt)
			}
			if err := db.Check(t.Context()); !errors.Is(err, pawl.ErrCorrupt) {
				t.Errorf("check: got %v, want %v", err, pawl.ErrCorrupt)
			}
			again, first := storetest.Op(storetest.Seed{Tool: "refund", Run: "run-1", Identity: "A"})
			if standing, err := db.Begin(t.Context(), again, first); standing != nil || err == nil {
				t.Errorf("begin: got %v, %v; want an error", standing, err)
			}
			found, err := db.Find(t.Context(), pawl.Query{})
			if err != nil || len(found) != 1 || found[0].ID != op.ID || found[0].Status != pawl.Unknown || found[0].Reason != pawl.ReasonRowRefused {
				t.Errorf("find: got %v, %v; want the row as UNKNOWN, row_refused", found, err)
			}
			if len(told) != 1 || told[0] != op.ID {
				t.Errorf("told of %v, want %v", told, op.ID)
			}
		})
	}
}

// TestClaimPassesRefused has a broken row in front of sound ones.
func TestClaimPassesRefused(t *testing.T) {
	t.Parallel()
	var told []pawl.ID
	o := small()
	o.OnCorrupt = func(id pawl.ID, err error) { told = append(told, id) }
	db := openTest(t, newPath(t), o)
	var ops []*pawl.Operation
	for i := range 3 {
		op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: fmt.Sprint(i), At: time.Now().Add(time.Duration(i)*time.Minute - time.Hour)})
		if _, err := db.Begin(t.Context(), op, first); err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	tamper(t, db, `UPDATE intents SET state = replace(state, 'w1', 'w2') WHERE op = (SELECT min(op) FROM intents)`)
	ask := pawl.Claim{Tools: []string{"refund"}, Limit: 10, Token: 5, Lease: time.Minute}
	claimed, err := db.Claim(t.Context(), ask)
	if err != nil || len(claimed) != 2 || claimed[0].ID != ops[1].ID || claimed[1].ID != ops[2].ID {
		t.Errorf("claim: got %v, %v; want the two sound operations", claimed, err)
	}
	if len(told) != 1 || told[0] != ops[0].ID {
		t.Errorf("told of %v, want %v", told, ops[0].ID)
	}
	review, err := db.Find(t.Context(), pawl.Query{Review: true})
	if err != nil || len(review) != 1 || review[0].ID != ops[0].ID || review[0].Review.IsZero() {
		t.Errorf("review: got %v, %v; want the broken row", review, err)
	}
	told = nil
	if claimed, err := db.Claim(t.Context(), ask); err != nil || len(claimed) != 0 || len(told) != 0 {
		t.Errorf("claim again: got %v, %v and told of %v; want nothing", claimed, err, told)
	}
}

// TestCheckMissesParts removes a part without which an operation is not found at all.
func TestCheckMissesParts(t *testing.T) {
	t.Parallel()
	for _, change := range []string{`DELETE FROM lanes`, `DELETE FROM states`, `DELETE FROM intents`, `DELETE FROM claims`} {
		db := openTest(t, newPath(t), small())
		op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
		if _, err := db.Begin(t.Context(), op, first); err != nil {
			t.Fatal(err)
		}
		tamper(t, db, change)
		if err := db.Check(t.Context()); !errors.Is(err, pawl.ErrCorrupt) {
			t.Errorf("check after %s: got %v, want %v", change, err, pawl.ErrCorrupt)
		}
	}
}

// TestContractRefused has one contract that fails its check beside a sound one.
func TestContractRefused(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := openTest(t, path, small())
	at := time.Now().Add(-time.Hour)
	var ops []*pawl.Operation
	for _, tool := range []string{"mail", "refund"} {
		op, first := storetest.Op(storetest.Seed{Tool: tool, Identity: "A", At: at})
		if _, err := db.Begin(t.Context(), op, first); err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	sound, broken := ops[0], ops[1]
	tamper(t, db, `UPDATE contracts SET body = replace(body, '"refund"', '"refunds"')`)

	var told []pawl.ID
	o := small()
	o.OnCorrupt = func(id pawl.ID, err error) { told = append(told, id) }
	db = openTest(t, path, o) // with no contract in memory
	tell := func(want ...pawl.ID) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("told of %v, want %v", told, want)
		}
		told = nil
	}
	if _, err := db.Get(t.Context(), "", broken.ID); !errors.Is(err, pawl.ErrCorrupt) {
		t.Errorf("get: got %v, want %v", err, pawl.ErrCorrupt)
	}
	if err := db.Check(t.Context()); !errors.Is(err, pawl.ErrCorrupt) {
		t.Errorf("check: got %v, want %v", err, pawl.ErrCorrupt)
	}
	found, err := db.Find(t.Context(), pawl.Query{})
	if err != nil || len(found) != 2 || found[0].ID != broken.ID || found[0].Reason != pawl.ReasonRowRefused || found[1].Contract == nil {
		t.Errorf("find: got %v, %v; want the broken one as row_refused beside the sound one", found, err)
	}
	tell(broken.ID)
	ask := pawl.Claim{Tools: []string{"mail", "refund"}, Limit: 10, Token: 5, Lease: time.Minute}
	claimed, err := db.Claim(t.Context(), ask)
	if err != nil || len(claimed) != 1 || claimed[0].ID != sound.ID {
		t.Errorf("claim: got %v, %v; want the sound one", claimed, err)
	}
	tell(broken.ID)
	if due := queryInt(t, path, `SELECT count(*) FROM states WHERE due IS NOT NULL`); due != 1 {
		t.Errorf("due: got %d rows, want the sound one alone", due)
	}
	review, err := db.Find(t.Context(), pawl.Query{Review: true})
	if err != nil || len(review) != 1 || review[0].ID != broken.ID || review[0].Review.IsZero() {
		t.Errorf("review: got %v, %v; want the broken one", review, err)
	}

	// The row itself is as good as ever.
	tamper(t, db, `UPDATE contracts SET body = replace(body, '"refunds"', '"refund"')`)
	if got, err := db.Get(t.Context(), "", broken.ID); err != nil || !got.Due.IsZero() {
		t.Errorf("get with its contract mended: got %v, %v; want the operation, not due", got, err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Errorf("check with the contract mended: %v", err)
	}
}

func TestBrokenHistory(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		`DELETE FROM changes WHERE line & 1048575 = 2`,
		`DELETE FROM changes WHERE line & 1048575 = 3`,
		`UPDATE intents SET entry = replace(entry, 'begun', 'began')`,
		`UPDATE changes SET entry = replace(entry, 'moved', 'moves') WHERE line & 1048575 = 2`,
		`UPDATE changes SET state = replace(state, 'w1', 'w2')`,
		`UPDATE changes SET line = line + 5 WHERE line & 1048575 = 3`,
		`DELETE FROM contracts`,
		`UPDATE contracts SET body = replace(body, 'refund', 'refunds')`,
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			db := openTest(t, path, small())
			op, first := storetest.Op(storetest.Seed{Tool: "refund", Identity: "A"})
			if _, err := db.Begin(t.Context(), op, first); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				c := storetest.Move(op, pawl.Unknown, nil)
				if err := db.Apply(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				op.State = *c.State
			}
			tamper(t, db, change)
			db = openTest(t, path, small()) // with no contract in memory
			if got, err := db.History(t.Context(), "", op.ID); !errors.Is(err, pawl.ErrCorrupt) {
				t.Errorf("history: got %v, %v; want %v", got, err, pawl.ErrCorrupt)
			}
		})
	}
}

func tamper(t *testing.T, db *DB, sql string) {
	t.Helper()
	c, err := db.connect("")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec(sql); err != nil {
		t.Fatal(err)
	}
	if c.Changes() == 0 {
		t.Fatalf("%s: changed nothing", sql)
	}
}
