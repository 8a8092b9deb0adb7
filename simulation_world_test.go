package pawl_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storetest"
)

// sim is one schedule: a store, some processes on it, providers with ledgers of their
// own, and what the simulation itself knows about all of them.
type sim struct {
	seed    uint64
	dice    dice
	open    func() pawl.Store // another handle on the store
	store   pawl.Store        // the simulation's own
	start   time.Time
	offset  atomic.Int64 // of the store's clock against the processes' and providers'
	jumps   bool         // the store's clock follows the offset
	parents map[string]string
	bad     float64     // how much goes wrong: 0 nothing, 1 a lot
	calm    atomic.Bool // nothing goes wrong any more
	breaks  atomic.Int64
	wg      sync.WaitGroup

	mu      lock // guards the remotes too
	remotes []*remote
	ops     map[pawl.ID]*record
	begins  []*record
	told    []telling
	said    map[pawl.ID][]yes
	off     map[string]bool // runs that are called off, by tenant and name
	newest  *permit         // given by the write under way
	pending int             // timers of the remotes

	notes  sync.Mutex // guards what follows
	trace  []string
	broken []string // promises
	counts map[string]int

	procs   []*process // touched by the schedule's goroutine alone
	running sync.Map   // names of the processes that are not dead
}

func newSim(seed uint64, open func() pawl.Store) *sim {
	s := &sim{
		seed: seed, dice: dice{seed}, open: open, store: open(), start: time.Now(), mu: make(lock, 1),
		ops: map[pawl.ID]*record{}, said: map[pawl.ID][]yes{}, off: map[string]bool{}, counts: map[string]int{}, parents: map[string]string{"run-1": "parent", "run-2": "parent", "run-3": "other"},
	}
	if m, ok := s.store.(*storetest.Memory); ok {
		m.SetClock(func() time.Time { return time.Now().Add(time.Duration(s.offset.Load())) })
		s.jumps = true
	}
	return s
}

// lock is a mutex in which a goroutine that waits does not hold fake time up: whoever has
// it may wait for a store that waits.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// trouble is how much goes wrong now.
func (s *sim) trouble() float64 {
	if s.calm.Load() {
		return 0
	}
	return s.bad
}

// mayBreak reports whether one more process or store may break.
func (s *sim) mayBreak() bool { return !s.calm.Load() && s.breaks.Add(-1) >= 0 }

func (s *sim) storeNow() time.Time {
	at, _ := s.store.Now(context.Background())
	return at
}

func (s *sim) remote(tool string) *remote {
	for _, r := range s.remotes {
		if r.contract.Tool == tool {
			return r
		}
	}
	return nil
}

// after runs f under the lock after a while.
func (s *sim) after(d time.Duration, f func()) {
	s.pending++
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
		s.pending--
	})
}

func (s *sim) clock(t time.Time) string { return fmt.Sprintf("%.3fs", t.Sub(s.start).Seconds()) }

func (s *sim) log(format string, args ...any) {
	line := s.clock(time.Now()) + " " + fmt.Sprintf(format, args...)
	s.notes.Lock()
	defer s.notes.Unlock()
	s.trace = append(s.trace, line)
}

// fail notes a broken promise.
func (s *sim) fail(format string, args ...any) {
	s.log("BROKEN "+format, args...)
	s.notes.Lock()
	defer s.notes.Unlock()
	s.broken = append(s.broken, s.trace[len(s.trace)-1])
}

// saw counts that something happened.
func (s *sim) saw(what string) {
	s.notes.Lock()
	defer s.notes.Unlock()
	s.counts[what]++
}

// process is one worker: an executor with a link to the store and ports of its own.
type process struct {
	s       *sim
	name    string
	ex      *pawl.Executor
	opts    pawl.Options
	link    *link
	dead    atomic.Bool
	ctx     context.Context // ends with the process
	kill    context.CancelFunc
	gone    chan struct{} // closed when nothing of a dead process runs any more
	stopped bool
}

// launch starts a process.
func (s *sim) launch(sweeps bool, edit func(*pawl.Options)) *process {
	p := &process{s: s, name: fmt.Sprintf("p%d", len(s.procs)+1), gone: make(chan struct{})}
	d := s.dice.at("process", p.name)
	p.ctx, p.kill = context.WithCancel(context.Background())
	p.link = &link{Store: s.open(), s: s, p: p}
	if d.chance(0.3 * s.bad) {
		p.link.busyFrom = time.Now().Add(d.between(0, time.Minute))
		p.link.busyTo = p.link.busyFrom.Add(d.between(0, pick(d, 3*second, 50*second)))
		p.link.busyError = pick(d, pawl.ErrBusy, pawl.ErrFull)
	}
	p.opts = pawl.Options{
		Worker: p.name, Turn: d.between(4*second, 30*second), Reserve: d.between(300*time.Millisecond, 2*second),
		Lease: d.between(2*second, 12*second), SweepEvery: d.between(500*time.Millisecond, 4*second),
		SweepBatch: 1 + d.IntN(8), MaxOpen: pick(d, 2, 64), Log: slog.New(slog.DiscardHandler),
	}
	if d.chance(0.5) {
		p.opts.Secrets = func(tenant string) []pawl.Secret {
			return []pawl.Secret{{ID: p.name, Value: []byte(strings.Repeat(p.name, 16))}}
		}
	}
	p.opts.Observers = []*pawl.Observer{{Alarm: func(_ context.Context, op *pawl.Operation, what pawl.Alarm) {
		s.saw("alarm " + string(what))
		switch {
		case what == pawl.AlarmStaleEvidence:
		case what == pawl.AlarmDuplicate && s.remote(op.Tool).match == pawl.MatchBusiness:
		default:
			s.fail("%s: alarm %s on %s", p.name, what, op.ID)
		}
	}}}
	if edit != nil {
		edit(&p.opts)
	}
	p.ex = pawl.New(p.link, &p.opts)
	for _, r := range s.remotes {
		if err := p.ex.Register(&pawl.Tool{Contract: r.contract, Port: &port{remote: r, p: p}}); err != nil {
			s.fail("%v", err)
		}
	}
	if sweeps {
		p.ex.Start()
	}
	s.procs = append(s.procs, p)
	s.running.Store(p.name, true)
	s.log("%s starts, sweeps %v, lease %v, turn %v", p.name, sweeps, p.opts.Lease, p.opts.Turn)
	return p
}

func (s *sim) alive(name string) bool {
	_, ok := s.running.Load(name)
	return ok
}

// crash ends a process as a power cut would: nothing that it has not written yet is
// written, and nothing that it has not sent yet is sent.
func (p *process) crash(when string) {
	if !p.s.mayBreak() || !p.dead.CompareAndSwap(false, true) {
		return
	}
	p.s.saw("crash")
	p.s.log("%s: crash %s", p.name, when)
	p.s.running.Delete(p.name)
	p.kill()
	go func() {
		defer close(p.gone)
		p.stop(0)
	}()
}

// stop stops the executor and checks that this is bounded.
func (p *process) stop(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	began := time.Now()
	p.ex.Stop(ctx)
	// What a stop may have to wait for besides: writes that stand still.
	if took := time.Since(began); took > grace+6*p.opts.Lease+60*second {
		p.s.fail("%s: stop took %v, with %v of grace", p.name, took, grace)
	}
}

// stop stops a process in good order, if it still runs.
func (s *sim) stop(p *process, grace time.Duration) {
	if p.stopped || p.dead.Load() {
		return
	}
	s.log("%s stops", p.name)
	p.stopped = true
	p.stop(grace)
	s.running.Delete(p.name)
}

// play runs one schedule from its seed.
func (s *sim) play() {
	d := s.dice.at("schedule")
	s.bad = pick(d, 0.3, 1, 1, 1.5)
	s.breaks.Store(int64(d.IntN(4)))
	s.offset.Store(int64(d.between(-3*time.Hour, 3*time.Hour)))
	var jumps time.Duration
	if d.chance(0.4) {
		jumps = d.between(second, 40*second)
	}
	for i := range 1 + d.IntN(2) {
		t := drawTerms(d, fmt.Sprintf("tool%d", i+1), jumps)
		s.remotes = append(s.remotes, newRemote(s, t))
		s.log("%s", describe(t))
	}
	for range 1 + d.IntN(3) {
		s.launch(d.chance(0.65), nil)
	}
	s.events(d, jumps)
	s.rest()
	s.judge()
	for _, p := range s.procs {
		if err := p.link.Store.Close(); err != nil {
			s.fail("close: %v", err)
		}
	}
	if err := s.store.Close(); err != nil {
		s.fail("close: %v", err)
	}
}

// describe renders drawn terms for a trace.
func describe(t *terms) string {
	c := &t.contract
	text := fmt.Sprintf("%s: %s scope %s repeat %s, timeout %v linger %v flight %v pause %v landing %v not-after %v retention %v convergent-for %v attempts %d generations %d serialize %v snapshot %v match %s fence on accepted %s",
		c.Tool, c.Class, c.Scope, c.Repeat, c.Timeout, c.Linger, c.Flight, c.Pause, c.Landing, c.NotAfter, c.Retention, c.ConvergentFor,
		c.MaxAttempts, c.MaxGenerations, c.Serialize, c.Snapshot, t.match, t.accepted)
	if c.Probe != nil {
		text += fmt.Sprintf(", probe %+v", *c.Probe)
	}
	if c.Fence != nil {
		text += fmt.Sprintf(", fence %+v", *c.Fence)
	}
	return text
}

// rest lets everything come to an end: nothing goes wrong any more, and one process
// that sweeps is alive.
func (s *sim) rest() {
	s.calm.Store(true)
	for _, p := range s.procs {
		s.stop(p, s.dice.at("last stop", p.name).between(0, 5*second))
	}
	s.wg.Wait()
	for _, p := range s.procs {
		if p.dead.Load() {
			<-p.gone
		}
	}
	last := s.launch(true, func(o *pawl.Options) { o.SweepEvery, o.SweepBatch = 12*second, 16 })
	d := s.dice.at("rest")
	for i := 0; i < 400 && !s.quiet(); i++ {
		time.Sleep(15 * second)
		if d.chance(0.1) {
			s.person(last, d)
			s.approvers(last, d)
		}
	}
	time.Sleep(2 * time.Minute) // for what may still land
	s.stop(last, 0)
}

// quiet reports whether every operation is settled or in review and nothing is under way.
func (s *sim) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rec := range s.begins {
		if op, _ := s.store.Get(context.Background(), rec.op.Tenant, rec.op.ID); op.Status.Open() && op.Review.IsZero() {
			return false
		}
	}
	return s.pending == 0
}
