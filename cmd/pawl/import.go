package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/contract/draft"
	"github.com/pawl-dev/pawl/gateway/clients"
)

// imported is what `pawl import --json` writes.
type imported struct {
	// File is where the contract file was written; empty for standard output.
	File    string           `json:"file"`
	From    string           `json:"from"`
	Servers []importedServer `json:"servers"`
	// YAML is the contract file where no file was written.
	YAML string `json:"yaml,omitempty"`
}

type importedServer struct {
	// Server is its name in the client's file, Upstream that in the contract file.
	Server   string `json:"server"`
	Upstream string `json:"upstream,omitempty"`
	// Needs names the variables that pawl's environment must have.
	Needs []string `json:"needs,omitempty"`
	// Skipped says why it was left out.
	Skipped string `json:"skipped,omitempty"`
}

func newImport() *cobra.Command {
	var to string
	var force, asJSON bool
	c := &cobra.Command{
		Use:   "import CLIENT|FILE",
		Short: "Draft a contract file from the servers of an MCP client",
		Long: `Draft a contract file whose upstreams are the servers that an MCP client's
configuration lists. CLIENT is ` + strings.Join(clients.Names(), ", ") + `.

Values of variables and headers are never taken over: the file names variables that
pawl's own environment then has to have. The client's file is only read.`,
		Example: "  pawl import cursor -o pawl.yaml",
		Args:    oneArg("CLIENT or FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := clients.Locate(args[0], nil)
			if err != nil {
				return err
			}
			f, err := clients.Open(path)
			if err != nil {
				return err
			}
			r := imported{From: path, Servers: []importedServer{}}
			var servers []draft.Server
			for _, i := range f.Import() {
				s := importedServer{Server: i.From, Skipped: i.Skipped}
				if i.Skipped == "" {
					s.Upstream, s.Needs = i.Server.Name, i.Needs
					servers = append(servers, i.Server)
				}
				r.Servers = append(r.Servers, s)
			}
			if len(servers) == 0 {
				return nothingImported(path, r.Servers)
			}
			text, err := draft.Upstreams(servers, filepath.Base(path))
			if err != nil {
				return err
			}
			out := terminal.New(c.OutOrStdout())
			if to == "-" {
				if r.YAML = string(text); asJSON {
					return writeJSON(out, r)
				}
				_, err := out.Write(text)
				return err
			}
			if err := writeNew(to, text, force); err != nil {
				return err
			}
			if r.File = to; asJSON {
				return writeJSON(out, r)
			}
			writeImported(out, &r)
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&to, "out", "o", "pawl.yaml", "file to write, or - for standard output")
	f.BoolVar(&force, "force", false, "overwrite the file")
	jsonFlag(c, &asJSON)
	return c
}

func nothingImported(path string, servers []importedServer) error {
	text := path + " has no server to declare"
	for _, s := range servers {
		text += fmt.Sprintf("\n%s: %s", s.Server, s.Skipped)
	}
	return &exit{exitError, fmt.Errorf("%s", text)}
}

func writeImported(out *terminal.Screen, r *imported) {
	var needs []string
	for _, s := range r.Servers {
		if s.Skipped != "" {
			out.Line(out.Paint(terminal.Bold, terminal.Escape(s.Server)), " ", out.Paint(terminal.Yellow, "skipped"), ": ", terminal.Escape(s.Skipped))
			continue
		}
		as := ""
		if s.Upstream != s.Server {
			as = " as " + s.Upstream
		}
		out.Line(out.Paint(terminal.Bold, terminal.Escape(s.Server)), " ", out.Paint(terminal.Green, "declared"), as)
		needs = append(needs, s.Needs...)
	}
	out.Line("Wrote ", terminal.Escape(r.File), ".")
	if len(needs) > 0 {
		out.Line("It needs these variables in pawl's environment: ", terminal.Escape(strings.Join(needs, ", ")))
	}
	out.Line("Draft the tools of a server with: pawl init")
}
