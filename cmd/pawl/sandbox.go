package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/sandbox"
)

// serving is what `pawl sandbox --json` writes.
type serving struct {
	URL    string `json:"url"`
	Ledger string `json:"ledger"`
}

func newSandbox() *cobra.Command {
	var listen, ledger string
	var asJSON bool
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "Run a pretend provider with a ledger of its own",
		Long: `Run a pretend provider over HTTP, with faults on request and a ledger of every
effect. It runs until it is interrupted. Its manual is docs/sandbox.md.

Services, each below /v1: ` + strings.Join(sandbox.Services(), ", ") + `.

The ledger is a temporary file unless --ledger names one. PAWL_SANDBOX_TOKEN, if set,
is the bearer token that /admin asks for.`,
		Example: `  pawl sandbox --listen 127.0.0.1:4110 --ledger ledger.db

  # lose the answer to the next refund, then see what happened in truth
  curl -H 'Content-Type: application/json' http://127.0.0.1:4110/admin/faults \
      -d '{"match":{"service":"refunds"},"line":"reset after"}'
  curl -H 'Accept: text/plain' http://127.0.0.1:4110/admin/ledger`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			talk := c.ErrOrStderr()
			s, err := sandbox.Open(&sandbox.Options{
				Ledger: ledger, AdminToken: os.Getenv("PAWL_SANDBOX_TOKEN"),
				Log: slog.New(slog.NewTextHandler(talk, &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			ln, err := (&net.ListenConfig{}).Listen(c.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			url := "http://" + ln.Addr().String()
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				if err := writeJSON(out, serving{url, ledger}); err != nil {
					return err
				}
			} else {
				out.Line(url)
			}
			fmt.Fprintln(talk, "The sandbox is up. Its ledger: "+url+"/admin/ledger. Ctrl-C ends it.")
			return s.Serve(c.Context(), ln)
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on; port 0 picks a free one")
	c.Flags().StringVar(&ledger, "ledger", "", "SQLite file of the ledger, made if there is none")
	jsonFlag(c, &asJSON)
	return c
}
