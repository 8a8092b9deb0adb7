package api

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	// lookNewest and lookOpen bound what one look at the store reads.
	lookNewest = 200
	lookOpen   = 1000
)

// seen is an operation as the feed knows it.
type seen struct {
	tenant  string
	version int64 // that was told, here or by the executor
	later   int64 // one that the store has had at the last look, and nobody has told yet
	open    bool
}

// Follow tells what other processes do to the store, until ctx ends. While anybody reads, it
// looks every FeedOptions.Look at the operations begun last, at those that are open, and at
// those that were. A change is told at the second look that finds it untold, since the
// executor of this process tells its own sooner. Of several changes between two looks the
// last one alone is told, and of more than a look reads some are not told at all: the list of
// operations has them.
func (f *Feed) Follow(ctx context.Context, store pawl.Store) {
	tick := time.NewTicker(f.opts.Look)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.look(ctx, store)
		case <-ctx.Done():
			return
		}
	}
}

// look compares the store with what was told. A store that does not answer is looked at again.
func (f *Feed) look(ctx context.Context, store pawl.Store) {
	f.mu.Lock()
	if len(f.readers) == 0 {
		f.seen = nil
		f.mu.Unlock()
		return
	}
	first := f.seen == nil
	if first {
		f.seen = make(map[pawl.ID]*seen)
	}
	f.mu.Unlock()
	found := map[pawl.ID]*pawl.Operation{}
	for _, q := range []pawl.Query{{AllTenants: true, Limit: lookNewest}, {AllTenants: true, Open: true, Limit: lookOpen}} {
		ops, err := store.Find(ctx, q)
		if err != nil {
			return
		}
		for _, op := range ops {
			found[op.ID] = op
		}
	}
	for id, tenant := range f.gone(found) {
		if op, err := store.Get(ctx, tenant, id); err == nil {
			found[id] = op
		}
	}
	for id, op := range found {
		if f.untold(op, first) {
			f.publish(op, "change", changeOf(ctx, store, op))
		}
		f.note(op)
		found[id] = nil // what is kept is the id
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, k := range f.seen {
		if _, still := found[id]; !still && !k.open {
			delete(f.seen, id)
		}
	}
}

// gone are the operations that were open, and that a look has not found.
func (f *Feed) gone(found map[pawl.ID]*pawl.Operation) map[pawl.ID]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := map[pawl.ID]string{}
	for id, k := range f.seen {
		if found[id] == nil && k.open {
			gone[id] = k.tenant
		}
	}
	return gone
}

// untold reports whether a change is to be told now. At the first look nothing is.
func (f *Feed) untold(op *pawl.Operation, first bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.seen[op.ID]
	switch {
	case k == nil:
		k = &seen{tenant: op.Tenant, open: true}
		f.seen[op.ID] = k
	case op.Version <= k.version:
		return false
	}
	if first {
		k.version = op.Version
		return false
	}
	if k.later > k.version {
		k.version = op.Version
		return true
	}
	k.later = op.Version
	return false
}

// note keeps whether an operation is worth another look.
func (f *Feed) note(op *pawl.Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.seen[op.ID]; k != nil {
		k.open = op.Status.Open() || k.later > k.version
	}
}

// tells notes that the executor of this process tells a change itself.
func (f *Feed) tells(op *pawl.Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		return
	}
	k := f.seen[op.ID]
	if k == nil {
		k = &seen{tenant: op.Tenant}
		f.seen[op.ID] = k
	}
	k.version, k.open = max(k.version, op.Version), op.Status.Open()
}

// changeOf is the newest change of an operation, as far as it can be read.
func changeOf(ctx context.Context, store pawl.Store, op *pawl.Operation) Change {
	c := Change{Operation: summary(op), At: op.Updated.UTC()}
	history, err := store.History(ctx, op.Tenant, op.ID)
	if err != nil || int64(len(history)) < op.Version || op.Version < 1 {
		return c
	}
	e := history[op.Version-1]
	c.Event, c.By, c.From, c.At = e.Event, e.By, e.From, e.At.UTC()
	return c
}
