// The race detector sees nothing of other processes.
//go:build !race

package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/sandbox"
)

// A trip is a run that is called off. The daemon dies at each point that it passes from the
// abort on, and another one goes on.
type trip struct {
	name string
	// hotel is what becomes of the booking of the hotel, cancel of the request that undoes it.
	hotel, cancel string
	// reads is what becomes of the first reads.
	reads string
	// item is the hotel.
	item string
	// outcomes of hotel, flight and e-mail when all is over, and effects of kinds.
	outcomes []pawl.UndoOutcome
	effects  map[string]int
}

var trips = []trip{
	{name: "flight rejected", outcomes: []pawl.UndoOutcome{pawl.Undone, pawl.NoEffect, pawl.NotUndoable},
		effects: map[string]int{"booking.hotel": 1, "booking.cancel": 1, "email.send": 1}},
	{name: "hotel unknown", hotel: "reset after", reads: "status 500 before", outcomes: []pawl.UndoOutcome{pawl.Undone, pawl.NoEffect, pawl.NotUndoable},
		effects: map[string]int{"booking.hotel": 1, "booking.cancel": 1, "email.send": 1}},
	{name: "hotel unknown and never booked", hotel: "reset before", reads: "status 500 before", outcomes: []pawl.UndoOutcome{pawl.NoEffect, pawl.NoEffect, pawl.NotUndoable},
		effects: map[string]int{"email.send": 1}},
	{name: "answer of the cancellation lost", cancel: "reset after", outcomes: []pawl.UndoOutcome{pawl.Undone, pawl.NoEffect, pawl.NotUndoable},
		effects: map[string]int{"booking.hotel": 1, "booking.cancel": 1, "email.send": 1}},
	{name: "cancellation refused", item: "FINAL-1", outcomes: []pawl.UndoOutcome{pawl.UndoRefused, pawl.NoEffect, pawl.NotUndoable},
		effects: map[string]int{"booking.hotel": 1, "email.send": 1}},
}

// TestAbortMatrix kills the daemon at the points of each abort, on each store. In the
// ledger each compensation has one effect, and none where there was nothing to undo.
func TestAbortMatrix(t *testing.T) {
	room := make(chan struct{}, atOnce)
	var m misses
	defer m.judge(t)
	for _, store := range []string{"sqlite", "postgres"} {
		var all sync.WaitGroup
		for row, s := range trips {
			all.Go(func() {
				var points []string
				room <- struct{}{}
				t.Run(store+"/"+s.name, func(t *testing.T) { points = s.walk(t, store) })
				<-room
				for _, point := range played(store, row, points) {
					all.Go(func() {
						room <- struct{}{}
						t.Run(store+"/"+s.name+"/"+point, func(t *testing.T) { s.kill(t, store, point, &m) })
						<-room
					})
				}
			})
		}
		all.Wait()
	}
}

// begin books the trip by a daemon that then dies, so that what follows is an abort alone.
func (s *trip) begin(t *testing.T, store string) (*world, bool) {
	w := newWorld(t, store)
	add := func(m sandbox.Match, line string, times int) {
		if line == "" {
			return
		}
		if _, err := w.box.AddFault(sandbox.QueuedFault{Match: m, Line: line, Times: times}); err != nil {
			t.Fatal(err)
		}
	}
	add(sandbox.Match{Method: http.MethodPost, Path: "/v1/bookings"}, s.hotel, 1)
	add(sandbox.Match{Method: http.MethodGet, Path: "/v1/bookings"}, s.reads, 4)
	d := w.start("PAWL_CRASH=")
	item := s.item
	if item == "" {
		item = "H-1"
	}
	d.step("1", "hotel", `{"item":"`+item+`"}`)
	d.step("2", "flight", `{"item":"FULL-1"}`)
	d.step("3", "mail", mail)
	d.kill()
	list, err := w.box.Effects(sandbox.Filter{Run: "run-1", Kind: "booking.hotel"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != s.effects["booking.hotel"] { // a machine that stands still makes a call too late to be sent
		return nil, false
	}
	if s.cancel != "" {
		add(sandbox.Match{Method: http.MethodPost, Path: "/v1/bookings/" + list[0].ObjectID + "/cancel"}, s.cancel, 1)
	}
	return w, true
}

func (d *daemon) step(step, tool, args string) {
	d.t.Helper()
	body := fmt.Sprintf(`{"tool":%q,"run":"run-1","step":%q,"args":%s,"deadline_ms":6000}`, tool, step, args)
	answer, err := http.Post(d.url+"/v1/calls", "application/json", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	answer.Body.Close()
}

// abort calls the run off; the answer may never come.
func (d *daemon) abort() {
	answer, err := http.Post(d.url+"/v1/runs/run-1/abort", "application/json", strings.NewReader(`{"who":"ana","why":"the trip is off"}`))
	if err == nil {
		answer.Body.Close()
	}
}

// over waits until nothing is left to do for the run. It ends early, and reports false, if
// the daemon dies.
func (d *daemon) over() (*api.RunReport, bool) {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var report api.RunReport
		answer, err := http.Get(d.url + "/v1/runs/run-1")
		if err == nil {
			err = json.NewDecoder(answer.Body).Decode(&report)
			answer.Body.Close()
		}
		if d.died() {
			return nil, false
		}
		if err == nil && report.Status == pawl.RunAborted {
			return &report, true
		}
		if time.Now().After(end) {
			d.t.Fatalf("the run is not over: %+v %v", report, err)
		}
	}
}

// walk aborts without a kill and returns the points that were passed.
func (s trip) walk(t *testing.T, store string) []string {
	w := begun(t, func() (*world, bool) { return s.begin(t, store) })
	file := filepath.Join(t.TempDir(), "points")
	d := w.start("PAWL_CRASH_LOG=" + file)
	d.abort()
	report, ok := d.over()
	if !ok {
		t.Fatal("the daemon does not live")
	}
	s.judge(t, w, report)
	d.drain()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	points := strings.Fields(string(text))
	for _, want := range []string{"run.before#1", "run.after#1", "run.claim.after#1", "change.after#1"} {
		if !slices.Contains(points, want) {
			t.Errorf("points: got %v, want %s among them", points, want)
		}
	}
	return points
}

// kill has the daemon die at a point of the abort, and starts another one. Whoever called
// the run off and had no answer says so again.
func (s trip) kill(t *testing.T, store, point string, m *misses) {
	w := begun(t, func() (*world, bool) { return s.begin(t, store) })
	d := w.start("PAWL_CRASH=" + point)
	d.abort()
	m.rows.Add(1)
	if _, lived := d.over(); lived {
		m.missed.Add(1)
	}
	d.kill()
	d = w.start("PAWL_CRASH=")
	d.abort()
	report, ok := d.over()
	if !ok {
		t.Fatal("the daemon does not live")
	}
	s.judge(t, w, report)
	d.step("4", "hotel", `{"item":"H-2"}`) // nothing begins any more
	s.judge(t, w, report)
	d.drain()
}

// judge compares what is reported with the ledger.
func (s *trip) judge(t *testing.T, w *world, report *api.RunReport) {
	t.Helper()
	var outcomes []pawl.UndoOutcome
	for _, item := range report.Items {
		outcomes = append(outcomes, item.Outcome)
	}
	if !slices.Equal(outcomes, s.outcomes) {
		t.Errorf("got outcomes %v, want %v: %s", outcomes, s.outcomes, report.Message)
	}
	list, err := w.box.Effects(sandbox.Filter{Run: "run-1", Pending: true})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, e := range list {
		got[e.Kind]++
	}
	if fmt.Sprint(got) != fmt.Sprint(s.effects) {
		t.Errorf("effects: got %v, want %v", got, s.effects)
	}
}
