package drill

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/sandbox/retail"
)

// Faults says what goes wrong during a drill.
type Faults string

const (
	// FaultsNone: nothing.
	FaultsNone Faults = "none"
	// FaultsLost: every write's answer is lost.
	FaultsLost Faults = "lost"
	// FaultsMix: a seeded mix of all faults on writes and reads, killed daemons, and calls
	// that the tasks themselves lack: repeats, other words, refusals and changes of addresses.
	FaultsMix Faults = "mix"
)

// Modes are all Faults.
var Modes = []Faults{FaultsNone, FaultsLost, FaultsMix}

// Options of Run. Zero fields mean the defaults.
type Options struct {
	// Data is the domain.
	Data *retail.Data
	// Faults default to FaultsMix.
	Faults Faults
	// Seed fixes the script and what goes wrong with which request.
	Seed uint64
	// Tasks is how many tasks are played, the first ones; default all.
	Tasks int
	// AtOnce is how many tasks are played at the same time; default 48.
	AtOnce int
	// Pawl makes the command of one daemon from its arguments. It is not started yet.
	Pawl func(args ...string) *exec.Cmd
	// Store is what the daemons take as --store; default a new SQLite file in Dir. A store
	// may be used by any number of drills.
	Store string
	// Daemons is how many daemons share the store; default 1.
	Daemons int
	// KillEvery is how often one of them is killed. Nil means after every 50 calls with
	// FaultsMix and never otherwise.
	KillEvery *Every
	// Dir is where contract file, tokens, logs and store are written. It has to exist.
	Dir string
	// Progress is told how far the drill is, one call at a time; nil is fine.
	Progress func(Progress)
}

// Every is a distance between kills: a number of calls or a time. The zero Every is never.
type Every struct {
	Calls int
	Time  time.Duration
}

// Progress is how far a drill is.
type Progress struct {
	Done, Tasks, Kills, Differ int
}

const (
	// killCalls is the default distance between kills.
	killCalls = 50
	// taskTime bounds one task: it is far longer than any ladder of the contract.
	taskTime = 30 * time.Minute
	// lease is how long the claim of a killed daemon lasts.
	lease = 2 * time.Second
)

// drill is one run.
type drill struct {
	opts     Options
	nonce    string // tells this drill's tenants from another's in the same store
	provider *retail.Provider
	fleet    *fleet
	client   *client
	tokens   []string

	mu     sync.Mutex
	report *Report
}

// Run plays the tasks. An error means that the drill could not be played; what is not as it
// has to be is in the report.
func Run(ctx context.Context, o *Options) (_ *Report, err error) {
	d := &drill{opts: *o}
	d.defaults()
	began := time.Now()
	d.report = newReport(&d.opts)
	if err := d.writeFiles(); err != nil {
		return nil, err
	}
	d.provider = retail.New(o.Data, &retail.Options{Faults: dice(d.opts.Faults, d.opts.Seed)})
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := d.writeContract("http://" + ln.Addr().String()); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- d.provider.Serve(serving, d.faulty(ln)) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	d.fleet = newFleet(&d.opts, "serve", "-c", d.path("pawl.yaml"), "--store", d.opts.Store, "--tokens", d.path("tokens"),
		"--listen", "127.0.0.1:0", "--lease", lease.String(), "--json")
	d.client = newClient(d.fleet)
	defer d.client.close()
	if err := d.fleet.start(ctx); err != nil {
		return nil, errors.Join(err, d.fleet.stop())
	}
	err = d.playAll(ctx)
	if err := errors.Join(err, d.fleet.stop()); err != nil {
		return nil, err
	}
	d.report.finish(d.fleet.kills(), time.Since(began))
	return d.report, nil
}

func (d *drill) defaults() {
	o := &d.opts
	o.Faults = cmp.Or(o.Faults, FaultsMix)
	if o.Tasks <= 0 || o.Tasks > len(o.Data.Tasks) {
		o.Tasks = len(o.Data.Tasks)
	}
	o.AtOnce = cmp.Or(o.AtOnce, 48)
	o.Daemons = cmp.Or(o.Daemons, 1)
	o.Store = cmp.Or(o.Store, d.path("pawl.db"))
	if o.KillEvery == nil {
		o.KillEvery = &Every{}
		if o.Faults == FaultsMix {
			o.KillEvery.Calls = killCalls
		}
	}
	var b [4]byte
	rand.Read(b[:]) // never fails
	d.nonce = hex.EncodeToString(b[:])
}

// faulty is a listener that has what goes wrong with connections.
func (d *drill) faulty(ln net.Listener) net.Listener {
	if d.opts.Faults != FaultsMix {
		return ln
	}
	return &resetting{Listener: ln, rng: seeded(d.opts.Seed, "connections")}
}

func (d *drill) path(name string) string { return filepath.Join(d.opts.Dir, name) }

// tenant names a task's tenant: the drill's own word, and the task's number after a dash.
func (d *drill) tenant(i int) string { return fmt.Sprintf("%s-%d", d.nonce, i) }

// writeFiles writes the tokens: each task's tenant has one of its own.
func (d *drill) writeFiles() error {
	var lines strings.Builder
	for i := range d.opts.Tasks {
		var b [32]byte
		rand.Read(b[:]) // never fails
		token := "pawl_" + hex.EncodeToString(b[:])
		sum := sha256.Sum256([]byte(token))
		fmt.Fprintf(&lines, "sha256:%x tenant=%s actor=drill scopes=call,read,settle\n", sum, d.tenant(i))
		d.tokens = append(d.tokens, token)
	}
	if err := os.WriteFile(d.path("tokens"), []byte(lines.String()), 0o600); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	return nil
}

func (d *drill) writeContract(url string) error {
	text := strings.Replace(retail.Contract, retail.URL, url, 1)
	if err := os.WriteFile(d.path("pawl.yaml"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write contract file: %w", err)
	}
	return nil
}

// playAll plays the tasks, several at once, until all are done or one cannot be played.
func (d *drill) playAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unwatch := context.AfterFunc(d.fleet.failed, func() { cancel(context.Cause(d.fleet.failed)) })
	defer unwatch()
	next := make(chan int)
	var players sync.WaitGroup
	for range min(d.opts.AtOnce, d.opts.Tasks) {
		players.Go(func() {
			for i := range next {
				if err := d.play(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range d.opts.Tasks {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	players.Wait()
	return context.Cause(ctx)
}

// play plays one task and judges it.
func (d *drill) play(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, taskTime)
	defer cancel()
	task := &d.opts.Data.Tasks[i]
	tenant := d.tenant(i)
	h := &host{
		d: d, task: task, token: d.tokens[i], run: task.Name, shop: d.provider.Open(tenant),
		script: newScript(d.opts.Data, task, d.opts.Faults, d.opts.Seed), calls: map[string]int{},
	}
	defer d.provider.Close(tenant)
	for k := range h.script.steps {
		if err := h.step(ctx, k); err != nil {
			return fmt.Errorf("task %s, step %s: %w", task.Name, h.script.steps[k].id, err)
		}
	}
	if err := h.shop.AwaitQuiet(ctx); err != nil {
		return fmt.Errorf("task %s: %w", task.Name, err)
	}
	h.compare()
	ops, err := h.operations(ctx)
	if err != nil {
		return fmt.Errorf("task %s: %w", task.Name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.report.add(h, ops)
	if d.opts.Progress != nil {
		d.opts.Progress(Progress{Done: d.report.done, Tasks: d.opts.Tasks, Kills: d.fleet.kills(), Differ: len(d.report.Differ)})
	}
	return nil
}
