package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/server"
)

func newPrune() *cobra.Command {
	var at place
	var keep time.Duration
	var dryRun, asJSON bool
	c := &cobra.Command{
		Use:   "prune",
		Short: "Forget operations that were settled long ago",
		Long: `Forget operations that were settled long ago, with their histories. What may still
be needed stays, however old it is: what is open or waits for a person, what the
provider may still know the key for, what may still land, what belongs to a run with
anything open or to be undone, and what a watch may compare with. A call that comes
again after its operation was forgotten is a new one, so keep operations for longer
than agents may repeat themselves.

It may run beside daemons. 'pawl serve --retain' does the same every hour, and 'pawl
ops export' writes what is to be kept elsewhere.`,
		Example: "  pawl prune --older-than 90d --dry-run\n  pawl prune --older-than 90d",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if keep < pawl.MinKeep {
				return usage("--older-than: want at least %dh, such as 90d", int(pawl.MinKeep.Hours()))
			}
			db, err := server.OpenStore(c.Context(), at.existing())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			if why := db.Recovery(); why != nil {
				return fmt.Errorf("%w: %w", server.ErrRecovery, why)
			}
			o := pawl.PruneOptions{Keep: keep, DryRun: dryRun}
			screen := terminal.New(c.ErrOrStderr())
			if screen.People() {
				o.Progress = func(p pawl.Pruned) {
					if p.Looked%10_000 == 0 {
						fmt.Fprintf(c.ErrOrStderr(), "%d looked at, %d forgotten\n", p.Looked, p.Forgotten)
					}
				}
			}
			done, err := pawl.Prune(c.Context(), db, o)
			if err != nil {
				return err
			}
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				return writeJSON(out, done)
			}
			verb := "forgotten"
			if dryRun {
				verb = "would be forgotten"
			}
			out.Line(fmt.Sprintf("%d of %d operations %s.", done.Forgotten, done.Looked, verb))
			return nil
		},
	}
	at.flags(c)
	timeFlag(c, &keep, "older-than", 90*24*time.Hour, "how long an operation is kept after its last change")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "count, and forget nothing")
	jsonFlag(c, &asJSON)
	return c
}
