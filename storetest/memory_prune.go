package storetest

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
)

var _ pawl.Pruner = (*Memory)(nil)

// Oldest lists operations of every tenant in the order in which they were begun.
func (m *Memory) Oldest(ctx context.Context, behind pawl.ID, limit int) (ops []*pawl.Operation, err error) {
	err = do(m, ctx, behind, func(*Faults) (_, _ func(pawl.ID) error) { return nil, nil }, func() error {
		from := 0
		if behind != (pawl.ID{}) {
			r := m.byID[behind]
			if r == nil {
				return nil
			}
			from = r.place + 1
		}
		for _, r := range m.begun[from:] {
			if len(ops) == limit {
				break
			}
			ops = append(ops, clone(r.op))
		}
		return nil
	})
	return ops, err
}

// Forget removes settled operations with their histories.
func (m *Memory) Forget(ctx context.Context, settled []pawl.Settled) (forgotten int, err error) {
	err = do(m, ctx, settled, func(*Faults) (_, _ func([]pawl.Settled) error) { return nil, nil }, func() error {
		for _, s := range settled {
			r := m.byID[s.ID]
			if r == nil || r.op.Version != s.Version || !r.op.Status.Settled() || !r.op.Review.IsZero() || !r.op.Due.IsZero() {
				continue
			}
			m.forget(r)
			forgotten++
		}
		return nil
	})
	return forgotten, err
}

func (m *Memory) forget(r *record) {
	delete(m.byID, r.op.ID)
	m.reviews.sightings = slices.DeleteFunc(m.reviews.sightings, func(s pawl.Sighting) bool { return s.ID == r.op.ID })
	for claim, holder := range m.claims {
		if holder == r {
			delete(m.claims, claim)
		}
	}
	m.begun = append(m.begun[:r.place], m.begun[r.place+1:]...)
	for i, other := range m.begun[r.place:] {
		other.place = r.place + i
	}
	if m.latest[r.op.IdentityClaim] != r {
		return
	}
	delete(m.latest, r.op.IdentityClaim)
	for _, other := range m.begun {
		if other.op.IdentityClaim == r.op.IdentityClaim {
			m.latest[r.op.IdentityClaim] = other // the last one begun is the last generation
		}
	}
}
