package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func testFind(t *testing.T, s suite) {
	s.test(t, "filters", func(t *testing.T, store pawl.Store) {
		at := now(t, store).Add(-time.Minute)
		var all []*pawl.Operation // newest first
		for i, seed := range []struct {
			Seed
			to     pawl.Status
			review bool
			ref    string
		}{
			{Seed: Seed{Tool: "refund", Run: "run-1", Identity: "A"}, to: pawl.Succeeded, ref: "re_1"},
			{Seed: Seed{Tool: "refund", Run: "run-1", Identity: "B"}, to: pawl.FailedNoEffect},
			{Seed: Seed{Tool: "refund", Run: "run-1", Identity: "B", Gen: 1}, to: pawl.Pending},
			{Seed: Seed{Tool: "mail", Run: "run-1", Identity: "C"}, to: pawl.Unknown, review: true},
			{Seed: Seed{Tool: "mail", Run: "run-2", Identity: "D"}, to: pawl.Prepared},
			{Seed: Seed{Tool: "mail", Identity: "E"}, to: pawl.Compensated, ref: "re_1"},
			{Seed: Seed{Tenant: "acme", Tool: "mail", Run: "run-1", Identity: "A"}, to: pawl.Unknown, ref: "re_1"},
			{Seed: Seed{Tenant: "acme", Tool: "refund", Run: "run-3", Identity: "F"}, to: pawl.Succeeded, review: true},
		} {
			seed.At = at.Add(time.Duration(i) * time.Second)
			op := begin(t, store, seed.Seed)
			move(t, store, op, seed.to, func(s *pawl.State) {
				s.Ref = seed.ref
				if seed.review {
					s.Review, s.ReviewReason = at, pawl.ReasonCandidate
				}
				if seed.to == pawl.Prepared {
					s.Review, s.ReviewReason = at, pawl.ReasonApprovalNeeded
				}
			})
			all = append([]*pawl.Operation{op}, all...)
		}
		first, last := all[len(all)-1], all[0]
		for _, q := range []struct {
			name  string
			query pawl.Query
			want  func(op *pawl.Operation) bool
		}{
			{"all", pawl.Query{}, func(*pawl.Operation) bool { return true }},
			{"tool", pawl.Query{Tool: "mail"}, func(op *pawl.Operation) bool { return op.Tool == "mail" }},
			{"run", pawl.Query{Run: "run-1"}, func(op *pawl.Operation) bool { return op.Run == "run-1" }},
			{"prepared", pawl.Query{Status: pawl.Prepared}, func(op *pawl.Operation) bool { return op.Status == pawl.Prepared }},
			{"pending", pawl.Query{Status: pawl.Pending}, func(op *pawl.Operation) bool { return op.Status == pawl.Pending }},
			{"unknown", pawl.Query{Status: pawl.Unknown}, func(op *pawl.Operation) bool { return op.Status == pawl.Unknown }},
			{"succeeded", pawl.Query{Status: pawl.Succeeded}, func(op *pawl.Operation) bool { return op.Status == pawl.Succeeded }},
			{"failed", pawl.Query{Status: pawl.FailedNoEffect}, func(op *pawl.Operation) bool { return op.Status == pawl.FailedNoEffect }},
			{"compensated", pawl.Query{Status: pawl.Compensated}, func(op *pawl.Operation) bool { return op.Status == pawl.Compensated }},
			{"ref", pawl.Query{Ref: "re_1"}, func(op *pawl.Operation) bool { return op.Ref == "re_1" }},
			{"key", pawl.Query{Key: first.Key.String()}, func(op *pawl.Operation) bool { return op.Key == first.Key }},
			{"key of the other tenant", pawl.Query{Key: last.Key.String()}, func(op *pawl.Operation) bool { return op.Key == last.Key }},
			{"identity", pawl.Query{IdentityClaim: all[len(all)-2].IdentityClaim}, func(op *pawl.Operation) bool {
				return op.IdentityClaim == all[len(all)-2].IdentityClaim
			}},
			{"open", pawl.Query{Open: true}, func(op *pawl.Operation) bool { return op.Status.Open() }},
			{"review", pawl.Query{Review: true}, func(op *pawl.Operation) bool { return !op.Review.IsZero() }},
			{"review for a reason", pawl.Query{ReviewReason: pawl.ReasonCandidate}, func(op *pawl.Operation) bool {
				return !op.Review.IsZero() && op.ReviewReason == pawl.ReasonCandidate
			}},
			{"review for a reason, of a tool and a status", pawl.Query{Review: true, ReviewReason: pawl.ReasonApprovalNeeded, Tool: "mail", Status: pawl.Prepared}, func(op *pawl.Operation) bool {
				return op.ReviewReason == pawl.ReasonApprovalNeeded
			}},
			{"review for a reason in a run", pawl.Query{Run: "run-1", ReviewReason: pawl.ReasonCandidate}, func(op *pawl.Operation) bool {
				return op.Run == "run-1" && op.ReviewReason == pawl.ReasonCandidate
			}},
			{"failed in review", pawl.Query{Review: true, Status: pawl.FailedNoEffect}, func(*pawl.Operation) bool { return false }},
			{"open, of a tool", pawl.Query{Open: true, Tool: "mail"}, func(op *pawl.Operation) bool {
				return op.Status.Open() && op.Tool == "mail"
			}},
			{"open and unknown, in review", pawl.Query{Open: true, Review: true, Status: pawl.Unknown}, func(op *pawl.Operation) bool {
				return op.Status == pawl.Unknown && !op.Review.IsZero()
			}},
			{"open and succeeded", pawl.Query{Open: true, Status: pawl.Succeeded}, func(*pawl.Operation) bool { return false }},
			{"everything at once", pawl.Query{
				Tool: "mail", Run: "run-1", Status: pawl.Unknown, Ref: "re_1", Key: all[1].Key.String(),
				IdentityClaim: all[1].IdentityClaim, Open: true,
			}, func(op *pawl.Operation) bool { return op.ID == all[1].ID }},
			{"nothing", pawl.Query{Run: "run-9"}, func(*pawl.Operation) bool { return false }},
		} {
			for _, tenant := range []string{"", "acme", "nobody", "*"} {
				query := q.query
				query.Tenant, query.AllTenants = tenant, tenant == "*"
				var want []pawl.ID
				for _, op := range all {
					if (tenant == "*" || op.Tenant == tenant) && q.want(op) {
						want = append(want, op.ID)
					}
				}
				got := find(t, store, query)
				if !slices.Equal(identities(got), want) {
					t.Errorf("%s of tenant %q: got %v, want %v", q.name, tenant, identities(got), want)
					continue
				}
				for i, op := range got {
					same(t, op, all[slices.IndexFunc(all, func(o *pawl.Operation) bool { return o.ID == want[i] })])
				}
				// The same, page by page.
				var paged []pawl.ID
				for query.Limit = 2; ; {
					page := identities(find(t, store, query))
					paged = append(paged, page...)
					if len(page) < query.Limit {
						break
					}
					query.Before = page[len(page)-1]
				}
				if !slices.Equal(paged, want) {
					t.Errorf("%s of tenant %q in pages: got %v, want %v", q.name, tenant, paged, want)
				}
			}
		}
	})
	s.test(t, "limits", func(t *testing.T, store pawl.Store) {
		at := now(t, store).Add(-time.Hour)
		for i := range 1010 {
			begin(t, store, Seed{Tool: "refund", Identity: fmt.Sprint(i), At: at.Add(time.Duration(i) * time.Millisecond)})
		}
		for limit, want := range map[int]int{0: 50, 1: 1, 1000: 1000, 5000: 1000} {
			if got := len(find(t, store, pawl.Query{Limit: limit})); got != want {
				t.Errorf("limit %d: got %d operations, want %d", limit, got, want)
			}
		}
	})
	s.test(t, "refuses what it cannot read", func(t *testing.T, store pawl.Store) {
		for _, q := range []pawl.Query{{Key: "8893dc"}, {Key: "x893dc6d05960a237c3dc2bfd80913b2"}, {Status: "DONE"}} {
			if got, err := store.Find(t.Context(), q); err == nil {
				t.Errorf("find %+v: got %d operations, want an error", q, len(got))
			}
		}
	})
}
