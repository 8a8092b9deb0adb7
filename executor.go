package pawl

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// Options configure an Executor. The zero value of every field means its default.
type Options struct {
	// Worker names this process in the record; default host name, process id and a random part.
	Worker string
	// Secrets returns the secrets of a tenant, the current one first; nil means plain
	// hashes. Only the current one makes new keys; an operation keeps the key it began with,
	// and repeats find it by its identity, so a rotation orphans nothing. It is called
	// concurrently.
	Secrets func(tenant string) []Secret
	// Turn is the deadline of a call whose context has none; default 45 s.
	Turn time.Duration
	// Reserve is kept of every turn to report in; default 2 s.
	Reserve time.Duration
	// Lease is the length of a lease; default 30 s. It is renewed while its holder works.
	Lease time.Duration
	// SweepEvery is the pause between two looks for due operations; default 1 s.
	SweepEvery time.Duration
	// SweepBatch is how many operations the sweeper works on at once; default 16.
	SweepBatch int
	// PlanWarns: a plan with an irreversible step before one that may still fail is kept with
	// a warning; otherwise it is refused.
	PlanWarns bool
	// MaxOpen bounds the calls that are open in this process, reads included; default 4096.
	MaxOpen int
	// Restore is what is known of a store that is a copy; nil where it is none.
	Restore *Restore
	// Notified reports whether an operator was told that an operation waits for a person; then
	// the envelope says so. It is asked about those alone, and concurrently. Nil means no.
	Notified func(ctx context.Context, op *Operation) bool
	// Observers are told what happens.
	Observers []*Observer
	// Log takes what an operator should read; default slog.Default().
	Log *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	def := func(v *time.Duration, to time.Duration) {
		if *v <= 0 {
			*v = to
		}
	}
	def(&d.Turn, 45*time.Second)
	def(&d.Reserve, 2*time.Second)
	def(&d.Lease, 30*time.Second)
	def(&d.SweepEvery, time.Second)
	if d.SweepBatch <= 0 {
		d.SweepBatch = 16
	}
	if d.MaxOpen <= 0 {
		d.MaxOpen = 4096
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.Worker == "" {
		host, _ := os.Hostname()
		var b [4]byte
		rand.Read(b[:])
		d.Worker = fmt.Sprintf("%s/%d/%s", host, os.Getpid(), hex.EncodeToString(b[:]))
	}
	return d
}

// Executor makes each intended effect happen once. Its methods are safe for concurrent
// use. It works on its store together with any number of other executors.
//
// Without Start it settles what it can inside each call's own turn; Start adds the
// sweeper that settles the rest in the background.
type Executor struct {
	store Store
	opts  Options
	// watched: an observer is told of work that begins.
	watched bool

	mu       sync.Mutex
	tools    map[string]*Tool
	flights  map[ID]*flight
	handed   map[attemptID]awaited // permits whose callers have not reported
	open     int                   // calls that are in a turn or still driven here
	stopping chan struct{}         // closed by Stop: no new calls, no new sends
	stopped  bool
	sweeping bool
	unswept  sync.Once // says that nobody sweeps
	clock    clock
	ids      ids

	work  sync.WaitGroup // flights and the sweeper
	base  context.Context
	abort context.CancelFunc // gives up attempts that are still out
}

// New returns an executor on a store. The store stays the caller's to close, after Stop.
func New(store Store, o *Options) *Executor {
	base, abort := context.WithCancel(context.Background())
	opts := o.withDefaults()
	return &Executor{
		store: store, opts: opts, watched: slices.ContainsFunc(opts.Observers, func(o *Observer) bool { return o.Began != nil }),
		tools: make(map[string]*Tool), flights: make(map[ID]*flight), handed: make(map[attemptID]awaited),
		stopping: make(chan struct{}), base: base, abort: abort,
	}
}

// Register adds tools. It refuses a contract that contradicts itself, a port that lacks
// what its contract declares, and a name that is taken.
func (e *Executor) Register(tools ...*Tool) error {
	var errs []error
	for _, t := range tools {
		errs = append(errs, e.register(t))
	}
	return errors.Join(errs...)
}

func (e *Executor) register(t *Tool) error {
	if t == nil || t.Port == nil {
		return errors.New("register: tool without a port")
	}
	if err := t.Contract.Validate(); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	if part := lacks(t); part != "" {
		return fmt.Errorf("register: tool %q declares a %s that its port cannot make", t.Contract.Tool, part)
	}
	if _, sights := e.store.(Sighter); t.Contract.Watch != nil && !sights {
		return fmt.Errorf("register: tool %q declares a watch that the store cannot keep", t.Contract.Tool)
	}
	own := &Tool{Contract: t.Contract.WithDefaults(), Port: t.Port}
	own.Contract.Identity = slices.Clone(own.Contract.Identity)
	own.Contract.Free = slices.Clone(own.Contract.Free)
	own.Contract.Serialize = slices.Clone(own.Contract.Serialize)
	own.hash = own.Contract.Hash()
	own.handed = handedOut(own, t.Contract.Pause > 0)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, taken := e.tools[own.Contract.Tool]; taken {
		return fmt.Errorf("register: tool %q is registered already", own.Contract.Tool)
	}
	e.tools[own.Contract.Tool] = own
	return nil
}

// lacks names a part that a tool's contract declares and its port cannot make.
func lacks(t *Tool) string {
	if f, ok := t.Port.(*funcPort); ok {
		return f.lacks(&t.Contract)
	}
	_, probes := t.Port.(Prober)
	_, fences := t.Port.(Fencer)
	_, reads := t.Port.(Snapshotter)
	_, confirms := t.Port.(Confirmer)
	_, undoes := t.Port.(Compensator)
	switch {
	case t.Contract.Probe != nil && !probes:
		return "probe"
	case t.Contract.Fence != nil && !fences:
		return "fence"
	case t.Contract.Snapshot && !reads:
		return "snapshot"
	case t.Contract.Confirm != nil && !t.Contract.Confirm.Always && !confirms:
		return "confirmation"
	case t.Contract.Compensation != nil && !undoes:
		return "compensation"
	default:
		return ""
	}
}

func (e *Executor) tool(name string) *Tool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tools[name]
}

// chosen is the tool whose contract holds for a call, nil where there is none of the call's
// name. The call becomes one of that tool.
func (e *Executor) chosen(call *Call) *Tool {
	t := e.tool(call.Tool)
	if t == nil {
		return nil
	}
	s, ok := t.Port.(Selector)
	if !ok {
		return t
	}
	name, args := safeSelect(s, call.Args)
	if name == t.Contract.Tool {
		return t
	}
	own := e.tool(name)
	if own != nil {
		call.Tool, call.Args = name, args
	}
	return own
}

// Contracts returns the contracts of the registered tools, by name.
func (e *Executor) Contracts() []Contract {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []Contract
	for _, name := range slices.Sorted(maps.Keys(e.tools)) {
		list = append(list, e.tools[name].Contract)
	}
	return list
}

// Do has the effect of a call happen once and answers inside the turn: the context's
// deadline, or Options.Turn. The envelope is always true and complete. The error is nil
// unless the executor itself could not do its work, such as when its store failed; it is a
// *RecordError where the call had come as far as an operation.
//
// The context's end does not end an attempt that is out: it is listened to, and its
// answer settles the record.
func (e *Executor) Do(ctx context.Context, call Call) (Envelope, error) {
	_, env, err := e.call(ctx, &call, nil)
	return env, err
}

// call makes a call and tells the observers. Where hand is given, a permit goes to the caller.
func (e *Executor) call(ctx context.Context, call *Call, hand chan *Permit) (*Permit, Envelope, error) {
	ctx = WithTrace(ctx, call.Trace)
	if len(e.opts.Observers) == 0 {
		env, t, err := e.do(ctx, call, hand)
		return t.permit, env, err
	}
	from := time.Now()
	w := &Work{Kind: WorkCall, Call: call}
	ctx, over := e.began(ctx, w)
	env, t, err := e.do(ctx, call, hand)
	e.observe(func(o *Observer) {
		if o.Answered != nil {
			o.Answered(ctx, call, &env, time.Since(from))
		}
	})
	w.Envelope, w.Operation, w.Err = &env, t.told, err
	over()
	return t.permit, env, err
}

// do makes a call, and returns the turn that it was made in.
func (e *Executor) do(ctx context.Context, call *Call, hand chan *Permit) (Envelope, *turn, error) {
	named := call.Tool
	t := e.chosen(call)
	if t == nil {
		return e.refuse(ctx, call, refusal(ReasonUnknownTool, plainText(call.Tool), "")), &turn{}, nil
	}
	if hand != nil {
		t = t.handed
	}
	id, err := Identify(&t.Contract, call)
	if err != nil {
		var ce *CallError
		if !errors.As(err, &ce) {
			ce = &CallError{Reason: ReasonInvalidArguments, Err: err}
		}
		return e.refuse(ctx, call, refusal(ce.Reason, t.Contract.Tool, ce.Error())), &turn{}, nil
	}
	gone := ctx.Done()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(e.opts.Turn)
		own := newUntil(ctx, deadline)
		defer own.stop()
		ctx = own
	}
	turn := &turn{
		e: e, ctx: ctx, gone: gone, call: call, named: named, tool: t, id: id, effect: effectText(&t.Contract, id), hand: hand,
		deadline: deadline, end: deadline.Add(-e.opts.Reserve),
	}
	var env *Envelope
	if t.Contract.Class == Read {
		env, err = turn.read()
	} else {
		env, err = turn.run()
	}
	select { // one that was given while something else was waited for
	case turn.permit = <-hand:
	default:
	}
	if err != nil && turn.about != nil {
		err = &RecordError{Intent: turn.about, Err: err}
	}
	if env.ActionTaken == Refused {
		return e.refuse(ctx, call, env), turn, err
	}
	return *env, turn, err
}

func (e *Executor) refuse(ctx context.Context, call *Call, env *Envelope) Envelope {
	e.observe(func(o *Observer) {
		if o.Refused != nil {
			o.Refused(ctx, call, env)
		}
	})
	return *env
}

// observe tells each observer.
func (e *Executor) observe(tell func(o *Observer)) {
	for _, o := range e.opts.Observers {
		e.guard(func() { tell(o) })
	}
}

// Status reports an operation as its record stands. Another actor than the one that
// began it sees the status without the result, unless the contract shares it. The error is
// ErrNotFound, also for another tenant's operation, or the store's.
func (e *Executor) Status(ctx context.Context, tenant, actor string, id ID) (Envelope, error) {
	op, err := e.store.Get(ctx, tenant, id)
	if err != nil {
		return Envelope{}, err
	}
	return *e.envelopeFor(ctx, op, actor, Reported), nil
}

// apply makes one transition durable and returns the operation as last read or written.
// On a change by someone else meanwhile it reads the operation again and lets the rules
// decide again.
func (e *Executor) apply(ctx context.Context, op *Operation, ev *Event) (*Operation, error) {
	for range 16 {
		tr, c, next, err := change(op, ev)
		if err != nil {
			return op, err
		}
		err = e.store.Apply(ctx, c)
		if errors.Is(err, ErrHeld) && c.State.Status == Succeeded {
			// Another step has had the effect too: the record says so and claims nothing for it.
			c.Held = ClaimsHeld{}
			err = e.store.Apply(ctx, c)
		}
		if errors.Is(err, ErrStale) {
			fresh, err := e.store.Get(ctx, op.Tenant, op.ID)
			if err != nil {
				return op, fmt.Errorf("%w: %w", ErrStale, err)
			}
			op = fresh
			continue
		}
		if err != nil {
			return op, err
		}
		e.tell(ctx, next, &tr.Entry, tr.Alarms)
		return next, nil
	}
	return op, fmt.Errorf("operation %s: %w", op.ID, ErrStale)
}

// change is what an event makes of an operation: how a store takes it, and the operation
// as it is afterwards.
func change(op *Operation, ev *Event) (*Transition, *Change, *Operation, error) {
	tr, err := Step(op, ev)
	if err != nil {
		return nil, nil, nil, err
	}
	entry, err := EncodeEntry(&tr.Entry)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encode history: %w", err)
	}
	next := &Operation{Intent: op.Intent, State: tr.State}
	next.Chain = ChainHash(op.Chain, entry)
	c := &Change{ID: op.ID, Version: op.Version, Token: op.Token, State: &next.State, Held: next.held(), Entry: entry}
	return tr, c, next, nil
}

func (e *Executor) tell(ctx context.Context, op *Operation, entry *Entry, alarms []Alarm) {
	e.observe(func(o *Observer) {
		if o.Changed != nil {
			o.Changed(ctx, op, entry)
		}
		for _, a := range alarms {
			if o.Alarm != nil {
				o.Alarm(ctx, op, a)
			}
		}
	})
	for _, a := range alarms {
		e.opts.Log.LogAttrs(ctx, slog.LevelError, "alarm", slog.String("alarm", string(a)), about(&op.Intent))
	}
}

func (e *Executor) failed(ctx context.Context, what string, err error, op *Operation) {
	e.observe(func(o *Observer) {
		if o.Failed != nil {
			o.Failed(ctx, what, err)
		}
	})
	attrs := []slog.Attr{slog.String("what", what), slog.Any("error", err)}
	if op != nil {
		attrs = append(attrs, about(&op.Intent))
	}
	e.opts.Log.LogAttrs(ctx, slog.LevelWarn, "background step failed", attrs...)
}

func newToken() int64 {
	var b [8]byte
	rand.Read(b[:])
	return int64(binary.LittleEndian.Uint64(b[:])>>1 | 1)
}

// secret is the current secret of a tenant.
func (e *Executor) secret(tenant string) Secret {
	if e.opts.Secrets == nil {
		return Secret{}
	}
	if s := e.opts.Secrets(tenant); len(s) > 0 {
		return s[0]
	}
	return Secret{}
}
