package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Pruner is a Store that can forget operations.
type Pruner interface {
	// Oldest lists operations of every tenant in the order in which they were begun, behind
	// the one with the given id; the zero id begins with the oldest.
	Oldest(ctx context.Context, behind ID, limit int) ([]*Operation, error)
	// Forget removes settled operations with their histories and sightings, each if its
	// version is still the one given, and returns how many it removed.
	Forget(ctx context.Context, settled []Settled) (int, error)
}

// Settled names an operation to be forgotten.
type Settled struct {
	ID      ID
	Version int64
}

// PruneOptions say what Prune may forget.
type PruneOptions struct {
	// Keep is how long an operation is kept after its last change, at least MinKeep.
	Keep time.Duration
	// DryRun counts and forgets nothing.
	DryRun bool
	// Progress, where given, is told after each page of what was looked at and forgotten.
	Progress func(Pruned)
}

// Pruned is what Prune did.
type Pruned struct {
	// Looked is how many operations were looked at, Forgotten how many of them were, or
	// would be, removed.
	Looked    int `json:"looked"`
	Forgotten int `json:"forgotten"`
}

const (
	// MinKeep is the least time that an operation is kept after its last change.
	MinKeep = 24 * time.Hour
	// prunePage is how many operations Prune looks at together.
	prunePage = 200
)

// Prune forgets operations that were settled long ago. A call that comes again after its
// operation was forgotten is a new one. What is still needed stays, however old it is: what
// is open, in review or holds a claim, what the provider may still know our key for, what can
// still land, what belongs to a run with anything open or with anything left to undo, a
// compensation whose original stays, what a watch may yet compare with, and every generation
// of an identity of which an earlier one stays. It may run beside executors.
func Prune(ctx context.Context, store Store, o PruneOptions) (Pruned, error) {
	var done Pruned
	p, ok := store.(Pruner)
	switch {
	case !ok:
		return done, fmt.Errorf("prune: the store cannot forget")
	case o.Keep < MinKeep:
		return done, fmt.Errorf("prune: operations are kept for at least %v, got %v", MinKeep, o.Keep)
	}
	now, err := store.Now(ctx)
	if err != nil {
		return done, fmt.Errorf("prune: %w", err)
	}
	page, err := p.Oldest(ctx, ID{}, prunePage)
	for err == nil && len(page) > 0 {
		last := page[len(page)-1]
		var next []*Operation
		if len(page) == prunePage && last.Created.Before(now.Add(-o.Keep)) { // before it is forgotten itself
			if next, err = p.Oldest(ctx, last.ID, prunePage); err != nil {
				break
			}
		}
		var settled []Settled
		for _, op := range page {
			needed, err := needed(ctx, store, op, now, o.Keep)
			if err != nil {
				return done, fmt.Errorf("prune: %w", err)
			}
			if !needed {
				settled = append(settled, Settled{op.ID, op.Version})
			}
		}
		forgotten := len(settled)
		if forgotten > 0 && !o.DryRun {
			if forgotten, err = p.Forget(ctx, settled); err != nil {
				break
			}
		}
		done.Looked += len(page)
		done.Forgotten += forgotten
		if o.Progress != nil {
			o.Progress(done)
		}
		page = next
	}
	if err != nil {
		return done, fmt.Errorf("prune: %w", err)
	}
	return done, nil
}

// needed reports whether an operation must not be forgotten.
func needed(ctx context.Context, store Store, op *Operation, now time.Time, keep time.Duration) (bool, error) {
	if op.kept(now, keep) {
		return true, nil
	}
	if op.Run != "" {
		run, err := store.GetRun(ctx, op.Tenant, op.Run)
		switch {
		case errors.Is(err, ErrNotFound): // it began before there were records of runs
		case err != nil:
			return true, err
		case run.Status == RunAborting:
			return true, nil
		}
		open, err := store.Find(ctx, Query{Tenant: op.Tenant, Run: op.Run, Open: true, Limit: 1})
		if err != nil || len(open) > 0 {
			return true, err
		}
	}
	if op.Undoes != (ID{}) {
		switch _, err := store.Get(ctx, op.Tenant, op.Undoes); {
		case err == nil:
			return true, nil // it goes first, in a later run
		case !errors.Is(err, ErrNotFound):
			return true, err
		}
	}
	if op.Gen == 0 {
		return false, nil
	}
	all, err := store.Find(ctx, Query{Tenant: op.Tenant, IdentityClaim: op.IdentityClaim, Limit: 1000})
	if err != nil {
		return true, err
	}
	for _, other := range all {
		if other.Gen < op.Gen {
			return true, nil // it goes first, in a later run
		}
	}
	return false, nil
}

// kept reports whether what an operation itself says keeps it.
func (op *Operation) kept(now time.Time, keep time.Duration) bool {
	if op.Contract == nil || !op.Status.Settled() || !op.Review.IsZero() || !op.Quiet.IsZero() || !op.Due.IsZero() || !op.Lease.IsZero() {
		return true
	}
	if now.Before(op.Updated.Add(max(keep, MinKeep))) {
		return true
	}
	if w := op.Contract.Watch; w != nil && !now.After(op.Created.Add(w.Within)) {
		return true
	}
	for _, a := range op.Attempts {
		c := op.Contract
		if now.Before(a.Permit.Add(c.Flight + c.Pause + c.Retention)) {
			return true
		}
	}
	return !now.After(op.SafeAt())
}
