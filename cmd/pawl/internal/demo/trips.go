package demo

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/sqlite"
)

//go:embed trip.yaml
var tripContract string

// An ending is one way in which a trip is called off.
type ending struct {
	doubt  bool // it is not known whether the hotel was booked
	lost   bool // the answer of the cancellation is lost
	mailed bool // the e-mail is out already
}

// agency opens what books trips. It settles in the background.
func (d *desk) agency(ctx context.Context) (*server.Server, error) {
	if d.travel != nil {
		return d.travel, nil
	}
	config := filepath.Join(d.dir, "trip.yaml")
	if err := os.WriteFile(config, []byte(strings.Replace(tripContract, contractURL, d.url, 1)), 0o600); err != nil {
		return nil, err
	}
	travel, err := server.Open(ctx, &server.Options{
		Config: config, SQLite: &sqlite.Options{WALSize: 1 << 20},
		Executor: pawl.Options{Worker: "agency", SweepEvery: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		return nil, err
	}
	d.travel = travel
	travel.Start()
	return travel, nil
}

// trip plays a plan of three steps that is called off.
func trip(e *ending) func(context.Context, *desk, *Scene) error {
	return func(ctx context.Context, d *desk, s *Scene) error {
		at, err := d.agency(ctx)
		if err != nil {
			return err
		}
		for _, f := range e.faults() {
			if _, err := d.box.AddFault(f); err != nil {
				return err
			}
		}
		ex := at.Executor()
		plan := []pawl.PlanStep{{Step: "1", Tool: "book_hotel", MayFail: true}, {Step: "2", Tool: "book_flight", MayFail: true}, {Step: "3", Tool: "send_itinerary"}}
		if _, err := ex.RegisterPlan(ctx, "", "", s.run, plan); err != nil {
			return err
		}
		flight := "FULL-1"
		if e.mailed {
			flight = "LX-1"
		}
		for i, args := range []string{`{"hotel":"H-1"}`, fmt.Sprintf(`{"flight":%q}`, flight), fmt.Sprintf(`{"to":%q}`, s.email)} {
			turn, cancel := context.WithTimeout(ctx, 3500*time.Millisecond)
			env, err := askOf(turn, at, s, plan[i].Tool, plan[i].Step, args)
			cancel()
			if err != nil {
				return err
			}
			s.check(i != 0 || (env.Status == pawl.Unknown) == e.doubt, "the hotel is %s", env.Status)
			s.check(i != 2 || (env.Status == pawl.Succeeded) == e.mailed, "the mail is %s", env.Status)
		}
		s.addNote("Mara calls the trip off")
		report, err := ex.Abort(ctx, "", s.run, pawl.Abort{Who: "Mara", Why: "the trip is off"})
		for err == nil && report.Run.Status != pawl.RunAborted {
			time.Sleep(20 * time.Millisecond)
			report, err = ex.RunReport(ctx, "", s.run)
		}
		if err != nil {
			return err
		}
		s.addNote(report.Message)
		for _, item := range report.Items {
			want := pawl.Undone
			switch {
			case item.Tool == "send_itinerary":
				want = pawl.NotUndoable
			case item.Tool == "book_flight" && !e.mailed:
				want = pawl.NoEffect
			}
			s.check(item.Outcome == want, "%s is %s, want %s", item.Tool, item.Outcome, want)
		}
		return nil
	}
}

// faults are what goes wrong at the provider.
func (e *ending) faults() (list []sandbox.QueuedFault) {
	add := func(method, path, line string, times int) {
		list = append(list, sandbox.QueuedFault{Match: sandbox.Match{Method: method, Path: path}, Line: line, Times: times})
	}
	if e.doubt {
		add(http.MethodPost, "/v1/bookings", "reset after", 1)
		add(http.MethodGet, "/v1/bookings", "status 503 before", 2)
	}
	if e.lost {
		add(http.MethodPost, "/v1/bookings/*", "reset after", 1)
	}
	return list
}
