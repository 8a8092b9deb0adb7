package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/gateway"
	"github.com/pawl-dev/pawl/server"
)

// listening is what `pawl serve --json` writes.
type listening struct {
	URL string `json:"url"`
}

func newServe() *cobra.Command {
	var at place
	var listen, tokens string
	var hosts []string
	var grace, lease, retain time.Duration
	var asJSON bool
	var door gateway.Options
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve calls over HTTP and settle what they leave open",
		Long: `Serve calls over HTTP and settle in the background what they leave open. It runs
until it is interrupted; then it takes no new calls, waits for attempts that are out
within --grace, and records what is left as UNKNOWN.

A loopback address needs no tokens. Any other one is served with --tokens alone; 'pawl
token new' makes them. /openapi.json describes the API. Where the contract file has MCP
upstreams, /mcp is an MCP server in front of them, and /mcp/NAME in front of one. The log
is JSON on stderr.`,
		Example: "  pawl serve -c pawl.yaml --listen 127.0.0.1:7295",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if retain != 0 && retain < pawl.MinKeep {
				return usage("--retain: want at least %dh, such as 90d", int(pawl.MinKeep.Hours()))
			}
			door.Version = thisBuild().Version
			logger := slog.New(slog.NewJSONHandler(c.ErrOrStderr(), nil))
			slog.SetDefault(logger)
			log.SetOutput(server.Lines(logger)) // after SetDefault, which sets it too
			log.SetFlags(0)
			s, err := server.Open(c.Context(), &server.Options{
				Config: at.config, Store: at.store, Tokens: tokens, AllowedHosts: hosts, Grace: grace, Retain: retain, Gateway: &door,
				Executor: pawl.Options{Lease: lease, Log: logger},
			})
			if err != nil {
				return err
			}
			defer func() {
				ended, cancel := context.WithCancel(context.Background())
				cancel() // Serve has waited already
				err = errors.Join(err, s.Close(ended))
			}()
			ln, err := s.Listen(c.Context(), listen)
			if err != nil {
				return err
			}
			url := "http://" + ln.Addr().String()
			out := terminal.New(c.OutOrStdout())
			if asJSON {
				err = writeJSON(out, listening{url})
			} else {
				out.Line(url)
			}
			if err != nil {
				return errors.Join(err, ln.Close())
			}
			fmt.Fprintln(c.ErrOrStderr(), "pawl is up. Its API: "+url+"/openapi.json. Ctrl-C ends it.")
			return s.Serve(c.Context(), ln)
		},
	}
	at.flags(c)
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:7295", "address to listen on; port 0 picks a free one")
	f.StringVar(&tokens, "tokens", "", "file of those who may use it; see 'pawl token new'")
	f.StringSliceVar(&hosts, "allowed-host", nil, "name under which it may be called beside localhost, such as pawl.internal")
	timeFlag(c, &lease, "lease", 30*time.Second, "how long a worker that died keeps its lease")
	timeFlag(c, &retain, "retain", 0, "how long settled operations are kept, such as 90d; without it, for ever")
	timeFlag(c, &grace, "grace", 20*time.Second, "longest time to end in")
	gatewayFlags(c, &door)
	jsonFlag(c, &asJSON)
	return c
}
