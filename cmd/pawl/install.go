package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/gateway/clients"
)

// installed is what `pawl install --json` writes.
type installed struct {
	File string `json:"file"`
	// Changed: the file is another one now, or would be without --dry-run.
	Changed bool              `json:"changed"`
	DryRun  bool              `json:"dry_run"`
	Backup  string            `json:"backup,omitempty"`
	Servers []clients.Outcome `json:"servers"`
}

func newInstall() *cobra.Command {
	var o clients.InstallOptions
	var config string
	var dry, undo, asJSON bool
	c := &cobra.Command{
		Use:   "install CLIENT|FILE",
		Short: "Put pawl in front of the servers of an MCP client",
		Long: `Put pawl in front of every server that an MCP client's configuration lists: 'pawl wrap'
starts the servers that the client starts, and with --gateway the URL of the others
becomes that of 'pawl serve'. CLIENT is ` + strings.Join(clients.Names(), ", ") + `.

Comments, other keys and their order stay. The file as it was is kept beside it, and
--undo takes pawl out again. A second install changes nothing.`,
		Example: "  pawl install cursor --dry-run",
		Args:    oneArg("CLIENT or FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if config != "" {
				path, err := filepath.Abs(config)
				if err != nil {
					return err
				}
				o.Flags = []string{"--config", path}
			}
			path, err := clients.Locate(args[0], nil)
			if err != nil {
				return err
			}
			f, err := clients.Open(path)
			if err != nil {
				return err
			}
			out := terminal.New(c.OutOrStdout())
			r := installed{File: path, DryRun: dry}
			var change *clients.Change
			var used []string
			if undo {
				change, used, err = f.Undo()
			} else {
				change, err = f.Install(&o)
			}
			if err != nil {
				return err
			}
			if r.Servers, r.Changed = change.Servers, change.Changed(); r.Changed && !dry {
				if !undo {
					if r.Backup, err = f.Backup(change); err != nil {
						return err
					}
				}
				if err := f.Replace(change); err != nil {
					return err
				}
				for _, name := range used {
					if err := os.Remove(name); err != nil {
						return fmt.Errorf("the file is as it was; its backup stays: %w", err)
					}
				}
			}
			if asJSON {
				return writeJSON(out, r)
			}
			writeInstalled(out, &r, undo)
			if _, err := exec.LookPath(o.Pawl); r.Changed && !undo && err != nil {
				terminal.New(c.ErrOrStderr()).Line(terminal.Escape(o.Pawl), " is not found in PATH here: give its whole path with --pawl")
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.Gateway, "gateway", "", "URL of the servers of 'pawl serve', such as http://127.0.0.1:4100/mcp")
	f.StringSliceVar(&o.Only, "only", nil, "servers to change; default all")
	f.StringVarP(&config, "config", "c", "", "contract file that wrap reads; default none")
	f.StringVar(&o.Pawl, "pawl", "pawl", "command that starts pawl")
	f.BoolVar(&dry, "dry-run", false, "show what would change, and change nothing")
	f.BoolVar(&undo, "undo", false, "take pawl out again")
	jsonFlag(c, &asJSON)
	return c
}

func writeInstalled(out *terminal.Screen, r *installed, undo bool) {
	for _, s := range r.Servers {
		style := terminal.Dim
		if s.What.Changes() {
			style = terminal.Green
		}
		why := ""
		if s.Why != "" {
			why = ": " + s.Why
		}
		out.Line(out.Paint(terminal.Bold, terminal.Escape(s.Server)), " ", out.Paint(style, string(s.What)), terminal.Escape(why))
		if s.What.Changes() {
			out.Line(out.Paint(terminal.Red, "  - "+terminal.Escape(commandText(s.Before))))
			out.Line(out.Paint(terminal.Green, "  + "+terminal.Escape(commandText(s.After))))
		}
	}
	switch {
	case !r.Changed:
		out.Line("Nothing to change in ", terminal.Escape(r.File), ".")
	case r.DryRun:
		out.Line("Nothing was written: this is what would change in ", terminal.Escape(r.File), ".")
	case undo:
		out.Line("Wrote ", terminal.Escape(r.File), ". Start the client again.")
	default:
		out.Line("Wrote ", terminal.Escape(r.File), ". Start the client again.")
		out.Line("As it was: ", terminal.Escape(r.Backup))
		out.Line("To undo:   pawl install ", terminal.Escape(quote(r.File)), " --undo")
	}
}

// commandText is a command line as a shell reads it.
func commandText(words []string) string {
	text := make([]string, len(words))
	for i, w := range words {
		if text[i] = w; strings.ContainsAny(w, " \t\"'$") || w == "" {
			text[i] = quote(w)
		}
	}
	return strings.Join(text, " ")
}
