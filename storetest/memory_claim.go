package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
)

// Claim gives due operations of the named tools to the caller. Lanes, one for each tool
// and tenant, take turns; the one that waited longest is first.
func (m *Memory) Claim(ctx context.Context, c pawl.Claim) (ops []*pawl.Operation, err error) {
	err = do(m, ctx, c, func(f *Faults) (_, _ func(pawl.Claim) error) { return f.BeforeClaim, f.AfterClaim }, func() error {
		if c.Lease <= 0 {
			return fmt.Errorf("claim: lease of %v is not positive", c.Lease)
		}
		at := m.now()
		due := map[lane][]*pawl.Operation{}
		for _, r := range m.begun {
			if op := r.op; slices.Contains(c.Tools, op.Tool) && !op.Due.IsZero() && !op.Due.After(at) {
				l := lane{op.Tool, op.Tenant}
				due[l] = append(due[l], op)
			}
		}
		lanes := make([]lane, 0, len(due))
		for l, waiting := range due {
			slices.SortStableFunc(waiting, func(a, b *pawl.Operation) int { return a.Due.Compare(b.Due) })
			lanes = append(lanes, l)
		}
		slices.SortFunc(lanes, func(a, b lane) int {
			return cmp.Or(cmp.Compare(m.turns[a], m.turns[b]), cmp.Compare(a.tool, b.tool), cmp.Compare(a.tenant, b.tenant))
		})
		for limit := min(c.Limit, 256); len(ops) < limit && len(lanes) > 0; {
			l := lanes[0]
			op := due[l][0]
			op.Token, op.Lease, op.Due = c.Token, at.Add(c.Lease), at.Add(c.Lease)
			ops = append(ops, clone(op))
			m.turn++
			m.turns[l] = m.turn
			lanes = lanes[1:]
			if due[l] = due[l][1:]; len(due[l]) > 0 {
				lanes = append(lanes, l)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ops, nil
}
