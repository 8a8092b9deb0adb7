package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// measurePoint opens a contestant, lets it warm up, measures it and closes it.
func measurePoint(ctx context.Context, o *order) (_ *figure, err error) {
	e := find(o.Contestant)
	if e == nil {
		return nil, fmt.Errorf("there is no contestant %q", o.Contestant)
	}
	if e.measure != nil {
		return e.measure(ctx, o)
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	c, err := e.open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	makers := make([]*jobs, o.Callers)
	for i := range makers {
		makers[i] = newJobs(i)
	}
	if _, err := drive(ctx, c, makers, o.Warm); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	runtime.GC()
	before, start := usageOf(c.team(), o.Dir), time.Now()
	took, err := drive(ctx, c, makers, o.Length)
	if err != nil {
		return nil, err
	}
	wall := time.Since(start)
	f := newFigure(took, wall, usageOf(c.team(), o.Dir).since(before))
	f.Memory = peakMemory(c.team())
	return f, nil
}

// drive has every caller make one call after the other for a while, and returns how long
// each took. The first error ends it.
func drive(ctx context.Context, c contestant, makers []*jobs, length time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var over atomic.Bool
	timer := time.AfterFunc(length, func() { over.Store(true) })
	defer timer.Stop()
	took := make([][]time.Duration, len(makers))
	var callers sync.WaitGroup
	for i, g := range makers {
		callers.Go(func() {
			for !over.Load() && ctx.Err() == nil {
				j := g.next()
				start := time.Now()
				if err := c.call(ctx, i, j); err != nil {
					cancel(err)
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	callers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	all := slices.Concat(took...)
	if len(all) == 0 {
		return nil, errors.New("no call was made")
	}
	return all, nil
}
