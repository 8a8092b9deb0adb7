package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// Interface guards.
var (
	_ pawl.Sighter = (*Memory)(nil)
	_ pawl.Outbox  = (*Memory)(nil)
)

// reviews is what a Memory keeps of watched calls and of what an operator is told.
type reviews struct {
	sightings []pawl.Sighting
	notices   []*notice
	token     int64
}

// notice is a pawl.Notice with what became of it.
type notice struct {
	pawl.Notice
	open bool
	due  time.Time
	told bool
}

// unguarded runs a method that no fault speaks of.
func (m *Memory) unguarded(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	f()
	return nil
}

// Sight records a sighting and returns the look-alikes since a time, newest first.
func (m *Memory) Sight(ctx context.Context, s pawl.Sighting, since time.Time) (ids []pawl.ID, err error) {
	err = m.unguarded(ctx, func() {
		for _, o := range slices.Backward(m.reviews.sightings) {
			if o.Look == s.Look && o.Tenant == s.Tenant && o.ID != s.ID && !o.At.Before(since) && len(ids) < pawl.MaxSightings {
				ids = append(ids, o.ID)
			}
		}
		m.reviews.sightings = append(m.reviews.sightings, s)
	})
	return ids, err
}

// GatherNotices records the facts that have no notice yet.
func (m *Memory) GatherNotices(ctx context.Context, limit int) (made int, err error) {
	err = m.unguarded(ctx, func() {
		r, now := &m.reviews, m.now()
		add := func(op *pawl.Operation, kind pawl.NoticeKind, since time.Time) {
			r.notices = append(r.notices, &notice{
				Notice: pawl.Notice{Tenant: op.Tenant, Operation: op.ID, Kind: kind, Since: since}, open: kind == pawl.ReviewOpened, due: now,
			})
			made++
		}
		opened, closed := 0, 0
		for _, x := range m.begun {
			known := slices.ContainsFunc(r.notices, func(n *notice) bool {
				return n.Operation == x.op.ID && n.Kind == pawl.ReviewOpened && n.Since.Equal(x.op.Review)
			})
			if !x.op.Review.IsZero() && !known && opened < limit {
				add(x.op, pawl.ReviewOpened, x.op.Review)
				opened++
			}
		}
		for _, n := range slices.Clone(r.notices) {
			op := m.byID[n.Operation].op
			if !n.open || op.Review.Equal(n.Since) || closed == limit {
				continue
			}
			n.open = false
			closed++
			if n.Tries == 0 {
				n.due = time.Time{} // nobody was told that it began
				continue
			}
			add(op, pawl.ReviewClosed, n.Since)
		}
	})
	return made, err
}

// TakeNotices gives due notices to the caller for the time of a lease.
func (m *Memory) TakeNotices(ctx context.Context, limit int, lease time.Duration) (taken []*pawl.Notice, err error) {
	err = m.unguarded(ctx, func() {
		r, now := &m.reviews, m.now()
		for _, n := range r.notices {
			if len(taken) == limit {
				break
			}
			if n.due.IsZero() || n.due.After(now) {
				continue
			}
			r.token++
			n.Tries++
			n.Token, n.due = r.token, now.Add(lease)
			copied := n.Notice
			taken = append(taken, &copied)
		}
	})
	return taken, err
}

// EndNotice says what became of a notice.
func (m *Memory) EndNotice(ctx context.Context, n *pawl.Notice, end pawl.NoticeEnd) (held bool, err error) {
	err = m.unguarded(ctx, func() {
		for _, own := range m.reviews.notices {
			if own.ID() == n.ID() && own.Token == n.Token {
				own.due, own.told, held = end.Again, end.Told, true
			}
		}
	})
	return held, err
}

// Notified reports whether the operator was told that an operation waits for a person.
func (m *Memory) Notified(ctx context.Context, op *pawl.Operation) (told bool, err error) {
	err = m.unguarded(ctx, func() {
		told = slices.ContainsFunc(m.reviews.notices, func(n *notice) bool {
			return n.Operation == op.ID && n.Kind == pawl.ReviewOpened && n.Since.Equal(op.Review) && n.told
		})
	})
	return told, err
}
