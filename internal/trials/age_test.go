package trials

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// age moves every row into a new store as it would stand in an old one: each of its times
// lies that much earlier.
func (w *world) age(d time.Duration) {
	for name := range w.executors {
		w.stop(name)
	}
	list := w.operations()
	w.check(w.view.Close())
	w.view = nil
	w.stores++
	for _, op := range list {
		aged := older(op, d)
		entry := pawl.Entry{Seq: 1, At: aged.Updated, Event: string(pawl.EventBegin), By: "worker A", To: op.Status, Reason: op.Reason, Attempt: 1}
		raw, err := pawl.EncodeEntry(&entry)
		w.check(err)
		aged.Version, aged.Chain = 1, pawl.ChainHash(nil, raw)
		standing, err := w.record().Begin(context.Background(), aged, raw)
		w.check(err)
		if standing != nil {
			w.fatalf("%s stands in the way of itself", w.describe(op))
		}
	}
	w.check(w.provider.box.Advance(d))
}

func older(op *pawl.Operation, d time.Duration) *pawl.Operation {
	aged := *op
	back := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(-d)
		}
	}
	for _, t := range []*time.Time{
		&aged.Deadline, &aged.Created, &aged.Lease, &aged.Due, &aged.Updated, &aged.Review, &aged.Probes.Last, &aged.Probes.Fenced,
	} {
		back(t)
	}
	aged.Attempts = slices.Clone(op.Attempts)
	for i := range aged.Attempts {
		back(&aged.Attempts[i].Permit)
		back(&aged.Attempts[i].Ended)
	}
	if op.Approval != nil {
		a := *op.Approval
		for _, t := range []*time.Time{&a.Expires, &a.Until, &a.Used} {
			back(t)
		}
		aged.Approval = &a
	}
	return &aged
}
