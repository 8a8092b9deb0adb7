package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/server"
)

// granted is what `pawl token new --json` writes.
type granted struct {
	Token string `json:"token"`
	Line  string `json:"line"`
}

func newToken() *cobra.Command {
	c := &cobra.Command{
		Use:     "token",
		Short:   "Make tokens for 'pawl serve'",
		Example: "  pawl token new --tenant acme --actor agent-7",
	}
	c.AddCommand(newTokenNew())
	return c
}

func newTokenNew() *cobra.Command {
	var g server.Grant
	var lasts time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "new",
		Short: "Make a token",
		Long: `Make a token. The first line is the token, which goes to whoever uses it and is
kept nowhere; the second is the line to put into the file that 'pawl serve --tokens'
reads. To take a token back, take its line out: nothing needs a restart.

Scopes: call makes calls, read looks at the actor's own operations, settle decides
for the person that the actor is and looks at every operation of the tenant.`,
		Example: "  pawl token new --tenant acme --actor ana --scope read,settle --for 720h",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if lasts > 0 {
				g.Expires = time.Now().Add(lasts)
			}
			token, line, err := server.NewToken(g)
			var bad *server.TokenError
			if errors.As(err, &bad) {
				return usage("%w", err)
			}
			if err != nil {
				return err
			}
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				return writeJSON(out, granted{token, line})
			}
			if _, err := fmt.Fprintf(out, "%s\n%s\n", token, line); err != nil {
				return fmt.Errorf("write token: %w", err)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&g.Tenant, "tenant", "", "tenant that its calls belong to")
	f.StringVar(&g.Actor, "actor", "", "actor within the tenant; with settle, the person who decides")
	f.StringSliceVar(&g.Scopes, "scope", []string{"call", "read"}, "what it may do: call, read, settle")
	timeFlag(c, &lasts, "for", 0, "how long it holds, such as 720h; without it, until its line is taken out")
	f.Lookup("for").DefValue = "" // there is none to show
	jsonFlag(c, &asJSON)
	return c
}
