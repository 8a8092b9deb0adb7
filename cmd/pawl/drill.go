package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func newDrill() *cobra.Command {
	c := &cobra.Command{
		Use:   "drill",
		Short: "Put a whole domain through the daemon, or a service to the test",
		Long: `Put a whole domain through the daemon, with answers lost and daemons killed, and
compare the provider's database with what it has to be (docs/drill.md); or try whether
a service carries each request with an Idempotency-Key out once (docs/receiver.md).`,
		Example: "  pawl drill retail --data tau-bench-v1/retail --faults lost",
	}
	c.AddCommand(newDrillRetail(), newDrillReceiver())
	return c
}

var errDrill = errors.New("the drill failed: tasks differ from what they have to be")
