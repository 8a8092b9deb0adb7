package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/server"
)

func newRestore() *cobra.Command {
	var at place
	var yes bool
	c := &cobra.Command{
		Use:   "restore",
		Short: "Say that this copy of the store is the one that lives",
		Long: `Say that this copy of the store is the one that lives.

A store that was copied, moved or restored from a backup sends nothing until a
person has said so: two living copies would each send what the other has sent, and
an old copy does not know what was sent after it was made. Before you say yes, stop
every process that uses another copy, and settle by hand what an old copy lacks.`,
		Example: "  pawl restore -c pawl.yaml --yes",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
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
			if err := db.Confirm(c.Context()); err != nil {
				return fmt.Errorf("confirm store: %w", err)
			}
			fmt.Fprintln(c.ErrOrStderr(), "Confirmed: this copy is the one that lives.")
			return nil
		},
	}
	at.flags(c)
	c.Flags().BoolVar(&yes, "yes", false, "no other copy is in use")
	return c
}
