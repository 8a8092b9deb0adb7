package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/server"
)

// errBackup is the answer where a store has no file to copy.
var errBackup = errors.New("a store in PostgreSQL is backed up with PostgreSQL's own means, such as pg_basebackup or pg_dump")

func newBackup() *cobra.Command {
	var at place
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the store into a new file, while calls go on",
		Long: `Copy the store into a new file, while calls go on. All that was acknowledged before
is in it, and it is whole or not there at all. A file that is there already is not
touched. A store in PostgreSQL is backed up with PostgreSQL's own means.

The copy sends nothing until 'pawl restore' has confirmed that it is the one that
lives. The contract file is not in it.`,
		Example: "  pawl backup backups/pawl-2030-05-01.db",
		Args:    oneArg("FILE"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			db, err := server.OpenStore(c.Context(), at.existing())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			copies, ok := db.(interface {
				Backup(ctx context.Context, path string) error
			})
			if !ok {
				return errBackup
			}
			if err := copies.Backup(c.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "The store was copied. To go on with the copy: pawl restore --store FILE --yes\n")
			return nil
		},
	}
	at.flags(c)
	return c
}
