package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sqlite"
)

// left is how many calls a killed process leaves open in the grown store.
const left = 1000

// fillGrown makes the store with many settled operations.
func (c *campaign) fillGrown(ctx context.Context) error {
	fmt.Fprintf(os.Stderr, "filling a store with %d settled operations ...\n", c.settled)
	var took time.Duration
	o := &order{Dir: c.grownDir(), Settled: c.settled, Provider: c.provider.said}
	if err := c.do(ctx, "fill", o, &took); err != nil {
		return fmt.Errorf("fill the grown store: %w", err)
	}
	fmt.Fprintf(os.Stderr, "filled in %s\n", short(took))
	return nil
}

// fill is the command "bench fill": it writes settled operations through the store, each
// with its own identity, key and run, and otherwise like one that an executor made.
func fill(ctx context.Context, o *order) (time.Duration, error) {
	start := time.Now()
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return 0, err
	}
	db, err := sqlite.Open(filepath.Join(o.Dir, storeFile), nil)
	if err != nil {
		return 0, err
	}
	mould, err := cast(ctx, db)
	if err == nil {
		err = mould.copies(ctx, db, o.Settled-1)
	}
	return time.Since(start), errors.Join(err, db.Close())
}

// mould is one operation as an executor recorded it, to be repeated under other names.
type mould struct {
	pawl.Store // records what passes

	begun  *pawl.Operation
	first  []byte
	change *pawl.Change
}

// cast makes one call and keeps what the executor gave to the store.
func cast(ctx context.Context, store pawl.Store) (*mould, error) {
	m := &mould{Store: store}
	ex := pawl.New(m, nil)
	defer ex.Stop(ctx)
	if err := ex.Register(goTool()); err != nil {
		return nil, err
	}
	l := &library{executor: ex}
	if err := l.call(ctx, 0, newJobs(0).next()); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *mould) Begin(ctx context.Context, op *pawl.Operation, first []byte) (*pawl.Standing, error) {
	kept := *op
	m.begun, m.first = &kept, bytes.Clone(first)
	return m.Store.Begin(ctx, op, first)
}

func (m *mould) Apply(ctx context.Context, c *pawl.Change) error {
	kept := *c
	m.change = &kept
	return m.Store.Apply(ctx, c)
}

// copies writes n further operations.
func (m *mould) copies(ctx context.Context, store pawl.Store, n int) error {
	const writers = 512
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var work sync.WaitGroup
	for range writers {
		work.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				if err := m.copy(ctx, store, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

func (m *mould) copy(ctx context.Context, store pawl.Store, i int64) error {
	op := *m.begun
	op.ID = pawl.NewID(time.Now())
	op.Run = fmt.Sprintf("run-%012d", i/10)
	op.Step = fmt.Sprint(i)
	spread := uint64(i) * 0x9e3779b97f4a7c15 // an odd factor: no two are alike, and in no order
	for _, place := range [][]byte{op.Key[:], op.IdentityClaim[:], op.StepClaim[:]} {
		binary.BigEndian.PutUint64(place, spread)
	}
	if op.OnceClaim != (pawl.Digest{}) {
		binary.BigEndian.PutUint64(op.OnceClaim[:], spread)
	}
	standing, err := store.Begin(ctx, &op, m.first)
	if err != nil {
		return err
	}
	if standing != nil {
		return fmt.Errorf("operation %d is held up by %s", i, standing.Kind)
	}
	c := *m.change
	c.ID = op.ID
	return store.Apply(ctx, &c)
}

// startup is how long a process took, on the grown store after a crash, until its sweeper
// had its first operations.
type startup struct {
	// Open is from the start until the store was open, Sweep from the start until the
	// sweeper's first claim had come back with Claimed operations; Claim is how long that
	// claim took by itself.
	Open    time.Duration `json:"open_ns"`
	Sweep   time.Duration `json:"sweep_ns"`
	Claim   time.Duration `json:"claim_ns"`
	Claimed int           `json:"claimed"`
}

// startUp leaves calls open in the grown store as a crash does, and times who comes next.
func (c *campaign) startUp(ctx context.Context) error {
	if err := c.crashGrown(ctx); err != nil {
		return fmt.Errorf("leave calls open: %w", err)
	}
	for range c.rounds {
		var s startup
		if err := c.do(ctx, "start", &order{Dir: c.grownDir(), Provider: c.provider.said}, &s); err != nil {
			return fmt.Errorf("start-up: %w", err)
		}
		c.Starts = append(c.Starts, s)
		fmt.Fprintf(os.Stderr, "start-up  store open after %s, first claim of %d back after %s (the claim itself %s)\n",
			short(s.Open), s.Claimed, short(s.Sweep), short(s.Claim))
	}
	return nil
}

// crashLease is the lease of the process that is killed: what it leaves is due soon.
const crashLease = 2 * time.Second

// crashGrown has a process make calls that are never answered, and kills it.
func (c *campaign) crashGrown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	waiting := make(chan struct{}, left)
	silent, err := newProvider(func(r *http.Request) {
		waiting <- struct{}{}
		<-ctx.Done()
	})
	if err != nil {
		return err
	}
	defer func() {
		cancel()
		silent.close()
	}()
	text, err := json.Marshal(&order{Dir: c.grownDir(), Provider: silent.url(), Callers: left})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, c.self, "crash", string(text))
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		return err
	}
	for range left {
		select {
		case <-waiting:
		case <-ctx.Done():
			cmd.Process.Kill()
			cmd.Wait()
			return fmt.Errorf("the calls did not reach the provider: %s", bytes.TrimSpace(said.Bytes()))
		}
	}
	cmd.Process.Kill()
	cmd.Wait() // it was killed
	select {
	case <-time.After(crashLease + time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// crash is the command "bench crash": it makes calls that nobody answers.
func crash(ctx context.Context, o *order) (struct{}, error) {
	var none struct{}
	path, err := writeContract(o, storeFile)
	if err != nil {
		return none, err
	}
	db, err := sqlite.Open(filepath.Join(o.Dir, storeFile), nil)
	if err != nil {
		return none, err
	}
	l, err := startHTTPTool(db, path, &pawl.Options{Lease: crashLease})
	if err != nil {
		return none, err
	}
	for i := range o.Callers {
		go l.call(ctx, i, newJobs(i).next())
	}
	<-ctx.Done()
	return none, l.close()
}

// claims is a store that tells when its first claim has come back.
type claims struct {
	pawl.Store
	once  sync.Once
	first chan startup
}

func (s *claims) Claim(ctx context.Context, c pawl.Claim) ([]*pawl.Operation, error) {
	start := time.Now()
	ops, err := s.Store.Claim(ctx, c)
	s.once.Do(func() { s.first <- startup{Claim: time.Since(start), Claimed: len(ops)} })
	return ops, err
}

// firstSweep is the command "bench start": it opens the store, starts an executor on it,
// and ends as a crash does once the sweeper has its first operations.
func firstSweep(ctx context.Context, o *order) (*startup, error) {
	start := time.Now()
	path, err := writeContract(o, storeFile)
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(filepath.Join(o.Dir, storeFile), nil)
	if err != nil {
		return nil, err
	}
	open := time.Since(start)
	store := &claims{Store: db, first: make(chan startup, 1)}
	if _, err := startHTTPTool(store, path, nil); err != nil {
		return nil, err
	}
	select {
	case s := <-store.first:
		s.Open, s.Sweep = open, time.Since(start)
		if s.Claimed == 0 {
			return nil, errors.New("nothing was due")
		}
		return &s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
