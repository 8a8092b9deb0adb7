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
	for _, place := range [][]byte{op.Key[:], op.IdentityClaim[8:], op.StepClaim[:], op.OnceClaim[8:]} {
		binary.BigEndian.PutUint64(place, spread)
	}
	run := pawl.RunPlace(op.Run)
	for _, claim := range []*pawl.Digest{&op.IdentityClaim, &op.OnceClaim} {
		copy(claim[:4], run[:])
		binary.BigEndian.PutUint32(claim[4:], uint32(spread))
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
	// Daemon is from the start of the binary until the provider saw its first probe.
	Daemon time.Duration `json:"daemon_ns"`
}

// startUp leaves calls open in the grown store as a crash does, and times who comes next.
func (c *campaign) startUp(ctx context.Context) error {
	p, err := newPastProvider()
	if err != nil {
		return err
	}
	defer p.close()
	o := &order{Dir: c.grownDir(), Provider: p.url(), Callers: left}
	if err := c.crashGrown(ctx, o, p); err != nil {
		return fmt.Errorf("leave calls open: %w", err)
	}
	for range c.rounds {
		var s startup
		if err := c.do(ctx, "start", o, &s); err != nil {
			return fmt.Errorf("start-up: %w", err)
		}
		if s.Daemon, err = c.daemonStart(ctx, o, p); err != nil {
			return fmt.Errorf("start-up of the daemon: %w", err)
		}
		c.Starts = append(c.Starts, s)
		fmt.Fprintf(os.Stderr, "start-up  store open after %s, first claim of %d back after %s (the claim itself %s); daemon's first probe after %s\n",
			short(s.Open), s.Claimed, short(s.Sweep), short(s.Claim), short(s.Daemon))
	}
	return nil
}

// pastProvider never answers a call and tells of calls and probes. It is the same one
// before and after the crash: a probe goes only where the call went.
type pastProvider struct {
	*provider
	called, probed chan struct{} // one value each; more probes than one are not told
	over           chan struct{}
}

func newPastProvider() (*pastProvider, error) {
	p := &pastProvider{called: make(chan struct{}), probed: make(chan struct{}, 1), over: make(chan struct{})}
	var err error
	p.provider, err = newProvider(func(r *http.Request) {
		if r.Method == http.MethodPost {
			select {
			case p.called <- struct{}{}:
				<-p.over
			case <-p.over:
			}
			return
		}
		select {
		case p.probed <- struct{}{}:
		default:
		}
	})
	return p, err
}

func (p *pastProvider) close() error {
	close(p.over)
	return p.provider.close()
}

// crashLease is the lease of the process that is killed: what it leaves is due soon.
const crashLease = 2 * time.Second

// crashGrown has a process make calls that are never answered, and kills it.
func (c *campaign) crashGrown(ctx context.Context, o *order, p *pastProvider) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	text, err := json.Marshal(o)
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
	for range o.Callers {
		select {
		case <-p.called:
		case <-ctx.Done():
			cmd.Wait() // the context has killed it
			return fmt.Errorf("the calls did not reach the provider: %s", bytes.TrimSpace(said.Bytes()))
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
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
	store, err := openStore(ctx, o)
	if err != nil {
		return none, err
	}
	l, err := startHTTPTool(store, o, &pawl.Options{Lease: crashLease})
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
	opened, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	open := time.Since(start)
	store := &claims{Store: opened, first: make(chan startup, 1)}
	if _, err := startHTTPTool(store, o, nil); err != nil {
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

// daemonStart times the binary from its start until the provider sees its first probe.
func (c *campaign) daemonStart(ctx context.Context, o *order, p *pastProvider) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	config, err := writeContract(o)
	if err != nil {
		return 0, err
	}
	select {
	case <-p.probed: // of the process before, which was killed
	default:
	}
	cmd := exec.CommandContext(ctx, c.pawl, "serve", "-c", config, "--listen", "127.0.0.1:0")
	var said bytes.Buffer
	cmd.Stderr = &said
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var took time.Duration
	select {
	case <-p.probed:
		took = time.Since(start)
	case <-ctx.Done():
		err = errors.New("no probe within a minute")
	}
	cmd.Process.Kill()
	cmd.Wait() // it was killed
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return took, nil
}
