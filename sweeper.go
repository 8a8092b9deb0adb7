package pawl

import (
	"context"
	"maps"
	"slices"
	"sync"
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
	h := &hands{free: e.opts.SweepBatch, most: max(1, e.opts.SweepBatch/2), busy: make(map[string]int)}
	for {
		e.claim(h)
		e.claimRuns(h)
		select {
		case <-ticker.C:
		case <-e.stopping:
			return
		}
	}
}

// hands are what the sweeper works with. One tool gets at most half of them, so that a
// provider that is slow to answer does not hold up the others.
type hands struct {
	mu   sync.Mutex
	free int
	most int
	busy map[string]int // by tool
}

func (h *hands) take(tool string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free--
	h.busy[tool]++
}

func (h *hands) give(tool string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free++
	h.busy[tool]--
}

// idle returns how many operations may be claimed, and of which tools.
func (h *hands) idle(tools []string) (int, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(h.free, h.most), slices.DeleteFunc(tools, func(t string) bool { return h.busy[t] >= h.most })
}

func (e *Executor) claim(h *hands) {
	if err := e.synchronise(e.base); err != nil {
		if e.base.Err() == nil {
			e.failed(e.base, "claim", err, nil)
		}
		return
	}
	for {
		limit, tools := h.idle(e.toolNames())
		if limit == 0 || len(tools) == 0 {
			return
		}
		ops, err := e.store.Claim(e.base, Claim{Tools: tools, Limit: limit, Token: newToken(), Lease: e.opts.Lease})
		if err != nil {
			if e.base.Err() == nil {
				e.failed(e.base, "claim", err, nil)
			}
			return
		}
		for _, op := range ops {
			h.take(op.Tool)
			e.work.Add(1)
			go func() {
				defer e.work.Done()
				defer h.give(op.Tool)
				e.reconcile(op)
			}()
		}
		if len(ops) < limit {
			e.observe(func(o *Observer) {
				if o.Swept != nil {
					o.Swept(e.base)
				}
			})
			return
		}
	}
}

func (e *Executor) toolNames() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.tools))
}

// reconcile works on one leased operation until its next move is further away.
func (e *Executor) reconcile(op *Operation) {
	f := &flight{e: e, id: op.ID, tool: e.tool(op.Tool), ctx: context.WithoutCancel(e.base), token: op.Token, op: op}
	if e.watched {
		w := &Work{Kind: WorkReconcile, Operation: op}
		var over func()
		f.ctx, over = e.began(f.ctx, w)
		defer func() {
			w.Operation = f.current()
			over()
		}()
	}
	e.enlist(f)
	if op.Status == Pending || op.out() {
		if !f.event(&Event{Kind: EventTakeover}) {
			f.land()
			return
		}
	}
	landed := make(chan struct{})
	go f.drive(func() { close(landed) })
	<-landed
}
