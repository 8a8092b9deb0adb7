package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
)

// exportPage is how many operations are read together.
const exportPage = 500

func newOpsExport() *cobra.Command {
	var at place
	var q pawl.Query
	var status, since, until string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write operations with their histories as JSON lines",
		Long: `Write operations with their histories as JSON lines, newest first: one object a line, as
'pawl ops show --json' writes it. It may run beside a daemon. Operations that begin
meanwhile are not in it.`,
		Example: "  pawl ops export --all-tenants > operations.jsonl\n  pawl ops export --since 2026-11-01 --tool issue_refund",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if q.Status, err = parseStatus(status); err != nil {
				return err
			}
			from, err := parseDay("--since", since)
			if err != nil {
				return err
			}
			to, err := parseDay("--until", until)
			if err != nil {
				return err
			}
			db, err := openToLook(c, &at)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			out := bufio.NewWriterSize(c.OutOrStdout(), 1<<16)
			q.Limit = exportPage
			n := 0
			for more := true; more; {
				page, err := db.Find(c.Context(), q)
				if err != nil {
					return err
				}
				more = len(page) == q.Limit
				for _, op := range page {
					q.Before = op.ID
					if !to.IsZero() && !op.Created.Before(to) {
						continue
					}
					if op.Created.Before(from) {
						more = false
						break
					}
					entries, err := db.History(c.Context(), op.Tenant, op.ID)
					if err != nil {
						return fmt.Errorf("history of %s: %w", op.ID, err)
					}
					if err := writeLine(out, detail(op, entries)); err != nil {
						return err
					}
					n++
				}
			}
			if err := out.Flush(); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			fmt.Fprintf(c.ErrOrStderr(), "%d operations.\n", n)
			return nil
		},
	}
	at.flags(c)
	f := c.Flags()
	f.StringVar(&status, "status", "", "only this status, such as UNKNOWN")
	f.StringVar(&q.Tool, "tool", "", "only this tool")
	f.StringVar(&q.Run, "run", "", "only this run")
	f.StringVar(&since, "since", "", "only what began at this day or time or later, such as 2026-11-01 or 2026-11-01T12:00:00Z")
	f.StringVar(&until, "until", "", "only what began before this day or time")
	f.StringVar(&q.Tenant, "tenant", "", "tenant to look at")
	f.BoolVar(&q.AllTenants, "all-tenants", false, "look at every tenant")
	return c
}

// writeLine writes one JSON object and the end of its line.
func writeLine(out *bufio.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err == nil {
		_, err = out.Write(printable(b.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("write operation: %w", err)
	}
	return nil
}

// parseDay reads a day, in UTC, or an instant; empty is the zero time.
func parseDay(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("%s: %q is no day such as 2026-11-01 and no time such as 2026-11-01T12:00:00Z", flag, text)
}
