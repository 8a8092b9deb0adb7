package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/demo"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

func newDemo() *cobra.Command {
	var asJSON, keep, printContract bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Lose answers and kill workers, and watch each effect happen once",
		Long: `Play a support desk against a sandbox: answers are lost, a worker is killed, the
model rewords what it wants, a person is asked, trips are called off. Effects are
counted in the sandbox's own ledger, and the exit code is 1 if a single one is missing
or too many. It takes about 11 s, listens on the loopback address only, and leaves
nothing behind.`,
		Example: "  pawl demo\n  pawl demo --contract > pawl.yaml",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := terminal.New(c.OutOrStdout())
			if printContract {
				out.Printf("%s", demo.Contract)
				return nil
			}
			o := &demo.Options{Keep: keep}
			if !asJSON {
				o.Show = out
			}
			r, err := demo.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				if err := writeJSON(out, r); err != nil {
					return err
				}
			}
			if !r.OK {
				return errDemo
			}
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	c.Flags().BoolVar(&keep, "keep", false, "leave contract file, store and ledger behind to look at")
	c.Flags().BoolVar(&printContract, "contract", false, "print the demo's contract file instead")
	return c
}

var errDemo = errors.New("the demo failed: the sandbox's ledger and what was expected disagree")
