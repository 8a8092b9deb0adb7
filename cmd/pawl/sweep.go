package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/server"
)

// swept is what `pawl sweep --json` writes.
type swept struct {
	// Settled counts what this sweep settled, Open what is left open, and Review those of
	// them that wait for a person.
	Settled int64 `json:"settled"`
	Open    int   `json:"open"`
	Review  int   `json:"review"`
	// Next is when the next of them moves by itself, if one does.
	Next time.Time `json:"next,omitzero"`
}

func newSweep() *cobra.Command {
	var at place
	var length, lease time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Settle what earlier calls left open",
		Long: `Settle what earlier calls left open: operations whose worker died and operations
that are UNKNOWN. Nothing is sent but probes, fences, and resends that the contract
allows. It ends when nobody works on anything and nothing is due within --for.`,
		Example: "  pawl sweep -c pawl.yaml --for 10m",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			var w swept
			var settled atomic.Int64
			o := at.existing()
			o.Executor = pawl.Options{
				Lease: lease, SweepEvery: 250 * time.Millisecond,
				Log: slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})),
				Observers: []*pawl.Observer{{Changed: func(_ context.Context, op *pawl.Operation, e *pawl.Entry) {
					if e.From.Open() && op.Status.Settled() {
						settled.Add(1)
					}
				}}},
			}
			s, err := server.Open(c.Context(), o)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), length)
			defer cancel()
			s.Start()
			err = awaitIdle(ctx, s)
			if err == nil {
				s.Executor().Stop(ctx)
				err = w.count(context.WithoutCancel(ctx), s.Store())
			}
			w.Settled = settled.Load()
			if err = errors.Join(err, s.Close(ctx)); err != nil {
				return err
			}
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				err = writeJSON(out, w)
			} else {
				writeSwept(out, &w, placeOf(c))
			}
			if err == nil && w.Open > 0 {
				return &exit{code: exitOpen}
			}
			return err
		},
	}
	at.flags(c)
	timeFlag(c, &length, "for", time.Minute, "longest time to work")
	timeFlag(c, &lease, "lease", 30*time.Second, "how long a worker that died keeps its lease")
	jsonFlag(c, &asJSON)
	return c
}

// awaitIdle waits until nothing that the sweeper can settle is due before ctx ends.
func awaitIdle(ctx context.Context, s *server.Server) error {
	var tools []string
	for _, k := range s.Executor().Contracts() {
		tools = append(tools, k.Tool)
	}
	end, _ := ctx.Deadline()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		busy := false
		err := eachOpen(ctx, s.Store(), func(op *pawl.Operation) {
			// A claim is somebody at work, perhaps this sweep itself.
			due := !op.Lease.IsZero() || op.Review.IsZero() && !op.Due.IsZero() && op.Due.Before(end)
			busy = busy || due && slices.Contains(tools, op.Tool)
		})
		if err == nil && !busy {
			busy, err = undoing(ctx, s)
		}
		if ctx.Err() != nil || err == nil && !busy {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// undoing reports whether a run that was called off has something left to undo.
func undoing(ctx context.Context, s *server.Server) (bool, error) {
	q := pawl.RunQuery{AllTenants: true, Status: pawl.RunAborting, Limit: 1000}
	for {
		runs, err := s.Store().FindRuns(ctx, q)
		if err != nil {
			return false, err
		}
		for _, r := range runs {
			report, err := s.Executor().RunReport(ctx, r.Tenant, r.ID)
			if err != nil {
				return false, err
			}
			// Where every operation is accounted for, the run is about to be aborted.
			waits := slices.ContainsFunc(report.Items, func(i pawl.RunItem) bool { return i.Outcome == pawl.UndoUnknown })
			undoing := slices.ContainsFunc(report.Items, func(i pawl.RunItem) bool { return i.Outcome == pawl.Undoing })
			if undoing || !waits {
				return true, nil
			}
		}
		if len(runs) < q.Limit {
			return false, nil
		}
		q.Before, q.BeforeTenant = runs[len(runs)-1].ID, runs[len(runs)-1].Tenant
	}
}

// count counts what is open and finds the next move.
func (w *swept) count(ctx context.Context, store pawl.Store) error {
	return eachOpen(ctx, store, func(op *pawl.Operation) {
		w.Open++
		switch {
		case !op.Review.IsZero():
			w.Review++
		case !op.Due.IsZero() && (w.Next.IsZero() || op.Due.Before(w.Next)):
			w.Next = op.Due.UTC()
		}
	})
}

// writeSwept says what is left, and what to do about it.
func writeSwept(out *terminal.Screen, w *swept, where string) {
	out.Line(fmt.Sprintf("%d settled, %d still open, %d of them wait for a person", w.Settled, w.Open, w.Review))
	if !w.Next.IsZero() {
		left := max(time.Until(w.Next), 0).Truncate(time.Second) + time.Second
		out.Line(fmt.Sprintf("The next move is due in %v: pawl sweep%s --for %v", left, where, left+5*time.Second))
	}
	if w.Review > 0 {
		out.Line("Who waits for a person: pawl ops list", where, " --review --all-tenants")
	}
}

// eachOpen visits every open operation of the store.
func eachOpen(ctx context.Context, store pawl.Store, visit func(*pawl.Operation)) error {
	q := pawl.Query{AllTenants: true, Open: true, Limit: 1000}
	for {
		ops, err := store.Find(ctx, q)
		if err != nil {
			return err
		}
		for _, op := range ops {
			visit(op)
		}
		if len(ops) < q.Limit {
			return nil
		}
		q.Before = ops[len(ops)-1].ID
	}
}
