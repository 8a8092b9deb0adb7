package pawl

import (
	"context"
	"time"
)

// Start begins to settle what calls leave open: operations of the registered tools whose
// worker is gone and UNKNOWNs that are due. It may be called twice; the second call does
// nothing. It does nothing after Stop.
func (e *Executor) Start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sweeping || e.stopped {
		return
	}
	e.sweeping = true
	e.work.Add(1)
	go func() {
		defer e.work.Done()
		e.sweep()
	}()
}

// Stop takes no new calls and makes no new sends. Attempts that are out are waited for
// until ctx ends; then they are given up and recorded as UNKNOWN. It returns when
// nothing runs any more, and may be called twice.
func (e *Executor) Stop(ctx context.Context) {
	e.mu.Lock()
	if !e.stopped {
		e.stopped = true
		close(e.stopping)
	}
	e.mu.Unlock()
	done := make(chan struct{})
	go func() {
		e.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	e.abort()
	<-done
}

// sweep claims due operations, as many at once as there are free hands.
func (e *Executor) sweep() {
	ticker := time.NewTicker(e.opts.SweepEvery)
	defer ticker.Stop()
	hands := make(chan struct{}, e.opts.SweepBatch)
	for {
		e.claim(hands)
		select {
		case <-ticker.C:
		case <-e.stopping:
			return
		}
	}
}

func (e *Executor) claim(hands chan struct{}) {
	for {
		free := cap(hands) - len(hands)
		if free == 0 {
			return
		}
		token := newToken()
		ops, err := e.store.Claim(e.base, Claim{Tools: e.effectTools(), Limit: free, Token: token, Lease: e.opts.Lease})
		if err != nil {
			if e.base.Err() == nil {
				e.failed(e.base, "claim", err, nil)
			}
			return
		}
		for _, op := range ops {
			hands <- struct{}{}
			e.work.Add(1)
			go func() {
				defer e.work.Done()
				defer func() { <-hands }()
				e.reconcile(op)
			}()
		}
		if len(ops) < free {
			return
		}
	}
}

func (e *Executor) effectTools() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := make([]string, 0, len(e.tools))
	for name, t := range e.tools {
		if t.Contract.Class != Read {
			names = append(names, name)
		}
	}
	return names
}

// reconcile works on one claimed operation until its next move is further away.
func (e *Executor) reconcile(op *Operation) {
	tool := e.tool(op.Tool)
	f := &flight{e: e, tool: tool, ctx: context.WithoutCancel(e.base), token: op.Token, op: op}
	f.prepare()
	e.enlist(f)
	defer f.land()
	if op.Status == Pending || op.out() {
		if !f.event(&Event{Kind: EventTakeover}) {
			return
		}
	}
	f.drive(false)
}
