package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
	"github.com/pawl-dev/pawl/postgres"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/sqlite"
)

// place says which contract file and which store a command works on.
type place struct{ config, store string }

func (p *place) flags(c *cobra.Command) {
	c.Flags().StringVarP(&p.config, "config", "c", "pawl.yaml", "contract file")
	c.Flags().StringVar(&p.store, "store", "", "SQLite file, or postgres:// URL, to use instead of the store that the contract file names")
}

// options are those of a process that writes little: it does not grow the store's log to
// the size that a busy one needs.
func (p *place) options() *server.Options {
	return &server.Options{Config: p.config, Store: p.store, SQLite: &sqlite.Options{WALSize: 1 << 20}, Postgres: &postgres.Options{}}
}

// existing are the options of a command that has no use for a new store: only a call makes
// one.
func (p *place) existing() *server.Options {
	o := p.options()
	o.SQLite.MustExist, o.Postgres.MustExist = true, true
	return o
}

// placeOf is how the next command names the same contract file and store: the flags, with
// a space before each.
func placeOf(c *cobra.Command) string {
	text := ""
	for _, f := range []struct{ name, flag string }{{"config", " -c "}, {"store", " --store "}} {
		if v := c.Flags().Lookup(f.name); v != nil && v.Changed {
			value := v.Value.String()
			if u, err := url.Parse(value); err == nil && u.User != nil {
				value = u.Redacted()
			}
			text += f.flag + quote(value)
		}
	}
	return text
}

// quote writes a word as a shell reads it.
func quote(s string) string {
	plain := func(r rune) bool {
		return r == '/' || r == '.' || r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// jsonFlag adds --json.
func jsonFlag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "json", false, "write JSON")
}

// writeJSON writes one JSON value on a line of its own, indented for people.
func writeJSON(out *terminal.Screen, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if out.People() {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	if _, err := out.Write(printable(b.Bytes())); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// printable writes what a terminal would act on as JSON escapes; the JSON means the same.
func printable(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == '\n' || unicode.IsPrint(r) {
			out = append(out, b[:size]...)
		} else {
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
		b = b[size:]
	}
	return out
}

// readArgs reads a call's arguments: JSON, @FILE, or - for standard input. What is too
// long for a call is cut off where it is too long for sure, and refused by the call.
func readArgs(spec string, in io.Reader) (json.RawMessage, error) {
	r := in
	switch {
	case strings.HasPrefix(spec, "@"):
		f, err := os.Open(spec[1:])
		if err != nil {
			return nil, usage("--args: %w", err)
		}
		defer f.Close()
		if fi, err := f.Stat(); err == nil && fi.IsDir() {
			return nil, usage("--args: %s is a folder: name a file", spec[1:])
		}
		r = f
	case spec != "-":
		return json.RawMessage(spec), nil
	}
	raw, err := io.ReadAll(io.LimitReader(r, pawl.MaxJSON+1))
	if err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	if len(raw) == 0 {
		return nil, usage("--args: %s is empty: want a JSON object", spec)
	}
	return raw, nil
}

// intention says for whom and where in a plan a call is made.
type intention struct {
	args, run, parentRun, step, tenant, actor string
}

func (i *intention) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&i.args, "args", "{}", "arguments: a JSON object, @FILE, or - for standard input")
	f.StringVar(&i.run, "run", "", "id of the run that the call belongs to")
	f.StringVar(&i.step, "step", "", "step of the run; without one, the whole run is the scope")
	f.StringVar(&i.parentRun, "parent-run", "", "id of the parent run, for tools with that scope")
	f.StringVar(&i.tenant, "tenant", "", "tenant")
	f.StringVar(&i.actor, "actor", "", "actor within the tenant")
}

func (i *intention) call(c *cobra.Command, tool string) (pawl.Call, error) {
	raw, err := readArgs(i.args, c.InOrStdin())
	return pawl.Call{
		Tool: tool, Args: raw, Run: i.run, ParentRun: i.parentRun, Step: i.step, Tenant: i.tenant, Actor: i.actor,
	}, err
}

// oneArg takes exactly one argument and says what it should be.
func oneArg(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 1:
			return nil
		case 0:
			return fmt.Errorf("%s is missing", what)
		}
		return fmt.Errorf("want one %s, got %d arguments", what, len(args))
	}
}

// noArgs takes no argument and says so.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q", c.CommandPath(), args[0])
	}
	return nil
}

// parseID reads an operation's id from the command line.
func parseID(s string) (pawl.ID, error) {
	id, err := pawl.ParseID(s)
	if err != nil {
		return id, usage("%w", err)
	}
	return id, nil
}
