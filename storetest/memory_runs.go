package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

type runKey struct{ tenant, run string }

// runOf is the record that an operation would begin under: the one that there is, or a new
// one. An operation without a run has none.
func (m *Memory) runOf(op *pawl.Operation) *pawl.Run {
	if op.Run == "" {
		return nil
	}
	if r := m.runs[runKey{op.Tenant, op.Run}]; r != nil {
		return r
	}
	return pawl.NewRun(op)
}

func (m *Memory) keepRun(r *pawl.Run) {
	key := runKey{r.Tenant, r.ID}
	if m.runs[key] == nil {
		m.runsBegun = append(m.runsBegun, key)
	}
	m.runs[key] = r
}

// PutRun writes the record of a run if the stored one has the version before it.
func (m *Memory) PutRun(ctx context.Context, r *pawl.Run) error {
	return do(m, ctx, r, func(f *Faults) (_, _ func(*pawl.Run) error) { return f.BeforePutRun, f.AfterPutRun }, func() error {
		if r.ID == "" || r.Version < 1 {
			return fmt.Errorf("put run: want an id and a version from 1 on")
		}
		var stored int64
		if old := m.runs[runKey{r.Tenant, r.ID}]; old != nil {
			stored = old.Version
		}
		if stored != r.Version-1 {
			return fmt.Errorf("put run %q: %w", r.ID, pawl.ErrStale)
		}
		m.keepRun(cloneRun(r))
		return nil
	})
}

// GetRun returns the record of one run, or ErrNotFound.
func (m *Memory) GetRun(ctx context.Context, tenant, run string) (found *pawl.Run, err error) {
	err = do(m, ctx, run, func(f *Faults) (_, _ func(string) error) { return f.GetRun, nil }, func() error {
		r := m.runs[runKey{tenant, run}]
		if r == nil {
			return fmt.Errorf("get run %q: %w", run, pawl.ErrNotFound)
		}
		found = cloneRun(r)
		return nil
	})
	return found, err
}

// FindRuns lists runs, the one begun last first.
func (m *Memory) FindRuns(ctx context.Context, q pawl.RunQuery) (runs []*pawl.Run, err error) {
	err = do(m, ctx, "", func(f *Faults) (_, _ func(string) error) { return f.GetRun, nil }, func() error {
		switch q.Status {
		case "", pawl.RunOpen, pawl.RunAborting, pawl.RunAborted:
		default:
			return fmt.Errorf("find runs: status: there is no %q", q.Status)
		}
		limit := q.Limit
		if limit <= 0 {
			limit = 50
		}
		from := len(m.runsBegun)
		if q.Before != "" {
			from = max(0, slices.Index(m.runsBegun, runKey{q.BeforeTenant, q.Before}))
		}
		for _, key := range slices.Backward(m.runsBegun[:from]) {
			r := m.runs[key]
			if len(runs) == min(limit, 1000) {
				break
			}
			if (q.AllTenants || r.Tenant == q.Tenant) && (q.Status == "" || r.Status == q.Status) {
				runs = append(runs, cloneRun(r))
			}
		}
		return nil
	})
	return runs, err
}

// ClaimRuns gives due runs to the caller, oldest due first.
func (m *Memory) ClaimRuns(ctx context.Context, limit int, lease time.Duration) (runs []*pawl.Run, err error) {
	err = do(m, ctx, pawl.Claim{Limit: limit, Lease: lease}, func(f *Faults) (_, _ func(pawl.Claim) error) { return f.BeforeClaim, f.AfterClaim }, func() error {
		if lease <= 0 {
			return fmt.Errorf("claim runs: lease of %v is not positive", lease)
		}
		at := m.now()
		var due []*pawl.Run
		for _, key := range m.runsBegun {
			if r := m.runs[key]; !r.Due.IsZero() && !r.Due.After(at) {
				due = append(due, r)
			}
		}
		slices.SortStableFunc(due, func(a, b *pawl.Run) int { return cmp.Compare(a.Due.UnixMicro(), b.Due.UnixMicro()) })
		for _, r := range due[:min(len(due), max(limit, 0), 256)] {
			r.Version++
			r.Lease, r.Due = at.Add(lease), at.Add(lease)
			runs = append(runs, cloneRun(r))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return runs, nil
}

func cloneRun(r *pawl.Run) *pawl.Run {
	c := new(pawl.Run)
	if err := json.Unmarshal(must(json.Marshal(r)), c); err != nil {
		panic("storetest: " + err.Error()) // it was plain data
	}
	c.Tenant, c.ID = r.Tenant, r.ID // JSON keeps no bytes that are not UTF-8
	return c
}
