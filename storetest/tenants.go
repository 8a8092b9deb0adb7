package storetest

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
)

func testTenants(t *testing.T, s suite) {
	s.test(t, "do not see each other", func(t *testing.T, store pawl.Store) {
		op := begin(t, store, Seed{Tenant: "acme", Tool: "refund", Run: "run-1", Identity: "A"})
		for _, tenant := range []string{"", "acm", "acme ", "ACME", "%"} {
			if _, err := store.Get(t.Context(), tenant, op.ID); !errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("get as %q: got %v, want %v", tenant, err, pawl.ErrNotFound)
			}
			if _, err := store.History(t.Context(), tenant, op.ID); !errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("history as %q: got %v, want %v", tenant, err, pawl.ErrNotFound)
			}
			for _, q := range []pawl.Query{{}, {Run: op.Run}, {Key: op.Key.String()}, {IdentityClaim: op.IdentityClaim}, {Open: true}, {Tool: op.Tool}} {
				q.Tenant = tenant
				if got := find(t, store, q); len(got) != 0 {
					t.Errorf("find %+v: got %d operations of another tenant", q, len(got))
				}
			}
		}
	})
	// A digest includes the tenant. Should two meet all the same, it is an error and tells
	// nothing of the other.
	for name, share := range map[string]func(op, foreign *pawl.Operation){
		"identity": func(op, f *pawl.Operation) { op.IdentityClaim = f.IdentityClaim },
		"key":      func(op, f *pawl.Operation) { op.Key = f.Key },
		"step":     func(op, f *pawl.Operation) { op.StepClaim = f.StepClaim },
		"once":     func(op, f *pawl.Operation) { op.OnceClaim = f.OnceClaim },
		"subject":  func(op, f *pawl.Operation) { op.SubjectClaim = f.SubjectClaim },
	} {
		s.test(t, "never stand in each other's way: "+name, func(t *testing.T, store pawl.Store) {
			foreign, first := Op(Seed{Tenant: "acme", Tool: "refund", Run: "run-1", Identity: "A", Subject: "A"})
			foreign.OnceClaim = pawl.Digest{1}
			if _, err := store.Begin(t.Context(), foreign, first); err != nil {
				t.Fatal(err)
			}
			op, first := Op(Seed{Tenant: "globex", Tool: "refund", Run: "run-1", Identity: "B", Subject: "B"})
			op.OnceClaim = pawl.Digest{2}
			share(op, foreign)
			standing, err := store.Begin(t.Context(), op, first)
			if standing != nil || err == nil {
				t.Errorf("begin: got %v, %v; want an error", standing, err)
			}
			if got := find(t, store, pawl.Query{Tenant: "globex"}); len(got) != 0 {
				t.Errorf("find: got %d operations, want none", len(got))
			}
		})
	}
}
