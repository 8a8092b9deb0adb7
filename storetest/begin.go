package storetest

import (
	"testing"

	"github.com/pawl-dev/pawl"
)

func testBegin(t *testing.T, s suite) {
	s.test(t, "inserts", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A"})
		same(t, get(t, store, op), op)
		entries, err := store.History(t.Context(), op.Tenant, op.ID)
		if err != nil || len(entries) != 1 {
			t.Fatalf("history: got %d entries, %v; want 1", len(entries), err)
		}
	})
	s.test(t, "claims nothing by a zero digest", func(t *testing.T, store pawl.Store) {
		for _, identity := range []string{"A", "B", "C"} {
			op, first := Op(Seed{Tool: "refund", Identity: identity})
			op.IdentityClaim, op.StepClaim, op.OnceClaim, op.SubjectClaim = pawl.Digest{}, pawl.Digest{}, pawl.Digest{}, pawl.Digest{}
			if standing, err := store.Begin(t.Context(), op, first); standing != nil || err != nil {
				t.Errorf("begin %s: got %v, %v; want neither", identity, standing, err)
			}
			same(t, get(t, store, op), op)
		}
	})
	s.test(t, "refuses an id that is taken", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tool: "refund", Identity: "A"})
		other, first := Op(Seed{Tool: "refund", Identity: "B"})
		other.ID = op.ID
		if standing, err := store.Begin(t.Context(), other, first); standing != nil || err == nil {
			t.Errorf("begin: got %v, %v; want an error", standing, err)
		}
		same(t, get(t, store, op), op)
	})
	s.test(t, "does not keep what the caller changes later", func(t *testing.T, store pawl.Store) {
		op, first := Op(Seed{Tool: "refund", Identity: "A"})
		want := clone(op)
		if _, err := store.Begin(t.Context(), op, first); err != nil {
			t.Fatal(err)
		}
		op.Args[0], op.Request[0], op.Attributes["tool_call"], first[0] = 'X', 'X', "X", 'X'
		op.Attempts[0].Worker = "X"
		got := get(t, store, want)
		same(t, got, want)
		got.Args[0], got.Attempts[0].Worker = 'Y', "Y"
		same(t, get(t, store, want), want)
		if _, err := store.History(t.Context(), "", want.ID); err != nil {
			t.Errorf("history: %v", err)
		}
	})
}

func testStanding(t *testing.T, s suite) {
	type change func(op *pawl.Operation, earlier *pawl.Operation)
	// What a second operation shares with an earlier one, strongest claim last, and what
	// it is told then. Later cases share all that earlier ones do.
	apart := func(op, _ *pawl.Operation) {
		other, _ := Op(Seed{Tool: "refund", Run: "run-2", Step: "2", Identity: "B", Subject: "other"})
		op.Key, op.IdentityClaim, op.StepClaim, op.OnceClaim, op.SubjectClaim =
			other.Key, other.IdentityClaim, other.StepClaim, pawl.Digest{2}, other.SubjectClaim
	}
	cases := []struct {
		kind  pawl.ClaimKind
		share change
	}{
		{pawl.ClaimSubject, func(op, e *pawl.Operation) { op.SubjectClaim = e.SubjectClaim }},
		{pawl.ClaimOnce, func(op, e *pawl.Operation) { op.OnceClaim = e.OnceClaim }},
		{pawl.ClaimStep, func(op, e *pawl.Operation) { op.StepClaim = e.StepClaim }},
		{pawl.ClaimKey, func(op, e *pawl.Operation) { op.Key = e.Key }},
		{pawl.ClaimIdentity, func(op, e *pawl.Operation) { op.IdentityClaim = e.IdentityClaim }},
	}
	for i, c := range cases {
		s.test(t, string(c.kind), func(t *testing.T, store pawl.Store) {
			earlier, first := Op(Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A", Subject: "A"})
			earlier.OnceClaim = pawl.Digest{1}
			if _, err := store.Begin(t.Context(), earlier, first); err != nil {
				t.Fatal(err)
			}
			op, first := Op(Seed{Tool: "refund", Run: "run-2", Step: "2", Identity: "B"})
			apart(op, earlier)
			for _, c := range cases[:i+1] {
				c.share(op, earlier)
			}
			standing, err := store.Begin(t.Context(), op, first)
			if err != nil || standing == nil {
				t.Fatalf("begin: got %v, %v; want a standing operation", standing, err)
			}
			if standing.Kind != c.kind {
				t.Errorf("kind: got %s, want %s", standing.Kind, c.kind)
			}
			same(t, standing.Op, earlier)
			if _, err := store.Get(t.Context(), "", op.ID); err == nil {
				t.Error("the second operation was written")
			}
			if got := find(t, store, pawl.Query{}); len(got) != 1 {
				t.Errorf("find: got %d operations, want 1", len(got))
			}
		})
	}

	// Which claims are held in which status, alone and by nothing else.
	for _, status := range []pawl.Status{pawl.Prepared, pawl.Pending, pawl.Unknown, pawl.Succeeded, pawl.FailedNoEffect, pawl.Compensated} {
		for _, c := range cases[:3] {
			s.test(t, string(c.kind)+" while "+string(status), func(t *testing.T, store pawl.Store) {
				earlier, first := Op(Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A", Subject: "A"})
				earlier.OnceClaim = pawl.Digest{1}
				if _, err := store.Begin(t.Context(), earlier, first); err != nil {
					t.Fatal(err)
				}
				move(t, store, earlier, status, nil)
				op, first := Op(Seed{Tool: "refund", Run: "run-2", Step: "2", Identity: "B"})
				apart(op, earlier)
				c.share(op, earlier)
				standing, err := store.Begin(t.Context(), op, first)
				if err != nil {
					t.Fatal(err)
				}
				held := map[pawl.ClaimKind]bool{
					pawl.ClaimStep: status.Held().Step, pawl.ClaimOnce: status.Held().Once, pawl.ClaimSubject: status.Held().Subject,
				}[c.kind]
				if got := standing != nil; got != held {
					t.Errorf("in the way: got %t, want %t", got, held)
				}
				if standing != nil {
					same(t, standing.Op, earlier)
				}
			})
		}
	}

	s.test(t, "an insert that fails leaves nothing", func(t *testing.T, store pawl.Store) {
		begin(t, store, Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A", Subject: "S"})
		op, first := Op(Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "B", Subject: "S"})
		if standing, err := store.Begin(t.Context(), op, first); err != nil || standing == nil || standing.Kind != pawl.ClaimSubject {
			t.Fatalf("begin: got %v, %v; want a subject in the way", standing, err)
		}
		// Had its key or identity stayed behind, this would meet them.
		begin(t, store, Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "B", Subject: "T"})
	})

	s.test(t, "generations", func(t *testing.T, store pawl.Store) {
		seed := Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A"}
		gen0 := begin(t, store, seed)
		move(t, store, gen0, pawl.FailedNoEffect, nil)
		seed.Gen = 1
		gen1 := begin(t, store, seed)
		for gen, want := range map[int]*pawl.Operation{0: gen1, 1: gen1} {
			seed.Gen = gen
			op, first := Op(seed)
			standing, err := store.Begin(t.Context(), op, first)
			if err != nil || standing == nil || standing.Kind != pawl.ClaimIdentity {
				t.Fatalf("begin gen %d: got %v, %v; want a standing identity", gen, standing, err)
			}
			if standing.Op.ID != want.ID {
				t.Errorf("begin gen %d: got generation %d in the way, want the latest", gen, standing.Op.Gen)
			}
		}
		move(t, store, gen1, pawl.Compensated, nil)
		seed.Gen = 2
		begin(t, store, seed)
	})
	for _, status := range []pawl.Status{pawl.Prepared, pawl.Pending, pawl.Unknown, pawl.Succeeded, pawl.FailedNoEffect, pawl.Compensated} {
		s.test(t, "the next generation while "+string(status), func(t *testing.T, store pawl.Store) {
			seed := Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A"}
			for gen := range 2 { // the latest one decides, not the first
				seed.Gen = gen
				op := begin(t, store, seed)
				if gen == 0 {
					move(t, store, op, pawl.FailedNoEffect, nil)
					continue
				}
				move(t, store, op, status, nil)
				seed.Gen = 2
				next, first := Op(seed)
				next.StepClaim = pawl.Digest{2} // the identity alone decides
				standing, err := store.Begin(t.Context(), next, first)
				if err != nil {
					t.Fatal(err)
				}
				if want := status.Open() || status == pawl.Succeeded; (standing != nil) != want {
					t.Errorf("in the way: got %t, want %t", standing != nil, want)
				}
				if standing != nil && (standing.Kind != pawl.ClaimIdentity || standing.Op.ID != op.ID) {
					t.Errorf("in the way: got %s by %s, want the latest generation by its identity", standing.Op.ID, standing.Kind)
				}
			}
		})
	}
	s.test(t, "a newer generation stands where the older is missing", func(t *testing.T, store pawl.Store) {
		seed := Seed{Tool: "refund", Run: "run-1", Step: "1", Identity: "A", Gen: 2}
		gen2 := begin(t, store, seed)
		move(t, store, gen2, pawl.FailedNoEffect, nil)
		seed.Gen = 0
		op, first := Op(seed)
		standing, err := store.Begin(t.Context(), op, first)
		if err != nil || standing == nil || standing.Op.ID != gen2.ID {
			t.Errorf("begin: got %v, %v; want generation 2 in the way", standing, err)
		}
	})
}
