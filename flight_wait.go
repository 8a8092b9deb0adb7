package pawl

import "time"

// await waits for an answer until a time and keeps the lease alive meanwhile. It reports
// whether the operation may have changed before the time.
func (f *flight) await(until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	renew := time.NewTimer(f.e.opts.Lease / 3)
	defer renew.Stop()
	stopping := f.e.stopping
	if f.out > 0 {
		stopping = nil // what is out is waited for
	}
	_, changed, _ := f.view()
	for {
		select {
		case a := <-f.answers:
			f.take(a)
			return true
		case <-changed:
			return true
		case <-timer.C:
			return false
		case <-stopping:
			return true
		case <-f.e.base.Done():
			if f.out == 0 {
				return true
			}
			f.take(<-f.answers) // given up: its evidence comes at once
			return true
		case <-renew.C:
			f.renew()
			renew.Reset(f.e.opts.Lease / 3)
		}
	}
}

// renew extends the claim; a claim that is over shows in the fresh state.
func (f *flight) renew() {
	op := f.current()
	if op.Status.Settled() && !wantsResult(&op.State) {
		return
	}
	lease := f.e.now(f.ctx).Add(f.e.opts.Lease)
	held, err := f.e.store.Renew(f.ctx, op.ID, f.token, lease, lease)
	switch {
	case err != nil:
		f.e.failed(f.ctx, "renew", err, op)
	case held:
		f.leased(op, lease)
	default:
		if fresh, err := f.e.store.Get(f.ctx, op.Tenant, op.ID); err == nil {
			f.publish(fresh)
		}
	}
}

// leased notes a renewed lease in the view; the version is the same.
func (f *flight) leased(op *Operation, lease time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.op.Version == op.Version {
		fresh := *f.op
		fresh.Lease, fresh.Due = lease, lease
		f.op = &fresh
	}
}
