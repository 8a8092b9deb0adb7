package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/gateway"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/sqlite"
)

func newWrap() *cobra.Command {
	var at place
	var run string
	var grace, lease time.Duration
	var trust bool
	var door gateway.Options
	c := &cobra.Command{
		Use:   "wrap [-c FILE] [-- COMMAND ARGS...]",
		Short: "Put pawl in front of an MCP server, on stdio",
		Long: `Put pawl in front of an MCP server: wrap speaks MCP on standard input and output,
starts COMMAND as the server behind it, and passes on what has no effect. What may have
one happens once.

With -c, what the contract file says about the server's tools counts, and without a
COMMAND every MCP upstream of the file is served. Without -c every tool is unsafe: one
request, no repeats, and doubt goes to a person. The record is in the file that --store
names; by default one for each COMMAND in the user's own folder.

The log goes to standard error.`,
		Example: "  pawl wrap -- npx -y @modelcontextprotocol/server-memory",
		RunE: func(c *cobra.Command, args []string) (err error) {
			o := &server.Options{
				Config: at.config, Store: at.store, Grace: grace, SQLite: &sqlite.Options{WALSize: 1 << 20},
				Gateway:  &door,
				Executor: pawl.Options{Lease: lease, Log: slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))},
			}
			door.Run, door.Version = runFor(run), thisBuild().Version
			if err := wrapped(o, args, trust); err != nil {
				return err
			}
			s, err := server.Open(c.Context(), o)
			if err != nil {
				return err
			}
			defer func() {
				ended, cancel := context.WithCancel(context.Background())
				cancel() // ServeStdio has waited already
				err = errors.Join(err, s.Close(ended))
			}()
			return s.ServeStdio(c.Context(), c.InOrStdin(), os.Stdout)
		},
	}
	f := c.Flags()
	f.StringVarP(&at.config, "config", "c", "", "contract file; default none")
	f.StringVar(&at.store, "store", "", "SQLite file, or postgres:// URL, of the record")
	f.StringVar(&run, "run", "", "run of calls that name none; default the process that has started wrap")
	f.BoolVar(&trust, "trust-read-only", false, "believe the server where it marks a tool as read-only (without -c)")
	gatewayFlags(c, &door)
	timeFlag(c, &lease, "lease", 30*time.Second, "how long a worker that died keeps its lease")
	timeFlag(c, &grace, "grace", 20*time.Second, "longest time to end in")
	return c
}

// gatewayFlags add what MCP clients differ in.
func gatewayFlags(c *cobra.Command, o *gateway.Options) {
	timeFlag(c, &o.Budget, "budget", 45*time.Second, "longest time to work on an MCP client's call before it is told what is known")
	c.Flags().Var(&budgets{o}, "client-budget", "the same for clients of one name, such as mcp=4s; may be given again")
	c.Flags().StringSliceVar(&o.RunKeys, "run-key", gateway.DefaultRunKeys, "keys of an MCP request's _meta that name the run")
}

// budgets is the value of --client-budget.
type budgets struct{ o *gateway.Options }

func (*budgets) String() string { return "" }

func (*budgets) Type() string { return "name=time" }

func (b *budgets) Set(text string) error {
	i := strings.LastIndexByte(text, '=')
	if i < 1 {
		return errors.New("want the name of a client and a time, such as mcp=4s")
	}
	var t timeValue
	if err := t.Set(text[i+1:]); err != nil {
		return err
	}
	if b.o.Budgets == nil {
		b.o.Budgets = make(map[string]time.Duration)
	}
	b.o.Budgets[text[:i]] = time.Duration(t)
	return nil
}

// wrapped fills in what the command line says of contract file, command and store.
func wrapped(o *server.Options, command []string, trust bool) error {
	if o.Config == "" && len(command) == 0 {
		return usage("want a contract file with -c, or the server's command after --")
	}
	if o.Config == "" {
		o.Config = "pawl wrap"
		o.Source = sourceFor(command, trust)
		if o.Store == "" {
			var err error
			if o.Store, err = storeFor(command); err != nil {
				return err
			}
		}
	} else if trust {
		return usage("--trust-read-only: the contract file says so itself: read_only_hints: trusted")
	}
	o.Servers = func(servers []*contract.MCPServer) error {
		if len(command) == 0 {
			if len(servers) == 0 {
				return errors.New("the file has no MCP upstream: name the server's command after --")
			}
			return nil
		}
		if len(servers) != 1 {
			return fmt.Errorf("the file has %d MCP upstreams, so that it is not clear which of them the command is", len(servers))
		}
		servers[0].Command, servers[0].URL = command, ""
		return nil
	}
	return nil
}

// sourceFor is the contract file of a command that nothing is declared about.
func sourceFor(command []string, trust bool) []byte {
	words, err := json.Marshal(command)
	if err != nil {
		panic("pawl: a command does not marshal: " + err.Error()) // it is text
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "version: 1\nupstreams:\n  server:\n    mcp:\n      command: %s\n      inherit_env: true\n", words)
	if trust {
		b.WriteString("      read_only_hints: trusted\n")
	}
	return b.Bytes()
}

// storeFor is the record's default place: one for each command, in the user's own folder.
func storeFor(command []string) (string, error) {
	folder, err := dataFolder()
	if err != nil {
		return "", fmt.Errorf("find the folder of the record: %w; name a file with --store", err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of the record: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join(command, "\x00")))
	return filepath.Join(folder, fmt.Sprintf("wrap-%x.db", sum[:6])), nil
}

// dataFolder is where a user's programs keep their data.
func dataFolder() (string, error) {
	if folder := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(folder) {
		return filepath.Join(folder, "pawl"), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		folder, err := os.UserConfigDir()
		return filepath.Join(folder, "pawl"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "share", "pawl"), err
}

// runFor is the run of calls that name none: what the flag or PAWL_RUN says, else the
// process that has started this one. A client that starts wrap again after it has died is
// in the same run, so that what it asks for again is not done twice.
func runFor(flag string) string {
	if run := cmp.Or(flag, os.Getenv("PAWL_RUN")); run != "" {
		return run
	}
	if parent, ok := parentProcess(); ok {
		return "client:" + parent
	}
	return "client:" + rand.Text()
}
