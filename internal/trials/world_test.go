package trials

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/postgres"
	"github.com/pawl-dev/pawl/sqlite"
)

const (
	// patience bounds every wait of a script.
	patience = 20 * time.Second
	// turn is the deadline of a call that names none.
	turn = 5 * time.Second
)

// A world is everything that one script plays with: a provider, executors that share a
// store, processes, and a view of the store that belongs to none of them.
type world struct {
	t   *testing.T
	at  string // the line that is played
	out bytes.Buffer

	dir      string
	provider *provider
	config   map[string]any // the contract file
	database string         // URL of a PostgreSQL database; empty for SQLite
	stores   int            // how many stores there were
	view     pawl.Store

	executors map[string]*executor
	how       map[string]terms // how executors and processes are opened, by name
	calls     map[string]*background
	processes map[string]*process
	permits   map[string]*handed

	renewed int // leases that until saw, and the last one
	lease   time.Time

	ops  map[string]string // names of operations by id
	last *pawl.Envelope    // of the call that was answered last

	mu     sync.Mutex
	alarms []string
}

// terms are how an executor is opened.
type terms struct {
	Worker string
	Lease  time.Duration
	Batch  int
}

// newWorld makes a world whose stores are files, or schemas in the database of a URL.
func newWorld(t *testing.T, database string) *world {
	t.Helper()
	w := &world{
		t: t, dir: t.TempDir(), database: database, executors: map[string]*executor{}, how: map[string]terms{}, calls: map[string]*background{},
		processes: map[string]*process{}, permits: map[string]*handed{}, ops: map[string]string{},
	}
	w.provider = newProvider(t)
	raw, err := os.ReadFile("testdata/pawl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &w.config); err != nil {
		t.Fatal(err)
	}
	w.config["upstreams"].(map[string]any)["shop"].(map[string]any)["url"] = w.provider.url()
	t.Cleanup(w.close)
	return w
}

// close ends everything in the reverse order of its beginning.
func (w *world) close() {
	w.provider.box.Release(0)
	for _, p := range w.processes {
		p.end()
	}
	for _, c := range w.calls {
		c.cancel()
		<-c.done
	}
	for _, name := range slices.Collect(maps.Keys(w.executors)) {
		w.stop(name)
	}
	if w.view != nil {
		if err := w.view.Close(); err != nil {
			w.t.Errorf("close the view of the store: %v", err)
		}
	}
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s: %s", w.at, fmt.Sprintf(format, args...))
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.fatalf("%v", err)
	}
}

func (w *world) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

// storeAt says where the store is that is in use: a file, or a URL with a schema behind #.
func (w *world) storeAt() string {
	if w.database != "" {
		return fmt.Sprintf("%s#ops%d", w.database, w.stores)
	}
	return filepath.Join(w.dir, fmt.Sprintf("ops%d.db", w.stores))
}

// write writes the contract file as it stands and returns its path.
func (w *world) write() string {
	text, err := yaml.Marshal(w.config)
	w.check(err)
	path := filepath.Join(w.dir, "pawl.yaml")
	w.check(os.WriteFile(path, text, 0o600))
	return path
}

// record is the view of the store.
func (w *world) record() pawl.Store {
	if w.view == nil {
		db, err := openStore(w.storeAt())
		w.check(err)
		w.view = db
	}
	return w.view
}

func openStore(at string) (pawl.Store, error) {
	if url, schema, ok := strings.Cut(at, "#"); ok {
		return postgres.Open(context.Background(), url, &postgres.Options{Schema: schema, Writers: 1, Readers: 2})
	}
	return sqlite.Open(at, &sqlite.Options{WALSize: 1 << 20, Reserve: 64 << 10})
}

// An executor with its tools and its way to the store.
type executor struct {
	*pawl.Executor
	file  *contract.File
	store *gate
}

// openExecutor opens what a contract file describes on a store.
func openExecutor(config, store string, o *pawl.Options) (*executor, error) {
	file, err := contract.Load(config, nil)
	if err != nil {
		return nil, err
	}
	tools, err := file.Tools()
	if err != nil {
		return nil, err
	}
	db, err := openStore(store)
	if err != nil {
		return nil, err
	}
	e := &executor{file: file, store: newGate(db)}
	e.Executor = pawl.New(e.store, o)
	for i := range tools {
		if err := e.Register(&tools[i]); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *executor) close(ctx context.Context) error {
	e.store.openAll()
	e.Stop(ctx)
	e.file.Close()
	return e.store.Close()
}

// options are those of an executor or a process of the given name.
func (t terms) options(name string) *pawl.Options {
	o := &pawl.Options{
		Worker: name, Turn: turn, Reserve: 200 * time.Millisecond, Lease: 2 * time.Second, SweepEvery: 50 * time.Millisecond,
		SweepBatch: 64, Log: slog.New(slog.DiscardHandler),
	}
	if t.Worker != "" {
		o.Worker = t.Worker
	}
	if t.Lease > 0 {
		o.Lease = t.Lease
	}
	if t.Batch > 0 {
		o.SweepBatch = t.Batch
	}
	return o
}

// executor returns the executor of a name and opens it where it is not.
func (w *world) executor(name string) *executor {
	if e, ok := w.executors[name]; ok {
		return e
	}
	o := w.how[name].options(name)
	o.Observers = []*pawl.Observer{{Alarm: func(_ context.Context, op *pawl.Operation, what pawl.Alarm) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.alarms = append(w.alarms, string(what))
	}}}
	e, err := openExecutor(w.write(), w.storeAt(), o)
	w.check(err)
	w.executors[name] = e
	return e
}

// stop ends an executor at once: what is out is given up.
func (w *world) stop(name string) {
	e := w.executors[name]
	if e == nil {
		return
	}
	delete(w.executors, name)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.close(ctx); err != nil {
		w.t.Errorf("%s: stop %s: %v", w.at, name, err)
	}
}

// name is what a script calls an operation.
func (w *world) name(id string) string {
	if id == "" {
		return "-"
	}
	if w.ops[id] == "" {
		w.ops[id] = fmt.Sprintf("op%d", len(w.ops)+1)
	}
	return w.ops[id]
}

// operation finds an operation by its name; nil where there is none so far. Operations
// that were in no answer yet get their names in the order in which they began.
func (w *world) operation(name string) *pawl.Operation {
	list := w.operations()
	for _, op := range list {
		if w.ops[op.ID.String()] == name {
			return op
		}
	}
	for _, op := range list {
		if w.name(op.ID.String()) == name {
			return op
		}
	}
	return nil
}

// known is operation for one that must be there.
func (w *world) known(name string) *pawl.Operation {
	op := w.operation(name)
	if op == nil {
		w.fatalf("no operation is called %s so far", name)
	}
	return op
}

// operations lists what is on record, oldest first.
func (w *world) operations() []*pawl.Operation {
	list, err := w.record().Find(context.Background(), pawl.Query{AllTenants: true, Limit: 1000})
	w.check(err)
	slices.Reverse(list)
	return list
}

// set changes a term of the contract file: "pay/timeout" under tools, a YAML value; an
// empty one takes the term away.
func (w *world) set(path, value string) {
	w.mustBeStopped()
	names := append([]string{"tools"}, strings.Split(path, "/")...)
	at := w.config
	for _, n := range names[:len(names)-1] {
		next, ok := at[n].(map[string]any)
		if !ok {
			w.fatalf("%s: %q is no mapping in the contract file", path, n)
		}
		at = next
	}
	last := names[len(names)-1]
	if value == "" {
		if _, ok := at[last]; !ok {
			w.fatalf("%s is not in the contract file", path)
		}
		delete(at, last)
		return
	}
	var v any
	w.check(yaml.Unmarshal([]byte(value), &v))
	at[last] = v
}

// mustBeStopped keeps a script from changing a file that was read already.
func (w *world) mustBeStopped() {
	if len(w.executors) > 0 {
		w.fatalf("an executor has read the contract file: stop it first")
	}
}

// copyTool gives a tool a second name.
func (w *world) copyTool(from, to string) {
	w.mustBeStopped()
	tools := w.config["tools"].(map[string]any)
	raw, err := json.Marshal(tools[from])
	w.check(err)
	var v any
	w.check(yaml.Unmarshal(raw, &v))
	tools[to] = v
}
