package pawl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Restore is what is known about a store that is a copy: what was done between the copy and
// the restore is not in it. Any operation of the copy may have had another permit in that
// time, and a call that is not on record may have been made.
type Restore struct {
	// Copied is a time up to which the copy is known to be whole.
	Copied time.Time `json:"copied"`
	// At is the store's time at which a person said that this copy is the one that lives.
	// Nothing was sent from another one after it.
	At time.Time `json:"at"`
	// Until is the end of the time in which calls may come again that were made in
	// between. Until then a call that is not on record counts as one that may have been sent.
	Until time.Time `json:"until"`
	// By is the person who said so.
	By string `json:"by"`
}

// presumes reports whether an operation that was last changed at a time may have had a
// permit that is not on record.
func (r *Restore) presumes(updated time.Time) bool {
	return r != nil && updated.Before(r.At) && holds(restoredIsDoubt)
}

// covers reports whether a call that is not on record may have been made before.
func (r *Restore) covers(now time.Time) bool {
	return r != nil && now.Before(r.Until) && holds(restoredIsDoubt)
}

// permits are the permits that may have been given between copy and restore: retention
// counts from the first, quiescence from the last.
func (r *Restore) permits(n int) []Attempt {
	presumed := func(n int, at time.Time) Attempt {
		return Attempt{N: n, Kind: AttemptPresumed, Permit: at, Lost: true}
	}
	if n > 0 {
		return []Attempt{presumed(n+1, r.At)}
	}
	return []Attempt{presumed(1, r.Copied), presumed(2, r.At)}
}

// recoverPage is how many operations Recover looks at together.
const recoverPage = 200

// Recover turns every open operation of a restored store into doubt that is settled like
// any other: by asking the provider first, with quiescence counted from the restore. It
// returns how many there were. It sends nothing, needs no tools, and may be repeated.
func Recover(ctx context.Context, store Store, r *Restore) (int, error) {
	if err := r.Validate(); err != nil {
		return 0, fmt.Errorf("recover: %w", err)
	}
	n := 0
	q := Query{AllTenants: true, Open: true, Limit: recoverPage}
	for {
		page, err := store.Find(ctx, q)
		if err != nil {
			return n, fmt.Errorf("recover: %w", err)
		}
		for _, op := range page {
			if op.Contract == nil || !r.presumes(op.Updated) {
				continue // a row that failed its check is a person's already
			}
			_, c, _, err := change(op, &Event{Kind: EventRestore, At: r.At, By: "person " + r.By, Token: op.Token, NewToken: newToken(), Restore: r})
			if err == nil {
				err = store.Apply(ctx, c)
			}
			if err != nil {
				return n, fmt.Errorf("recover %s: %w", op.ID, err)
			}
			n++
		}
		if len(page) < recoverPage {
			return n, nil
		}
		q.Before = page[len(page)-1].ID
	}
}

// restore presumes the permits that may have been given since the store was copied.
func (s *stepper) restore() error {
	r := s.ev.Restore
	switch {
	case r == nil || s.ev.NewToken == 0:
		return s.refuse(RefusedInput, "a restore has its times and a token")
	case !s.op.Status.Open() && !s.op.Reopens():
		return s.refuse(RefusedStatus, "")
	case !s.op.Updated.Before(r.At):
		return s.refuse(RefusedStatus, "it was changed after the restore")
	}
	if s.op.Status == Prepared {
		s.next.Review, s.next.ReviewReason = time.Time{}, ReasonNone // it was about the yes
	}
	s.lose()
	s.next.Token = s.ev.NewToken
	s.next.Attempts = append(s.next.Attempts, r.permits(len(s.next.Attempts))...)
	s.next.Probes = Probes{Count: s.next.Probes.Count, Last: s.next.Probes.Last}
	s.next.Status, s.next.Reason, s.next.SettledBy, s.next.Order = Unknown, ReasonRestored, "", ""
	return nil
}

// presumed reports whether the operation's first permit is only presumed.
func (op *Operation) presumed() bool {
	return len(op.Attempts) > 0 && op.Attempts[0].Kind == AttemptPresumed
}

// newPresumed is the state that Begin writes for a call that may have been made before the
// restore: doubt, to be settled before anything is sent.
func newPresumed(in *Intent, r *Restore, now time.Time, lease time.Duration, worker string) (*Operation, *begun, error) {
	in.Created = now
	op := &Operation{Intent: *in, State: State{
		Status: Unknown, Reason: ReasonRestored, Version: 1, Token: newToken(), Lease: now.Add(lease), Due: now.Add(lease), Updated: now,
		Attempts: r.permits(0),
	}}
	first := &begun{entry: Entry{Seq: 1, At: now, Event: string(EventBegin), By: worker, To: Unknown, Reason: ReasonRestored}}
	var err error
	if first.raw, err = EncodeEntry(&first.entry); err != nil {
		return nil, nil, fmt.Errorf("encode history: %w", err)
	}
	op.Chain = ChainHash(nil, first.raw)
	return op, first, nil
}

// doubt takes up an operation that the copy has as provably unsent, for a repeat of its
// call: it is asked about before anything is sent again.
func (e *Executor) doubt(ctx context.Context, op *Operation) (*Operation, error) {
	now := e.now(ctx)
	ev := &Event{
		Kind: EventRestore, At: now, By: "worker " + e.opts.Worker, Token: op.Token, NewToken: newToken(), Lease: now.Add(e.opts.Lease), Restore: e.opts.Restore,
	}
	fresh, err := e.apply(ctx, op, ev)
	if err == nil && fresh.Token != ev.NewToken {
		return fresh, ErrStale
	}
	return fresh, err
}

// ErrRestore: the times of a restore contradict each other, or nobody is named.
var ErrRestore = errors.New("restore: want copied <= at <= until, and who says so")

// Validate returns ErrRestore for what is no restore.
func (r *Restore) Validate() error {
	if r.At.IsZero() || r.Copied.After(r.At) || r.Until.Before(r.At) || r.By == "" {
		return ErrRestore
	}
	return nil
}
