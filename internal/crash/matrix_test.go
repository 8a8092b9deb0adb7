// The race detector sees nothing of other processes.
//go:build !race

package crash

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/sandbox"
)

// binary is pawl with the points in it.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pawl-crash-")
	if err == nil {
		binary = filepath.Join(dir, "pawl")
		build := exec.Command("go", "build", "-tags", "crashpoints", "-o", binary, "github.com/pawl-dev/pawl/cmd/pawl")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// A scenario is one operation. Its points are those that a daemon passes that nobody kills.
type scenario struct {
	name, tool, args string
	// service of the sandbox, and what goes wrong with the first request that wants its
	// effect, and with later ones, and with reads of it.
	service, fault string
	later, reads   []string
	// status when it is over, and so many effects.
	status  pawl.Status
	effects int
	// first is where a daemon before the one that is walked through dies.
	first string
}

var scenarios = []scenario{
	{name: "answered", tool: "refund", args: refund, service: "refunds", status: pawl.Succeeded, effects: 1},
	{name: "refused", tool: "small_refund", args: tooMuch, service: "refunds", status: pawl.FailedNoEffect},
	{name: "too many requests", tool: "refund", args: refund, service: "refunds", fault: "status 429 before", status: pawl.Succeeded, effects: 1},
	{name: "request lost", tool: "refund", args: refund, service: "refunds", fault: "reset before", status: pawl.Succeeded, effects: 1},
	{name: "answer lost", tool: "refund", args: refund, service: "refunds", fault: "reset after", status: pawl.Succeeded, effects: 1},
	{name: "answer cut", tool: "refund", args: refund, service: "refunds", fault: "cut 20 after", status: pawl.Succeeded, effects: 1},
	{name: "answer late", tool: "refund", args: refund, service: "refunds", fault: "delay 700ms after", status: pawl.Succeeded, effects: 1},
	{name: "taken over", tool: "refund", args: refund, service: "refunds", status: pawl.Succeeded, effects: 1, first: "send.after#1"},
	{name: "taken over, nothing sent", tool: "refund", args: refund, service: "refunds", status: pawl.Succeeded, effects: 1, first: "send.before#1"},
	{name: "found by a marker", tool: "ticket", args: ticket, service: "tickets", fault: "fin after", status: pawl.Succeeded, effects: 1},
	{name: "absent", tool: "ticket", args: ticket, service: "tickets", fault: "fin before", status: pawl.FailedNoEffect},
	{name: "mail", tool: "mail", args: mail, service: "emails", status: pawl.Succeeded, effects: 1},
	{name: "mail, answer lost", tool: "mail", args: mail, service: "emails", fault: "reset after", status: pawl.Unknown, effects: 1},
	{name: "fenced", tool: "stock", args: stock, service: "stock", fault: "reset before", status: pawl.FailedNoEffect},
	{name: "done before the fence", tool: "stock", args: stock, service: "stock", fault: "reset after", status: pawl.Succeeded, effects: 1},
	{name: "state", tool: "address", args: address, service: "orders", fault: "reset before", status: pawl.Succeeded, effects: 1},
	{name: "state, answer lost", tool: "address", args: address, service: "orders", fault: "reset after", status: pawl.Succeeded, effects: 1},
}

const (
	refund  = `{"order_id":"A-1182","amount":"10.00","currency":"EUR"}`
	tooMuch = `{"order_id":"A-1182","amount":"50.00","currency":"EUR"}`
	ticket  = `{"project":"ops","title":"late","ext_ref":"T-1"}`
	mail    = `{"to":"ana@example.com","template":"hello"}`
	stock   = `{"sku":"S-1","delta":5,"move_id":"M-1"}`
	address = `{"order_id":"A-1182","line1":"Rua Nova 1"}`
)

// atOnce is the number of rows under way; most of their time they wait.
const atOnce = 12

// played are the points of a row's walk at which a daemon is killed: all on SQLite. Those of
// PostgreSQL lie at the same places of the same code, so one in four is enough for a change,
// each time others for the next row; PAWL_EVERY_POINT=1 plays them all, as "make nightly" does.
func played(store string, row int, points []string) (list []string) {
	for i, point := range points {
		if store == "sqlite" || i%4 == row%4 || os.Getenv("PAWL_EVERY_POINT") != "" {
			list = append(list, point)
		}
	}
	return list
}

// TestCrashMatrix kills the daemon at the points of each scenario, on each store, and
// starts it again. The ledger then has one effect at most, and the record says the truth
// about it; a repeat of the call adds nothing.
func TestCrashMatrix(t *testing.T) {
	room := make(chan struct{}, atOnce)
	var m misses
	defer m.judge(t)
	for _, store := range []string{"sqlite", "postgres"} {
		var all sync.WaitGroup
		for row, s := range scenarios {
			all.Go(func() {
				var points []string
				room <- struct{}{}
				t.Run(store+"/"+s.name, func(t *testing.T) { points = walk(t, store, s) })
				<-room
				for _, point := range played(store, row, points) {
					all.Go(func() {
						room <- struct{}{}
						t.Run(store+"/"+s.name+"/"+point, func(t *testing.T) { kill(t, store, s, point, &m) })
						<-room
					})
				}
			})
		}
		all.Wait()
	}
}

// begin brings a scenario to where the daemon that is walked through starts.
func (s *scenario) begin(t *testing.T, store string) (*world, bool) {
	w := newWorld(t, store)
	writes, reads := sandbox.Match{Service: s.service, Method: http.MethodPost}, sandbox.Match{Service: s.service, Method: http.MethodGet}
	if s.tool == "address" {
		writes.Method = http.MethodPut
	}
	add := func(m sandbox.Match, line string) {
		if _, err := w.box.AddFault(sandbox.QueuedFault{Match: m, Line: line, Times: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if s.fault != "" {
		add(writes, s.fault)
	}
	for _, line := range s.later {
		add(writes, line)
	}
	for _, line := range s.reads {
		add(reads, line)
	}
	if s.first != "" {
		d := w.start("PAWL_CRASH=" + s.first)
		lived := d.call(s.tool, s.args) != nil
		d.kill()
		if lived { // a machine that stands still for the length of a lease has it
			return nil, false
		}
	}
	return w, true
}

// begun begins until the start is as it should be.
func begun(t *testing.T, begin func() (*world, bool)) *world {
	t.Helper()
	for range 3 {
		if w, ok := begin(); ok {
			return w
		}
	}
	t.Fatal("the start is never as it should be")
	return nil
}

// misses count the rows whose point was not passed: what happens after a time-out depends on
// the machine.
type misses struct{ rows, missed atomic.Int64 }

func (m *misses) judge(t *testing.T) {
	if rows, missed := m.rows.Load(), m.missed.Load(); missed > rows/10 {
		t.Errorf("in %d of %d rows the point was not passed, want one in ten at most", missed, rows)
	}
}

// walk plays a scenario without a kill and returns the points that were passed.
func walk(t *testing.T, store string, s scenario) []string {
	w := begun(t, func() (*world, bool) { return s.begin(t, store) })
	file := filepath.Join(t.TempDir(), "points")
	d := w.start("PAWL_CRASH_LOG=" + file)
	if s.first == "" {
		d.call(s.tool, s.args)
	}
	ops, ok := d.settle()
	if !ok || len(ops) != 1 || ops[0].Status != s.status {
		t.Errorf("operations: got %+v, want one that is %s", ops, s.status)
	}
	if n := w.effects(s); n != s.effects {
		t.Errorf("effects: got %d, want %d", n, s.effects)
	}
	d.drain()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	points := strings.Fields(string(text))
	for _, want := range []string{"change.before#1", "change.after#1"} {
		if !slices.Contains(points, want) {
			t.Errorf("points: got %v, want %s among them", points, want)
		}
	}
	return points
}

// kill plays a scenario, has the daemon die at a point, and starts another one.
func kill(t *testing.T, store string, s scenario, point string, m *misses) {
	w := begun(t, func() (*world, bool) { return s.begin(t, store) })
	d := w.start("PAWL_CRASH=" + point)
	if s.first == "" {
		d.call(s.tool, s.args)
	}
	m.rows.Add(1)
	if _, lived := d.settle(); lived {
		m.missed.Add(1)
	}
	d.kill()
	w.recover(s)
}

// recover starts a daemon on what a killed one has left, and compares what it makes of it
// with the ledger. Then the call is repeated.
func (w *world) recover(s scenario) {
	w.t.Helper()
	d := w.start("PAWL_CRASH=")
	before, ok := d.settle()
	if !ok {
		w.t.Fatal("the daemon does not live")
	}
	w.compare("after the crash", s, before)
	d.call(s.tool, s.args)
	after, ok := d.settle()
	if !ok {
		w.t.Fatal("the daemon does not live")
	}
	w.compare("after a repeat", s, after)
	if len(before) == 1 && len(after) == 1 && before[0].Status == pawl.Succeeded && after[0].ID != before[0].ID {
		w.t.Errorf("the repeat of a success is another operation")
	}
	d.drain()
}

// compare judges the record by the ledger.
func (w *world) compare(when string, s scenario, ops []api.Operation) {
	w.t.Helper()
	effects, sent := w.effects(s), w.sent(s)
	if effects > 1 {
		w.t.Errorf("%s: %d effects, want one at most", when, effects)
	}
	if len(ops) > 1 && ops[0].Generation == 0 {
		w.t.Errorf("%s: %d operations, want one", when, len(ops))
	}
	if len(ops) == 0 && sent > 0 {
		w.t.Errorf("%s: %d requests of an operation that is not on record", when, sent)
	}
	succeeded := 0
	for _, op := range ops {
		if op.Status == pawl.Succeeded {
			succeeded++
		}
		if op.Status == pawl.FailedNoEffect && len(ops) == 1 && effects != 0 {
			w.t.Errorf("%s: FAILED_NO_EFFECT with %d effects", when, effects)
		}
	}
	if succeeded > 0 && effects != 1 {
		w.t.Errorf("%s: SUCCEEDED with %d effects", when, effects)
	}
	if s.tool == "mail" && sent > 1 {
		w.t.Errorf("%s: %d requests of a tool without a key, want one at most", when, sent)
	}
}

// effects counts those in the ledger.
func (w *world) effects(s scenario) int {
	w.t.Helper()
	list, err := w.box.Effects(sandbox.Filter{Service: s.service, Run: "run-1", Pending: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list)
}

// sent counts the requests that wanted the effect.
func (w *world) sent(s scenario) int {
	w.t.Helper()
	list, err := w.box.Requests(sandbox.Filter{Service: s.service, Run: "run-1"})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list)
}
