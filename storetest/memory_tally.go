package storetest

import (
	"context"

	"github.com/pawl-dev/pawl"
)

// Tally sums up the open operations of every tenant.
func (m *Memory) Tally(ctx context.Context) (list []pawl.Tally, err error) {
	type group struct {
		tool   string
		status pawl.Status
		review bool
	}
	err = do(m, ctx, struct{}{}, func(f *Faults) (_, _ func(struct{}) error) {
		if f.Tally == nil {
			return nil, nil
		}
		return func(struct{}) error { return f.Tally() }, nil
	}, func() error {
		now := m.now()
		groups := map[group]int{}
		for _, r := range m.begun {
			op := r.op
			if !op.Status.Open() {
				continue
			}
			g := group{op.Tool, op.Status, !op.Review.IsZero()}
			i, ok := groups[g]
			if !ok {
				i = len(list)
				groups[g] = i
				list = append(list, pawl.Tally{Tool: op.Tool, Status: op.Status, Review: g.review, Oldest: clone(op)})
			}
			t := &list[i]
			t.Count++
			if !op.Lease.After(now) {
				t.Unheld++
			}
			if !op.Due.IsZero() && (t.Due.IsZero() || op.Due.Before(t.Due)) {
				t.Due = op.Due
			}
			if !op.Review.IsZero() && (t.Asked.IsZero() || op.Review.Before(t.Asked)) {
				t.Asked = op.Review
			}
		}
		return nil
	})
	return list, err
}
