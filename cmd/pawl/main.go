// Pawl makes tool calls with side effects happen once.
//
// # What a program may rely on
//
// Results go to standard output, everything else to standard error. With --json a command
// writes exactly one JSON value, in these shapes, to which fields may be added:
//
//	call            the envelope (pawl.EnvelopeSchema), as has reviews decide ID
//	key             {tool, scope, identity, blob, secret_id, root, key, encodings: {NAME: KEY}}
//	ops list        {operations: [OPERATION], more}
//	ops show        {operation: OPERATION, envelope, safe_at, attempts, history: [ENTRY]}
//	reviews list    {reviews: [REVIEW], more}
//	reviews show    {review: REVIEW, detail: what ops show writes}
//	reviews decide --all  {count, decided, items: [{id, version, ok, status, code, effect}]}
//	init            {file, upstream, tools: [{tool, class, reasons, identity, effect, ...}], reads, effects, yaml}
//	import          {file, from, servers: [{server, upstream, needs, skipped}], yaml}
//	install         {file, changed, dry_run, backup, servers: [{server, line, what, why, before, after}]}
//	lint            {file, ok, problems: [{line, column, message}], findings: [{line, tool, severity, code, message, cost}]}
//	sweep           {settled, open, review, next}
//	sandbox         {url, ledger}
//	serve           {url}
//	token new       {token, line}
//	demo            {scenes: [{name, effects, expected_effects, status, settled_by, envelope}], ok}
//	drill retail    {domain, faults, seed, tasks, daemons, kills, tools: [FIGURES], total: FIGURES,
//	                differ: [{task, what: [TEXT]}], took_ms, ok}
//	version         {version, go, revision, os, arch}
//
// Times are RFC 3339 in UTC. OPERATION, REVIEW, ENTRY and FIGURES are described where they are
// defined; a drill says what its figures mean in docs/drill.md.
//
// Exit codes: 0 SUCCEEDED, or the command did what it says; 1 an error; 2 wrong use; 3
// FAILED_NO_EFFECT, which refused calls are too, or COMPENSATED; 8 still PREPARED, PENDING
// or UNKNOWN.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitNoEffect = 3
	exitOpen     = 8
)

// exit ends a command with a code and, if err is not nil, a message.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage is a command line that cannot be meant.
func usage(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// codeOf is the exit code of a status.
func codeOf(s pawl.Status) int {
	switch {
	case s == pawl.Succeeded:
		return exitOK
	case s.Open():
		return exitOpen
	default:
		return exitNoEffect
	}
}

// ended is the error that makes a command exit with the code of a status.
func ended(s pawl.Status) error {
	if code := codeOf(s); code != exitOK {
		return &exit{code: code}
	}
	return nil
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	screen := terminal.New(out)
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(screen)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	e := &exit{}
	if err != nil && !errors.As(err, &e) {
		e = &exit{exitUsage, err} // cobra's own: a flag or an argument
	}
	if lost := screen.Err(); lost != nil && e.err == nil && !errors.Is(lost, syscall.EPIPE) {
		e = &exit{max(e.code, exitError), fmt.Errorf("write output: %w", lost)}
	}
	if e.err == nil {
		return e.code
	}
	talk := terminal.New(errOut)
	talk.Printf("%s %s\n", talk.Paint(terminal.Red, "pawl:"), strings.TrimRight(terminal.EscapeLines(e.err.Error()), "\n"))
	if e.code == exitUsage {
		talk.Printf("Run '%s --help' for usage.\n", cmd.CommandPath())
	} else if hint := hintFor(e.err, placeOf(cmd)); hint != "" {
		talk.Printf("%s\n", hint)
	}
	return e.code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Make tool calls with side effects happen once",
		Long: `pawl stands between AI agents and tools with side effects: each intended effect
happens once, and its final state is true.

Exit codes: 0 SUCCEEDED or ok, 1 error, 2 wrong use, 3 FAILED_NO_EFFECT,
8 still PREPARED, PENDING or UNKNOWN.`,
		Example:       "  pawl demo",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	root.AddCommand(newDemo(), newDrill(), newCall(), newOps(), newRuns(), newReviews(), newSweep(), newServe(), newWrap(), newToken(), newKey(), newLint(), newInit(), newImport(), newInstall(), newSandbox(), newPrune(), newBackup(), newRestore(), newPrompt(), newVersion())
	root.SetUsageTemplate(usageTemplate)
	mark(root)
	return root
}

// usageTemplate is cobra's, shorter and with the example at the end.
const usageTemplate = `Usage:{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{else}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasExample}}

Example:
{{.Example}}{{end}}
`

// mark makes every error of a command's own work an exit with code 1, which tells it from
// cobra's errors about the command line.
func mark(c *cobra.Command) {
	if work := c.RunE; work != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			err := work(c, args)
			var e *exit
			if err == nil || errors.As(err, &e) {
				return err
			}
			return &exit{exitError, err}
		}
	} else if c.HasSubCommands() {
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q for %q", args[0], c.CommandPath())
			}
			return c.Help()
		}
	}
	for _, sub := range c.Commands() {
		mark(sub)
	}
}
