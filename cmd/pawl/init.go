package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/contract/draft"
)

// initialised is what `pawl init --json` writes.
type initialised struct {
	// File is where the draft was written; empty for standard output, which it then is in.
	File string `json:"file"`
	*draft.Draft
	// YAML is the draft where no file was written.
	YAML string `json:"yaml,omitempty"`
}

func newInit() *cobra.Command {
	var o draft.Options
	var to string
	var env, headers []string
	var force, asJSON bool
	c := &cobra.Command{
		Use:   "init [FILE...] [-- CMD ARGS...]",
		Short: "Draft a contract file from a server's tools",
		Long: `Draft a contract file: every tool is read or unsafe, with the reasons beside it, and
each guess is marked for a person to confirm. Tools come from saved tool lists (FILE);
without one, from the MCP server that CMD starts or that answers at --url. With FILE,
CMD and --url only say in the draft how the server is reached.

Nothing of the server is called but its list of tools.`,
		Example: "  pawl init --name git -- npx -y @cyanheads/git-mcp-server",
		RunE: func(c *cobra.Command, args []string) error {
			files := args
			if n := c.ArgsLenAtDash(); n >= 0 {
				files, o.Server.Command = args[:n], args[n:]
			}
			switch {
			case len(o.Server.Command) > 0 && o.Server.URL != "":
				return usage("a server is started by CMD or reached at --url, not both")
			case len(files) == 0 && len(o.Server.Command) == 0 && o.Server.URL == "":
				return usage("whose tools? name a FILE with a tool list, a server's --url, or its command after --")
			}
			if o.Server.Name == "" {
				o.Server.Name = nameOf(files)
			}
			if err := settings(&o.Server, env, headers); err != nil {
				return err
			}
			tools, err := listedIn(c.Context(), files, &o, c.ErrOrStderr())
			if err != nil {
				return err
			}
			d, err := draft.New(tools, &o)
			if err != nil {
				return err
			}
			out := terminal.New(c.OutOrStdout())
			if to == "-" {
				if asJSON {
					return writeJSON(out, initialised{Draft: d, YAML: string(d.YAML())})
				}
				_, err := out.Write(d.YAML())
				return err
			}
			if err := writeNew(to, d.YAML(), force); err != nil {
				return err
			}
			if asJSON {
				return writeJSON(out, initialised{File: to, Draft: d})
			}
			writeDraft(out, d, to)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.Server.Name, "name", "", "name of the server in the file; default: from FILE, else server")
	f.StringVar(&o.Server.URL, "url", "", "URL of a server that is reached over HTTP")
	f.StringArrayVar(&env, "env", nil, "variable that CMD gets from this environment; may be given several times")
	f.StringArrayVar(&headers, "header", nil, "header for --url with its secret by name: 'Authorization: Bearer ${env:TOKEN}'")
	f.StringVarP(&to, "out", "o", "pawl.yaml", "file to write, or - for standard output")
	f.BoolVar(&o.TrustHints, "trust-hints", false, "believe the server where it says that a tool only reads")
	f.BoolVar(&force, "force", false, "overwrite the file")
	jsonFlag(c, &asJSON)
	return c
}

// settings adds variables by name, and headers, to a server.
func settings(s *draft.Server, env, headers []string) error {
	s.Env, s.Headers = map[string]string{}, map[string]string{}
	for _, name := range env {
		if strings.ContainsAny(name, "= \t{}") || name == "" {
			return usage("--env takes the name of a variable and no value: the file names secrets and never holds them")
		}
		s.Env[name] = "${env:" + name + "}"
	}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return usage("--header wants 'NAME: VALUE'")
		}
		s.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	switch {
	case len(env) > 0 && s.URL != "":
		return usage("--env is for a server that CMD starts")
	case len(headers) > 0 && s.URL == "":
		return usage("--header goes with --url")
	}
	return nil
}

// nameOf is the name of a server by the file that its list is in: shop for shop.tools.json.
func nameOf(files []string) string {
	if len(files) != 1 {
		return "server"
	}
	name, _, _ := strings.Cut(filepath.Base(files[0]), ".")
	name = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, name)
	if name == "" {
		return "server"
	}
	return name[:min(len(name), 64)]
}

// listedIn reads the tools from files, or else from the server itself.
func listedIn(ctx context.Context, files []string, o *draft.Options, talk io.Writer) ([]draft.Tool, error) {
	if len(files) == 0 {
		o.From = "the server itself"
		return listedBy(ctx, o.Server, talk)
	}
	var names []string
	var lists [][]draft.Tool
	for _, name := range files {
		src, err := readAtMost(name, draft.MaxInput)
		if err != nil {
			return nil, fmt.Errorf("read tool list: %w", err)
		}
		tools, err := toolsIn(name, src, o)
		if err != nil {
			return nil, err
		}
		names, lists = append(names, filepath.Base(name)), append(lists, tools)
	}
	if o.From = count(len(files), "file"); len(files) == 1 {
		o.From = names[0]
	}
	return draft.Join(lists...)
}

// toolsIn reads a tool list or an OpenAPI document, which also says how its server is
// reached.
func toolsIn(name string, src []byte, o *draft.Options) ([]draft.Tool, error) {
	if !draft.IsOpenAPI(src) {
		return draft.ReadTools(name, src)
	}
	tools, server, err := draft.ReadOpenAPI(name, src)
	if err != nil {
		return nil, err
	}
	if len(o.Server.Command) > 0 {
		return nil, usage("%s describes an HTTP API, which no command starts", name)
	}
	if o.Server.HTTP = true; o.Server.URL == "" {
		o.Server.URL, o.Server.Headers = server.URL, server.Headers
	}
	return tools, nil
}

// readAtMost reads a file up to one byte past a size, so that its reader sees what is too long.
func readAtMost(name string, size int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, size+1))
}

// writeNew writes a file that is not there yet, or with force in the place of another one.
// It is there whole or not at all.
func writeNew(name string, text []byte, force bool) error {
	if _, err := os.Lstat(name); err == nil && !force {
		return &exit{exitError, fmt.Errorf("%s is there already: choose another file with -o, or overwrite it with --force", name)}
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".pawl-init-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	switch {
	case err != nil:
	case force:
		err = os.Rename(f.Name(), name)
	default:
		err = os.Link(f.Name(), name) // fails where the file has come up since
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already: choose another file with -o, or overwrite it with --force", name)
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeDraft(out *terminal.Screen, d *draft.Draft, file string) {
	rows := make([][]terminal.Cell, 0, len(d.Tools))
	for _, e := range d.Tools {
		style, identity := terminal.Green, "-"
		if e.Class != pawl.Read {
			style, identity = terminal.Yellow, identityOf(&e)
		}
		rows = append(rows, []terminal.Cell{
			{Text: e.Tool}, {Text: string(e.Class), Style: style}, {Text: identity}, {Text: e.Reasons[0]},
		})
	}
	out.Table([]string{"TOOL", "CLASS", "IDENTITY", "BECAUSE"}, rows)
	if !out.People() {
		return
	}
	out.Line()
	out.Line("Wrote ", out.Paint(terminal.Bold, terminal.Escape(file)), ": ", out.Paint(terminal.Green, itoa(d.Reads)+" read"), ", ",
		out.Paint(terminal.Yellow, itoa(d.Effects)+" unsafe"), ".")
	out.Line("Every line is a guess until a person confirms it. What is left: pawl lint ", terminal.Escape(quote(file)))
}

// identityOf is a tool's guessed identity in short.
func identityOf(e *draft.Entry) string {
	if e.Identity.Whole != "" {
		return e.Identity.Whole
	}
	names := make([]string, len(e.Identity.Fields))
	for i, f := range e.Identity.Fields {
		if names[i] = f.Name; f.Optional {
			names[i] += "?"
		}
	}
	return strings.Join(names, ", ")
}
