package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

func newRuns() *cobra.Command {
	c := &cobra.Command{
		Use:     "runs",
		Short:   "Look at runs, and call one off",
		Example: "  pawl runs list",
	}
	c.AddCommand(newRunsList(), newRunsShow(), newRunsAbort())
	return c
}

// listedRuns is what `pawl runs list --json` writes.
type listedRuns struct {
	Runs []*pawl.Run `json:"runs"`
	// More: the list was cut at its limit.
	More bool `json:"more"`
}

func newRunsList() *cobra.Command {
	var at place
	var q pawl.RunQuery
	var status string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Long: `List runs, newest first. A run is aborting when it was called off and something is
still to be done or to be found out, and aborted when nothing is.

Where the output is no terminal, each line has the tab-separated fields run, status,
tenant, created, steps planned, who called it off.`,
		Example: "  pawl runs list --status aborting",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			switch q.Status = pawl.RunStatus(strings.ToLower(status)); q.Status {
			case "", pawl.RunOpen, pawl.RunAborting, pawl.RunAborted:
			default:
				return usage("--status: %q is none of open, aborting, aborted", status)
			}
			limit := q.Limit
			db, err := openToLook(c, &at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			q.Limit++ // one more tells whether there are more
			runs, err := db.FindRuns(c.Context(), q)
			if err != nil {
				return err
			}
			list := listedRuns{Runs: append([]*pawl.Run{}, runs[:min(len(runs), limit)]...), More: len(runs) > limit}
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				return writeJSON(out, list)
			}
			writeRuns(out, list.Runs)
			switch {
			case len(runs) == 0:
				fmt.Fprintln(c.ErrOrStderr(), "No runs match.")
			case list.More:
				fmt.Fprintf(c.ErrOrStderr(), "There are more than %d: narrow the list, or raise --limit.\n", limit)
			}
			return nil
		},
	}
	at.flags(c)
	f := c.Flags()
	f.StringVar(&status, "status", "", "only this status: open, aborting or aborted")
	f.StringVar(&q.Tenant, "tenant", "", "tenant to look at")
	f.BoolVar(&q.AllTenants, "all-tenants", false, "look at every tenant")
	wholeFlag(c, &q.Limit, "limit", 50, 1, maxListed, "most lines")
	jsonFlag(c, &asJSON)
	return c
}

func styleOfRun(s pawl.RunStatus) terminal.Style {
	if s == pawl.RunAborting {
		return terminal.Yellow
	}
	return terminal.Green
}

func writeRuns(out *terminal.Screen, runs []*pawl.Run) {
	var rows [][]terminal.Cell
	for _, r := range runs {
		created, planned, who := r.Created.UTC().Format(time.RFC3339), "", ""
		if out.People() {
			created = r.Created.Local().Format("Jan 02 15:04:05")
		}
		if r.Plan != nil {
			planned = itoa(len(r.Plan.Steps))
		}
		if r.Abort != nil {
			who = r.Abort.Who
		}
		rows = append(rows, []terminal.Cell{
			{Text: r.ID}, {Text: string(r.Status), Style: styleOfRun(r.Status)}, {Text: orDash(out, r.Tenant)}, {Text: created},
			{Text: orDash(out, planned)}, {Text: orDash(out, who)},
		})
	}
	if len(rows) > 0 {
		out.Table([]string{"RUN", "STATUS", "TENANT", "CREATED", "PLANNED", "CALLED OFF BY"}, rows)
	}
}

func newRunsShow() *cobra.Command {
	var at place
	var tenant string
	var asJSON bool
	c := &cobra.Command{
		Use:     "show RUN",
		Short:   "Show a run and what has become of its operations",
		Example: "  pawl runs show run-7",
		Args:    oneArg("RUN"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			db, err := openToLook(c, &at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			report, err := deciding(db).RunReport(c.Context(), tenant, args[0])
			if errors.Is(err, pawl.ErrNotFound) {
				return fmt.Errorf("run %s: nothing is known of it", quote(args[0]))
			}
			if err != nil {
				return err
			}
			return writeReport(terminal.New(c.OutOrStdout()), report, asJSON)
		},
	}
	at.flags(c)
	c.Flags().StringVar(&tenant, "tenant", "", "tenant of the run")
	jsonFlag(c, &asJSON)
	return c
}

// writeReport shows a run: its operations, what has become of them and what is to be done.
func writeReport(out *terminal.Screen, r *pawl.RunReport, asJSON bool) error {
	if asJSON {
		return writeJSON(out, r)
	}
	facts := [][2]string{{"run", r.Run.ID}, {"status", string(r.Run.Status)}, {"tenant", r.Run.Tenant}, {"created", when(r.Run.Created)}}
	if a := r.Run.Abort; a != nil {
		facts = append(facts, [2]string{"called off", when(a.At) + " by " + a.Who + ": " + a.Why})
	}
	if p := r.Run.Plan; p != nil {
		var steps []string
		for _, s := range p.Steps {
			text := s.Step + " " + s.Tool
			if s.MayFail {
				text += " (may fail)"
			}
			if s.Irreversible {
				text += " (irreversible)"
			}
			steps = append(steps, text)
		}
		facts = append(facts, [2]string{"plan", strings.Join(steps, ", ")})
	}
	writeFacts(out, facts)
	var rows [][]terminal.Cell
	for _, i := range r.Items {
		note := i.Why
		switch {
		case i.Corrective != "":
			note += "; to do: " + i.Corrective
		case i.Leaves != "":
			note = "leaves " + i.Leaves
		}
		rows = append(rows, []terminal.Cell{
			{Text: i.Operation.String()}, {Text: orDash(out, i.Step)}, {Text: string(i.Status), Style: styleOf(i.Status)},
			{Text: orDash(out, string(i.Outcome))}, {Text: i.Effect}, {Text: orDash(out, note)},
		})
	}
	if len(rows) > 0 {
		out.Table([]string{"OPERATION", "STEP", "STATUS", "OUTCOME", "EFFECT", "NOTE"}, rows)
	}
	out.Line(terminal.Escape(r.Message))
	return nil
}

func newRunsAbort() *cobra.Command {
	var at place
	var tenant string
	var a pawl.Abort
	var asJSON bool
	c := &cobra.Command{
		Use:   "abort RUN",
		Short: "Call a run off: begin nothing more, settle doubt, undo what happened",
		Long: `Call a run off. From then on no step of it begins. What is in doubt is settled and
what happened is undone, the last first, by 'pawl serve' or 'pawl sweep'; 'pawl runs
show' says how far it is. A run that was called off already stays as it is.`,
		Example: "  pawl runs abort run-7 --who ana --why 'the guest cancelled'",
		Args:    oneArg("RUN"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if strings.TrimSpace(a.Who) == "" || strings.TrimSpace(a.Why) == "" {
				return usage("an abort names --who calls the run off and --why")
			}
			db, err := openToLook(c, &at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			report, err := deciding(db).Abort(c.Context(), tenant, args[0], a)
			var bad *pawl.CallError
			switch {
			case errors.As(err, &bad):
				return usage("RUN: %w", bad)
			case err != nil:
				return fmt.Errorf("abort run %s: %w", quote(args[0]), err)
			}
			return writeReport(terminal.New(c.OutOrStdout()), report, asJSON)
		},
	}
	at.flags(c)
	f := c.Flags()
	f.StringVar(&a.Who, "who", "", "who calls the run off")
	f.StringVar(&a.Why, "why", "", "why")
	f.StringVar(&tenant, "tenant", "", "tenant of the run")
	jsonFlag(c, &asJSON)
	return c
}
