package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

func newPrompt() *cobra.Command {
	return &cobra.Command{
		Use:     "prompt",
		Short:   "Print the rule for an agent's system prompt",
		Example: "  pawl prompt >> system-prompt.txt",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			terminal.New(c.OutOrStdout()).Line(pawl.SystemPrompt)
			return nil
		},
	}
}
