// Command trip books a hotel and a flight, sends an e-mail, and calls the trip off, in four
// endings: the flight is refused; it is not known whether the hotel was booked; the answer
// of the cancellation is lost; the e-mail is out already. The provider is a pretend one with
// a ledger of its own, which has the last word.
//
//	go run ./examples/trip
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/sandbox"
	"github.com/pawl-dev/pawl/sqlite"
)

//go:embed pawl.yaml
var contracts string

// An ending is one way in which a trip is called off.
type ending struct {
	title string
	// faults are what goes wrong at the provider.
	faults []sandbox.QueuedFault
	mail   bool
}

var endings = []ending{
	{title: "The hotel is booked, the flight is refused"},
	{title: "It is not known whether the hotel was booked", faults: []sandbox.QueuedFault{
		{Match: sandbox.Match{Method: http.MethodPost, Path: "/v1/bookings"}, Line: "reset after", Times: 1},
		{Match: sandbox.Match{Method: http.MethodGet, Path: "/v1/bookings"}, Line: "status 503 before", Times: 2},
	}},
	{title: "The answer of the cancellation is lost", faults: []sandbox.QueuedFault{
		{Match: sandbox.Match{Method: http.MethodPost, Path: "/v1/bookings/*"}, Line: "reset after", Times: 1},
	}},
	{title: "The e-mail is out already", mail: true},
}

func main() {
	if err := play(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "trip:", err)
		os.Exit(1)
	}
}

func play(ctx context.Context, out io.Writer) error {
	for i, e := range endings {
		fmt.Fprintf(out, "%d. %s\n", i+1, e.title)
		if err := e.play(ctx, out); err != nil {
			return fmt.Errorf("%s: %w", e.title, err)
		}
	}
	return nil
}

func (e *ending) play(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "trip-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	box, url, stop, err := provider(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, f := range e.faults {
		if _, err := box.AddFault(f); err != nil {
			return err
		}
	}
	store, err := sqlite.Open(filepath.Join(dir, "pawl.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	file, err := contract.Parse("pawl.yaml", []byte(strings.ReplaceAll(contracts, "http://127.0.0.1:4110", url)), nil)
	if err != nil {
		return err
	}
	defer file.Close()
	tools, err := file.Tools()
	if err != nil {
		return err
	}
	ex := pawl.New(store, &pawl.Options{Log: slog.New(slog.DiscardHandler), SweepEvery: 100 * time.Millisecond})
	defer ex.Stop(ctx)
	for i := range tools {
		if err := ex.Register(&tools[i]); err != nil {
			return err
		}
	}
	ex.Start()

	plan := []pawl.PlanStep{{Step: "1", Tool: "book_hotel", MayFail: true}, {Step: "2", Tool: "book_flight", MayFail: true}, {Step: "3", Tool: "send_email"}}
	if _, err := ex.RegisterPlan(ctx, "", "", "trip", plan); err != nil {
		return err
	}
	flight := "FULL-1"
	if e.mail {
		flight = "LX-1" // and everything goes well, until the guest falls ill
	}
	for _, call := range []pawl.Call{
		{Tool: "book_hotel", Step: "1", Args: []byte(`{"hotel":"H-1"}`)},
		{Tool: "book_flight", Step: "2", Args: []byte(`{"flight":"` + flight + `"}`)},
		{Tool: "send_email", Step: "3", Args: []byte(`{"to":"ana@example.com"}`)},
	} {
		call.Run = "trip"
		turn, cancel := context.WithTimeout(ctx, 3500*time.Millisecond)
		env, err := ex.Do(turn, call)
		cancel()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "   %-12s %s (%s)\n", call.Tool, env.Status, env.Reason)
	}
	report, err := ex.Abort(ctx, "", "trip", pawl.Abort{Who: "ana", Why: "the trip is off"})
	for err == nil && report.Run.Status != pawl.RunAborted {
		time.Sleep(50 * time.Millisecond)
		report, err = ex.RunReport(ctx, "", "trip")
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "   %s\n", report.Message)
	effects, err := box.Effects(sandbox.Filter{Run: "trip"})
	if err != nil {
		return err
	}
	var kinds []string
	for _, f := range effects {
		kinds = append(kinds, f.Kind)
	}
	fmt.Fprintf(out, "   in the provider's ledger: %s\n", strings.Join(kinds, ", "))
	return nil
}

// provider starts the pretend provider.
func provider(ctx context.Context, dir string) (*sandbox.Sandbox, string, func() error, error) {
	box, err := sandbox.Open(&sandbox.Options{Ledger: filepath.Join(dir, "ledger.db")})
	if err != nil {
		return nil, "", nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, errors.Join(err, box.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- box.Serve(ctx, ln) }()
	return box, "http://" + ln.Addr().String(), func() error {
		cancel()
		return errors.Join(<-served, box.Close())
	}, nil
}
