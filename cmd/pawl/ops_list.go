package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

// listed is what `pawl ops list --json` writes.
type listed struct {
	Operations []operation `json:"operations"`
	// More: the list was cut at its limit.
	More bool `json:"more"`
}

const maxListed = 999

func newOpsList() *cobra.Command {
	var at place
	var q pawl.Query
	var status string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List operations, newest first",
		Long: `List operations, newest first. --open shows those that are not settled, --review
those that wait for a person.

Where the output is no terminal, each line has the tab-separated fields id, status,
tool, run, step, created, effect.`,
		Example: "  pawl ops list --review\n  pawl ops list --run run-7 --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if q.Status, err = parseStatus(status); err != nil {
				return err
			}
			limit := q.Limit
			db, err := openToLook(c, &at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			q.Limit++ // one more tells whether there are more
			ops, err := db.Find(c.Context(), q)
			if err != nil {
				return err
			}
			list := listed{Operations: []operation{}, More: len(ops) > limit}
			for _, op := range ops[:min(len(ops), limit)] {
				list.Operations = append(list.Operations, summary(op))
			}
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				return writeJSON(out, list)
			}
			writeList(out, list)
			switch {
			case len(ops) == 0:
				fmt.Fprintln(c.ErrOrStderr(), "No operations match.")
			case list.More:
				fmt.Fprintf(c.ErrOrStderr(), "There are more than %d: narrow the list, or raise --limit.\n", limit)
			}
			return nil
		},
	}
	at.flags(c)
	f := c.Flags()
	f.StringVar(&status, "status", "", "only this status, such as UNKNOWN")
	f.StringVar(&q.Tool, "tool", "", "only this tool")
	f.StringVar(&q.Run, "run", "", "only this run")
	f.BoolVar(&q.Open, "open", false, "only what is not settled")
	f.BoolVar(&q.Review, "review", false, "only what waits for a person")
	f.StringVar(&q.Tenant, "tenant", "", "tenant to look at")
	f.BoolVar(&q.AllTenants, "all-tenants", false, "look at every tenant")
	wholeFlag(c, &q.Limit, "limit", 50, 1, maxListed, "most lines")
	jsonFlag(c, &asJSON)
	return c
}

var statuses = []pawl.Status{pawl.Prepared, pawl.Pending, pawl.Succeeded, pawl.FailedNoEffect, pawl.Unknown, pawl.Compensated}

// parseStatus reads a status in any case; empty is none.
func parseStatus(s string) (pawl.Status, error) {
	status := pawl.Status(strings.ToUpper(s))
	if s != "" && !slices.Contains(statuses, status) {
		return "", usage("--status: %q is none of %v", s, statuses)
	}
	return status, nil
}

func writeList(out *terminal.Screen, list listed) {
	header := []string{"ID", "STATUS", "TOOL", "RUN", "STEP", "CREATED", "EFFECT"}
	var rows [][]terminal.Cell
	for _, op := range list.Operations {
		status, created := string(op.Status), op.Created.Format(time.RFC3339)
		if out.People() {
			created = op.Created.Local().Format("Jan 02 15:04:05")
			if !op.Review.IsZero() {
				status += " (review)"
			}
		}
		rows = append(rows, []terminal.Cell{
			{Text: op.ID}, {Text: status, Style: styleOf(op.Status)}, {Text: op.Tool}, {Text: orDash(out, op.Run)},
			{Text: orDash(out, op.Step)}, {Text: created}, {Text: op.Effect},
		})
	}
	if len(rows) > 0 {
		out.Table(header, rows)
	}
}

// orDash shows people that a field is empty.
func orDash(out *terminal.Screen, s string) string {
	if s == "" && out.People() {
		return "-"
	}
	return s
}

func itoa[T ~int | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }
