//go:build crashpoints

package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
)

var passed = struct {
	sync.Mutex
	times map[string]int
}{times: make(map[string]int)}

// pass is a named point.
func pass(name string) {
	passed.Lock()
	defer passed.Unlock()
	passed.times[name]++
	at := fmt.Sprintf("%s#%d", name, passed.times[name])
	if file := os.Getenv("PAWL_CRASH_LOG"); file != "" {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, at)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			panic(err)
		}
	}
	if os.Getenv("PAWL_CRASH") == at {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // and hold what would pass a point meanwhile
	}
}

// WALSize is the least that an SQLite file's log can be grown to: the matrix makes hundreds
// of files that live for a second.
const WALSize = 1 << 20

// Store returns the store with a point before and after each write that is part of an
// operation's life.
func Store(s pawl.Store) pawl.Store { return store{s} }

type store struct{ pawl.Store }

func (s store) Begin(ctx context.Context, op *pawl.Operation, first []byte) (*pawl.Standing, error) {
	pass("intent.before")
	standing, err := s.Store.Begin(ctx, op, first)
	pass("intent.after")
	return standing, err
}

func (s store) Apply(ctx context.Context, c *pawl.Change) error {
	pass("change.before")
	err := s.Store.Apply(ctx, c)
	pass("change.after")
	return err
}

func (s store) Claim(ctx context.Context, c pawl.Claim) ([]*pawl.Operation, error) {
	ops, err := s.Store.Claim(ctx, c)
	if len(ops) > 0 {
		pass("claim.after")
	}
	return ops, err
}

// Sight has no point: what it writes decides nothing.
func (s store) Sight(ctx context.Context, g pawl.Sighting, since time.Time) ([]pawl.ID, error) {
	return s.Store.(pawl.Sighter).Sight(ctx, g, since)
}

// Oldest and Forget have no points: what they remove is over.
func (s store) Oldest(ctx context.Context, behind pawl.ID, limit int) ([]*pawl.Operation, error) {
	return s.Store.(pawl.Pruner).Oldest(ctx, behind, limit)
}

func (s store) Forget(ctx context.Context, settled []pawl.Settled) (int, error) {
	return s.Store.(pawl.Pruner).Forget(ctx, settled)
}

func (s store) PutRun(ctx context.Context, r *pawl.Run) error {
	pass("run.before")
	err := s.Store.PutRun(ctx, r)
	pass("run.after")
	return err
}

func (s store) ClaimRuns(ctx context.Context, limit int, lease time.Duration) ([]*pawl.Run, error) {
	runs, err := s.Store.ClaimRuns(ctx, limit, lease)
	if len(runs) > 0 {
		pass("run.claim.after")
	}
	return runs, err
}

// Port returns the port with a point before and after each exchange with the provider. What
// it can besides, it still can.
func Port(p pawl.Port) pawl.Port {
	selector, selects := p.(pawl.Selector)
	delegate, delegates := p.(pawl.Delegate)
	switch w := (port{p}); {
	case selects && delegates:
		return struct {
			port
			pawl.Selector
			pawl.Delegate
		}{w, selector, delegate}
	case selects:
		return struct {
			port
			pawl.Selector
		}{w, selector}
	case delegates:
		return struct {
			port
			pawl.Delegate
		}{w, delegate}
	default:
		return w
	}
}

type port struct{ pawl.Port }

func (p port) Send(ctx context.Context, s *pawl.Sending) pawl.Evidence {
	pass("send.before")
	e := p.Port.Send(ctx, s)
	pass("send.after")
	return e
}

func (p port) Probe(ctx context.Context, op *pawl.Operation) pawl.ProbeResult {
	pass("probe.before")
	r := p.Port.(pawl.Prober).Probe(ctx, op)
	pass("probe.after")
	return r
}

func (p port) Fence(ctx context.Context, op *pawl.Operation) pawl.FenceResult {
	pass("fence.before")
	r := p.Port.(pawl.Fencer).Fence(ctx, op)
	pass("fence.after")
	return r
}

// Confirm has no point: nothing is written or sent.
func (p port) Confirm(inv *pawl.Invocation) (bool, error) {
	return p.Port.(pawl.Confirmer).Confirm(inv)
}

func (p port) Snapshot(ctx context.Context, inv *pawl.Invocation) (json.RawMessage, error) {
	pass("snapshot.before")
	before, err := p.Port.(pawl.Snapshotter).Snapshot(ctx, inv)
	pass("snapshot.after")
	return before, err
}

func (p port) Compensation(op *pawl.Operation) (json.RawMessage, error) {
	return p.Port.(pawl.Compensator).Compensation(op)
}
