package clients

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// InstallOptions are what Install writes. Nil and zero fields mean the defaults.
type InstallOptions struct {
	// Pawl is the command that starts pawl; default "pawl".
	Pawl string
	// Flags stand between wrap and "--".
	Flags []string
	// Gateway is the URL under which pawl serve has its servers, such as
	// http://127.0.0.1:4100/mcp; without it servers that are reached over HTTP stay as they are.
	Gateway string
	// Only names the servers to rewrite; nil means all.
	Only []string
}

// Change is what becomes of a file.
type Change struct {
	// Text is the whole file.
	Text    []byte
	Servers []Outcome
}

// Changed reports whether the file's text is another one.
func (c *Change) Changed() bool {
	return slices.ContainsFunc(c.Servers, func(o Outcome) bool { return o.What.Changes() })
}

// Outcome is what becomes of one server.
type Outcome struct {
	Server string `json:"server"`
	Line   int    `json:"line"`
	What   What   `json:"what"`
	// Why says why it stays as it is.
	Why string `json:"why,omitempty"`
	// Before and After are command and arguments, or the URL, with what may be secret
	// blotted out.
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// What became of a server.
type What string

const (
	Wrapped   What = "wrapped"   // pawl wrap starts it
	Redirect  What = "redirect"  // its URL is the gateway's
	Unwrapped What = "unwrapped" // it is as it was before
	Already   What = "already"   // it was so before
	Skipped   What = "skipped"   // it stays as it is, and why
)

// Changes reports whether the server's entry is another one.
func (w What) Changes() bool { return w == Wrapped || w == Redirect || w == Unwrapped }

// edit replaces a piece of the text.
type edit struct {
	start, end int
	text       string
}

func apply(text []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, text[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, text[at:]...)
}

// Install puts pawl in front of every server. A server that has pawl in front of it stays
// as it is, so a second Install changes nothing.
func (f *File) Install(o *InstallOptions) (*Change, error) {
	var d InstallOptions
	if o != nil {
		d = *o
	}
	if d.Pawl == "" {
		d.Pawl = "pawl"
	}
	if err := f.checkOnly(d.Only); err != nil {
		return nil, err
	}
	gateway, err := gatewayURL(d.Gateway)
	if err != nil {
		return nil, err
	}
	c := &Change{}
	var edits []edit
	for i, s := range f.Servers() {
		e := f.servers[i]
		out := Outcome{Server: s.Name, Line: s.Line}
		switch {
		case d.Only != nil && !slices.Contains(d.Only, s.Name):
			out.What, out.Why = Skipped, "it is not asked for"
		case s.Odd != "":
			out.What, out.Why = Skipped, s.Odd
		case s.Installed:
			out.What = Already
		case s.Command != "":
			out.What = Wrapped
			edits = append(edits, f.wrap(e, &d)...)
			out.Before = blot(append([]string{s.Command}, s.Args...))
			out.After = slices.Concat([]string{d.Pawl, "wrap"}, d.Flags, []string{"--"}, out.Before)
		case gateway == "":
			out.What, out.Why = Skipped, "it is reached over HTTP: name the gateway's URL to put in its place"
		case strings.HasPrefix(s.URL, gateway+"/"):
			out.What = Already
		default:
			out.What = Redirect
			to := gateway + "/" + url.PathEscape(s.Name)
			edits = append(edits, edit{e.url.start, e.url.end, f.quote(to)})
			if t := e.table.member("type"); t != nil && t.text == "sse" {
				edits = append(edits, edit{t.start, t.end, f.quote("http")})
			}
			out.Before, out.After = []string{blotURL(s.URL)}, []string{to}
		}
		c.Servers = append(c.Servers, out)
	}
	c.Text = apply(f.text, edits)
	return c, nil
}

func (f *File) checkOnly(only []string) error {
	for _, name := range only {
		if !slices.ContainsFunc(f.servers, func(e *entry) bool { return e.name == name }) {
			return fmt.Errorf("%s lists no server %q", f.Name, printable(name))
		}
	}
	return nil
}

func gatewayURL(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("the gateway's URL is none like http://127.0.0.1:4100/mcp")
	}
	return strings.TrimRight(text, "/"), nil
}

// wrap are the edits that make pawl start a server: its own command moves, as it is
// written, into the arguments.
func (f *File) wrap(e *entry, o *InstallOptions) []edit {
	words := []string{f.quote("wrap")}
	for _, flag := range o.Flags {
		words = append(words, f.quote(flag))
	}
	words = append(words, f.quote("--"), string(f.text[e.command.start:e.command.end]))
	inner := strings.Join(words, ", ")
	edits := []edit{{e.command.start, e.command.end, f.quote(o.Pawl)}}
	if e.args == nil {
		at, before := f.ownArgs(e)
		return append(edits, edit{at, at, before + "[" + inner + "]"})
	}
	if len(e.args.items) > 0 {
		inner += ","
		if c := f.text[e.args.start+1]; c != '\n' && c != '\r' {
			inner += " "
		}
	}
	return append(edits, edit{e.args.start + 1, e.args.start + 1, inner})
}

// ownArgs is where arguments go that a server does not have yet, and what stands before
// them.
func (f *File) ownArgs(e *entry) (at int, before string) {
	if !f.toml {
		return e.command.end, `, "args": `
	}
	m := e.table.find("command")
	prefix := string(f.text[m.from:m.at])
	if !e.table.block {
		return e.command.end, ", " + prefix + "args = "
	}
	line := strings.LastIndexByte(string(f.text[:m.from]), '\n') + 1
	return f.lineEnd(e.command.end), f.newline() + string(f.text[line:m.from]) + prefix + "args = "
}

// lineEnd is where the line of an offset ends.
func (f *File) lineEnd(at int) int {
	for at < len(f.text) && f.text[at] != '\n' && (f.text[at] != '\r' || at+1 < len(f.text) && f.text[at+1] != '\n') {
		at++
	}
	return at
}

// newline is the line end of the file.
func (f *File) newline() string {
	if i := strings.IndexByte(string(f.text), '\n'); i > 0 && f.text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// quote writes a text in double quotes, with escapes that JSON and TOML share.
func (f *File) quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}
