package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/server"
)

func newOps() *cobra.Command {
	c := &cobra.Command{
		Use:     "ops",
		Short:   "Look at operations",
		Example: "  pawl ops list --review",
	}
	c.AddCommand(newOpsList(), newOpsShow(), newOpsExport())
	return c
}

// openToLook opens the store for a person who looks or decides, and warns of a store that
// may lack something.
func openToLook(c *cobra.Command, at *place) (server.Store, error) {
	db, err := server.OpenStore(c.Context(), at.existing())
	if err != nil {
		return nil, err
	}
	if why := db.Recovery(); why != nil {
		fmt.Fprintf(c.ErrOrStderr(), "Warning: %s; it may lack what was recorded last. See: pawl restore --help\n", terminal.Escape(why.Error()))
	}
	return db, nil
}
