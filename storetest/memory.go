package storetest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// Interface guards.
var _ pawl.Store = (*Memory)(nil)

// Memory is a store in memory for simulations. It starts no goroutine, waits for
// nothing, and reads time.Now, so that it works in a testing/synctest bubble. It is
// durable for as long as it lives: an executor that dies and another that starts on the
// same Memory meet what was written.
type Memory struct {
	mu     sync.Mutex
	faults Faults
	clock  func() time.Time
	told   time.Time
	closed bool

	byID   map[pawl.ID]*record
	begun  []*record               // in order
	latest map[pawl.Digest]*record // the last generation of each identity
	claims map[held]*record
	turns  map[lane]uint64 // when each lane was served last
	turn   uint64

	reviews reviews

	runs      map[runKey]*pawl.Run
	runsBegun []runKey // in order
}

// record is one operation and its history.
type record struct {
	op      *pawl.Operation
	place   int // in begun
	entries [][]byte
}

// held is one claim that an operation can hold.
type held struct {
	kind   pawl.ClaimKind
	digest pawl.Digest
}

type lane struct{ tool, tenant string }

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{
		clock: time.Now, byID: map[pawl.ID]*record{}, latest: map[pawl.Digest]*record{},
		claims: map[held]*record{}, turns: map[lane]uint64{}, runs: map[runKey]*pawl.Run{},
	}
}

// Faults are asked by the methods they name; nil never fails. What a Before function
// returns is the method's answer, and nothing is written; what an After function returns
// is the answer although all was written. They are called without a lock.
type Faults struct {
	BeforeBegin, AfterBegin func(op *pawl.Operation) error
	BeforeApply, AfterApply func(c *pawl.Change) error
	BeforeClaim, AfterClaim func(c pawl.Claim) error
	BeforeRenew, AfterRenew func(id pawl.ID) error

	BeforePutRun, AfterPutRun func(r *pawl.Run) error

	Get, History func(id pawl.ID) error
	Find         func(q pawl.Query) error
	// GetRun is asked by GetRun, and by FindRuns with "".
	GetRun func(run string) error
	Now    func() error
	Tally  func() error
}

// SetFaults replaces the faults.
func (m *Memory) SetFaults(f Faults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = f
}

// SetClock replaces the clock, which is time.Now. Now still never runs backwards.
func (m *Memory) SetClock(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock = now
}

var errClosed = fmt.Errorf("memory store is closed: %w", fs.ErrClosed)

// do runs one method: a context that has ended and a fault before it keep it from
// happening, a fault after it hides that it did.
func do[T any](m *Memory, ctx context.Context, arg T, faults func(*Faults) (before, after func(T) error), f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	before, after := faults(&m.faults)
	m.mu.Unlock()
	if before != nil {
		if err := before(arg); err != nil {
			return err
		}
	}
	m.mu.Lock()
	err := errClosed
	if !m.closed {
		err = f()
	}
	m.mu.Unlock()
	if err == nil && after != nil {
		err = after(arg)
	}
	return err
}

// Begin inserts op with its first history entry, or returns the operation in its way.
func (m *Memory) Begin(ctx context.Context, op *pawl.Operation, first []byte) (standing *pawl.Standing, err error) {
	err = do(m, ctx, op, func(f *Faults) (_, _ func(*pawl.Operation) error) { return f.BeforeBegin, f.AfterBegin }, func() error {
		if op.Version != 1 || op.ID == (pawl.ID{}) || len(first) == 0 {
			return fmt.Errorf("begin %s: want an id, version 1 and an entry", op.ID)
		}
		kind, holder := m.holder(op)
		switch {
		case holder != nil && holder.op.Tenant == op.Tenant:
			standing = &pawl.Standing{Kind: kind, Op: clone(holder.op)}
			return nil
		case holder != nil || m.byID[op.ID] != nil:
			return fmt.Errorf("begin %s: its id is taken, or one of its claims is held by another tenant", op.ID)
		}
		run := m.runOf(op)
		if run != nil && run.Bars(&op.Intent) {
			standing = &pawl.Standing{Kind: pawl.ClaimRun, Run: cloneRun(run)}
			return nil
		}
		if run != nil {
			m.keepRun(run)
		}
		r := &record{op: clone(op), place: len(m.begun), entries: [][]byte{slices.Clone(first)}}
		if op.Contract != nil {
			pinned := *op.Contract
			r.op.Contract = &pinned
		}
		m.byID[op.ID] = r
		m.begun = append(m.begun, r)
		if op.IdentityClaim != (pawl.Digest{}) {
			m.latest[op.IdentityClaim] = r
		}
		m.hold(r, op.Status.Held())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return standing, nil
}

// holder finds what stands in the way of op.
func (m *Memory) holder(op *pawl.Operation) (pawl.ClaimKind, *record) {
	if r := m.latest[op.IdentityClaim]; r != nil && (r.op.Gen >= op.Gen || r.op.Status.Open() || r.op.Status == pawl.Succeeded) {
		return pawl.ClaimIdentity, r
	}
	for _, h := range []held{
		{pawl.ClaimKey, pawl.Digest(op.Key[:16])}, {pawl.ClaimStep, op.StepClaim},
		{pawl.ClaimOnce, op.OnceClaim}, {pawl.ClaimSubject, op.SubjectClaim},
	} {
		if r := m.claims[h]; r != nil {
			return h.kind, r
		}
	}
	return "", nil
}

// hold takes up and lets go of claims.
func (m *Memory) hold(r *record, h pawl.ClaimsHeld) {
	m.claims[held{pawl.ClaimKey, pawl.Digest(r.op.Key[:16])}] = r
	for claim, holds := range ending(r.op, h) {
		if holds {
			m.claims[claim] = r
		} else if m.claims[claim] == r {
			delete(m.claims, claim)
		}
	}
}

// ending lists the claims of op that end, and which of them h says are held.
func ending(op *pawl.Operation, h pawl.ClaimsHeld) map[held]bool {
	all := map[held]bool{
		{pawl.ClaimStep, op.StepClaim}:       h.Step,
		{pawl.ClaimOnce, op.OnceClaim}:       h.Once,
		{pawl.ClaimSubject, op.SubjectClaim}: h.Subject,
	}
	for claim := range all {
		if claim.digest == (pawl.Digest{}) {
			delete(all, claim)
		}
	}
	return all
}

// Apply writes one change if version and token are still c's.
func (m *Memory) Apply(ctx context.Context, c *pawl.Change) error {
	return do(m, ctx, c, func(f *Faults) (_, _ func(*pawl.Change) error) { return f.BeforeApply, f.AfterApply }, func() error {
		if c.State == nil || c.State.Version != c.Version+1 || len(c.Entry) == 0 {
			return fmt.Errorf("apply to %s: want a state of version %d and an entry", c.ID, c.Version+1)
		}
		r := m.byID[c.ID]
		if r == nil {
			return fmt.Errorf("apply to %s: %w", c.ID, pawl.ErrNotFound)
		}
		if r.op.Version != c.Version || r.op.Token != c.Token {
			return fmt.Errorf("apply to %s: %w", c.ID, pawl.ErrStale)
		}
		for claim, holds := range ending(r.op, c.Held) {
			if other := m.claims[claim]; holds && other != nil && other != r {
				return fmt.Errorf("apply to %s: %w", c.ID, pawl.ErrHeld)
			}
		}
		r.op.State = clone(&pawl.Operation{State: *c.State}).State
		r.entries = append(r.entries, slices.Clone(c.Entry))
		m.hold(r, c.Held)
		return nil
	})
}

// Renew writes lease and due of an operation if its token is still the one given.
func (m *Memory) Renew(ctx context.Context, id pawl.ID, token int64, lease, due time.Time) (renewed bool, err error) {
	err = do(m, ctx, id, func(f *Faults) (_, _ func(pawl.ID) error) { return f.BeforeRenew, f.AfterRenew }, func() error {
		if r := m.byID[id]; r != nil && r.op.Token == token {
			r.op.Lease, r.op.Due, renewed = lease, due, true
		}
		return nil
	})
	return renewed && err == nil, err
}

// Get returns one operation of the tenant, or ErrNotFound.
func (m *Memory) Get(ctx context.Context, tenant string, id pawl.ID) (op *pawl.Operation, err error) {
	err = do(m, ctx, id, func(f *Faults) (_, _ func(pawl.ID) error) { return f.Get, nil }, func() error {
		r := m.byID[id]
		if r == nil || r.op.Tenant != tenant {
			return fmt.Errorf("get %s: %w", id, pawl.ErrNotFound)
		}
		op = clone(r.op)
		return nil
	})
	return op, err
}

// History returns the entries of one operation, oldest first, after verifying them.
func (m *Memory) History(ctx context.Context, tenant string, id pawl.ID) (entries []pawl.Entry, err error) {
	err = do(m, ctx, id, func(f *Faults) (_, _ func(pawl.ID) error) { return f.History, nil }, func() (err error) {
		r := m.byID[id]
		if r == nil || r.op.Tenant != tenant {
			return fmt.Errorf("history of %s: %w", id, pawl.ErrNotFound)
		}
		entries, err = pawl.DecodeHistory(r.entries, r.op.Chain)
		return err
	})
	return entries, err
}

// Find lists operations, the one begun last first.
func (m *Memory) Find(ctx context.Context, q pawl.Query) (ops []*pawl.Operation, err error) {
	err = do(m, ctx, q, func(f *Faults) (_, _ func(pawl.Query) error) { return f.Find, nil }, func() error {
		if key, err := hex.DecodeString(q.Key); q.Key != "" && (err != nil || len(key) != 16) {
			return errors.New("find: key: want 32 hex digits")
		}
		if q.Status != "" && !slices.Contains(statuses, q.Status) {
			return fmt.Errorf("find: status: there is no %q", q.Status)
		}
		limit := q.Limit
		if limit <= 0 {
			limit = 50
		}
		limit = min(limit, 1000)
		from := len(m.begun)
		if q.Before != (pawl.ID{}) {
			from = 0
			if r := m.byID[q.Before]; r != nil {
				from = r.place
			}
		}
		for _, r := range slices.Backward(m.begun[:from]) {
			if len(ops) == limit {
				break
			}
			if selected(r.op, q) {
				ops = append(ops, clone(r.op))
			}
		}
		return nil
	})
	return ops, err
}

var statuses = []pawl.Status{pawl.Prepared, pawl.Pending, pawl.Succeeded, pawl.FailedNoEffect, pawl.Unknown, pawl.Compensated}

func selected(op *pawl.Operation, q pawl.Query) bool {
	return (q.AllTenants || op.Tenant == q.Tenant) &&
		(q.Tool == "" || op.Tool == q.Tool) &&
		(q.Run == "" || op.Run == q.Run) &&
		(q.Status == "" || op.Status == q.Status) &&
		(q.Ref == "" || op.Ref == q.Ref) &&
		(q.Key == "" || op.Key.String() == q.Key) &&
		(q.IdentityClaim == pawl.Digest{} || op.IdentityClaim == q.IdentityClaim) &&
		(!q.Open || op.Status.Open()) &&
		(!q.Review && q.ReviewReason == "" || !op.Review.IsZero()) &&
		(q.ReviewReason == "" || op.ReviewReason == q.ReviewReason)
}

// Now is the clock, which never runs backwards.
func (m *Memory) Now(ctx context.Context) (at time.Time, err error) {
	err = do(m, ctx, struct{}{}, func(f *Faults) (_, _ func(struct{}) error) {
		if f.Now == nil {
			return nil, nil
		}
		return func(struct{}) error { return f.Now() }, nil
	}, func() error {
		at = m.now()
		return nil
	})
	return at, err
}

func (m *Memory) now() time.Time {
	if at := m.clock().Round(0).UTC().Truncate(time.Microsecond); at.After(m.told) {
		m.told = at
	}
	return m.told
}

// Close ends the store. What it holds is gone with it.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
