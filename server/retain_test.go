package server

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// TestServeForgetsOldOperations: a server that retains for two days forgets what was settled
// before, and keeps the rest.
func TestServeForgetsOldOperations(t *testing.T) {
	t.Parallel()
	o := write(t, sound)
	o.Retain = 48 * time.Hour
	s := openTest(t, o)
	for name, at := range map[string]time.Time{"old": time.Now().Add(-100 * time.Hour), "young": time.Now().Add(-40 * time.Hour)} {
		op, first := storetest.Op(storetest.Seed{Tool: "other", Identity: name, At: at})
		if standing, err := s.Store().Begin(t.Context(), op, first); standing != nil || err != nil {
			t.Fatalf("begin: %v, %v", standing, err)
		}
		c := storetest.Move(op, pawl.Succeeded, func(st *pawl.State) { st.Updated, st.Lease, st.Due = at, time.Time{}, time.Time{} })
		if err := s.Store().Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	serving(t, s)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		ops, err := s.Store().Find(t.Context(), pawl.Query{AllTenants: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(ops) == 1 {
			if ops[0].Effect != "effect of young" {
				t.Errorf("got %q left, want the young one", ops[0].Effect)
			}
			return
		}
		if len(ops) == 0 || time.Now().After(end) {
			t.Fatalf("got %d operations, want one", len(ops))
		}
	}
}
