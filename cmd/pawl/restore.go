package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/server"
)

func newRestore() *cobra.Command {
	var at place
	var yes bool
	var who string
	var window time.Duration
	c := &cobra.Command{
		Use:   "restore",
		Short: "Say that this copy of the store is the one that lives",
		Long: `Say that this copy of the store is the one that lives.

A store that was copied, moved or restored from a backup sends nothing until a
person has said so: two living copies would each send what the other has sent, and
an old copy does not know what was sent after it was made. Before you say yes, stop
every process that uses another copy.

From then on nothing is sent that may have been sent before. What the copy has open
is asked about at the provider first, with the waiting times counted from now. For the
time of --window a call that the copy does not know counts as one that may have been
made: it is asked about too, sent under the same key where that is still safe, and
otherwise left to a person. Choose it as long as such calls may come again.`,
		Example: "  pawl restore -c pawl.yaml --yes --window 24h",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if window < 0 {
				return usage("--window is negative")
			}
			db, err := server.OpenStore(c.Context(), at.existing())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			why := db.Recovery()
			switch {
			case why == nil:
				fmt.Fprintln(c.ErrOrStderr(), "Nothing to do: the store is the one that was last used.")
				return nil
			case !yes:
				return usage("%w: add --yes if no other copy is in use", why)
			}
			r, err := restored(c.Context(), db, window, who)
			if err != nil {
				return err
			}
			n, err := pawl.Recover(c.Context(), db, r)
			if err != nil {
				return err
			}
			if err := db.Confirm(c.Context(), r); err != nil {
				return fmt.Errorf("confirm store: %w", err)
			}
			fmt.Fprintln(c.ErrOrStderr(), "Confirmed: this copy is the one that lives.")
			fmt.Fprintf(c.ErrOrStderr(), "Open operations in it, to be asked about first: %d.\n", n)
			fmt.Fprintf(c.ErrOrStderr(), "Calls that it does not know are asked about first until %s.\n", r.Until.Format(time.RFC3339))
			return nil
		},
	}
	at.flags(c)
	f := c.Flags()
	f.BoolVar(&yes, "yes", false, "no other copy is in use")
	f.StringVar(&who, "who", "", "who says so; default the user of this machine")
	timeFlag(c, &window, "window", 24*time.Hour, "how long calls may come again that were made after the copy")
	return c
}

// restored is a restore of the store now. A copy is known to be whole up to the beginning of
// its newest operation.
func restored(ctx context.Context, db server.Store, window time.Duration, who string) (*pawl.Restore, error) {
	now, err := db.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("clock of the store: %w", err)
	}
	newest, err := db.Find(ctx, pawl.Query{AllTenants: true, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("newest operation: %w", err)
	}
	if who == "" {
		who = "unknown"
		if u, err := user.Current(); err == nil && u.Username != "" {
			who = u.Username
		}
	}
	r := &pawl.Restore{At: now.Truncate(time.Microsecond), Until: now.Add(window).Truncate(time.Microsecond), By: who}
	if len(newest) > 0 && newest[0].Created.Before(r.At) {
		r.Copied = newest[0].Created.Truncate(time.Microsecond)
	}
	return r, nil
}
