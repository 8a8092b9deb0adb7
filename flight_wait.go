package pawl

import "time"

// giveUpGrace is how long a port may take to come back once its context has ended. What
// comes later still reaches the record, but nobody waits for it.
const giveUpGrace = time.Second

// await waits for an answer, a change by someone else or a time, and keeps the lease alive
// meanwhile.
func (f *flight) await(changed <-chan struct{}, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	renew := time.NewTimer(f.e.opts.Lease / 3)
	defer renew.Stop()
	stopping, abort := f.e.stopping, f.e.base.Done()
	if len(f.outs) > 0 {
		stopping = nil // what is out is waited for
	}
	for {
		select {
		case a := <-f.answers:
			f.take(a)
			return
		case <-changed:
			return
		case <-timer.C:
			return
		case <-stopping:
			return
		case <-abort:
			if len(f.outs) == 0 {
				return
			}
			abort = nil
			f.hurry()
			timer.Reset(giveUpGrace)
		case <-renew.C:
			f.renew()
			renew.Reset(f.e.opts.Lease / 3)
		}
	}
}

// hurry waits for what is out no longer than the grace.
func (f *flight) hurry() {
	soon := time.Now().Add(giveUpGrace)
	for i := range f.outs {
		if f.outs[i].until.After(soon) {
			f.outs[i].until = soon
		}
	}
}

// abandonOverdue ends attempts whose port did not come back in time: they prove nothing.
func (f *flight) abandonOverdue() {
	now := time.Now()
	for _, o := range f.outs {
		if o.until.After(now) {
			continue
		}
		select {
		case a := <-f.answers: // it came at the last moment
			f.take(a)
			continue
		default:
		}
		f.mu.Lock()
		if f.abandoned == nil {
			f.abandoned = make(map[int]bool)
		}
		f.abandoned[o.attempt] = true
		f.mu.Unlock()
		f.take(&answer{attempt: o.attempt, evidence: Evidence{Class: ClassAmbiguous, Proof: "linger_over"}})
	}
}

// renew extends the lease; one that is over shows in the fresh state.
func (f *flight) renew() {
	op := f.current()
	if op.Token != f.token || op.Status.Settled() && !wantsResult(&op.State) {
		return
	}
	lease := f.e.now(f.ctx).Add(f.e.opts.Lease)
	held, err := f.e.store.Renew(f.ctx, op.ID, f.token, lease, lease)
	switch {
	case err != nil:
		f.e.failed(f.ctx, "renew", err, op)
	case held:
		f.leased(op, lease, lease)
	default:
		if fresh, err := f.e.store.Get(f.ctx, op.Tenant, op.ID); err == nil {
			f.publish(fresh)
		}
	}
}

// leased notes a written lease in the view; the version is the same.
func (f *flight) leased(op *Operation, lease, due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.op.Version == op.Version && f.op.Token == op.Token {
		fresh := *f.op
		fresh.Lease, fresh.Due = lease, due
		f.op = &fresh
	}
}
