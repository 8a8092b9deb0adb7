package clients

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// File is a client's configuration file.
type File struct {
	// Name is what errors call it.
	Name string
	// Section is the key that its servers stand under.
	Section string

	text    []byte
	toml    bool
	servers []*entry
}

// entry is one server of a file and where its parts stand.
type entry struct {
	name         string
	at           int
	table        *node
	command, url *node
	args         *node
	texts        []string // of args
}

// Server is one MCP server as a client's file lists it.
type Server struct {
	Name string
	// Line is where it stands.
	Line int
	// Command and Args start it in the folder Dir with Env; URL is where it is reached with
	// Headers. Values are as they are written, references of the client's own kind included.
	Command string
	Args    []string
	Dir     string
	Env     map[string]string
	URL     string
	Headers map[string]string
	// Variables are headers whose value is in a variable of the environment; Bearer names
	// the variable of a bearer token.
	Variables map[string]string
	Bearer    string
	// Installed: pawl stands in front of it already.
	Installed bool
	// Odd says why it is a server that neither a command starts nor a URL reaches; empty
	// for the others.
	Odd string
}

// sections are the keys that servers stand under.
var sections = []string{"mcpServers", "servers", "mcp_servers"}

// Read reads a configuration file. A name that ends in .toml is read as TOML, any other as
// JSON with comments.
func Read(name string, text []byte) (*File, error) {
	f := &File{Name: name, text: text, toml: strings.EqualFold(path.Ext(name), ".toml")}
	read := readJSON
	if f.toml {
		read = readTOML
	}
	root, err := read(name, text)
	if err != nil {
		return nil, err
	}
	s := &source{name: name, text: text}
	if root.kind != tableKind {
		return nil, s.errorAt(root.start, "want a table with %s, got %v", strings.Join(sections, ", "), root.kind)
	}
	for _, section := range sections {
		servers := root.member(section)
		if servers == nil {
			continue
		}
		if f.Section != "" {
			return nil, s.errorAt(servers.start, "both %s and %s are there, and one client reads one of them", f.Section, section)
		}
		f.Section = section
		if servers.kind != tableKind {
			return nil, s.errorAt(servers.start, "want a table of servers under %s, got %v", section, servers.kind)
		}
		for _, m := range servers.members {
			e, err := entryOf(s, m)
			if err != nil {
				return nil, err
			}
			f.servers = append(f.servers, e)
		}
	}
	if f.Section == "" {
		return nil, s.errorAt(0, "no server is listed: want one of the keys %s", strings.Join(sections, ", "))
	}
	return f, nil
}

func entryOf(s *source, m member) (*entry, error) {
	e := &entry{name: m.key, at: m.at, table: m.value}
	fail := func(n *node, key, want string) error {
		return s.errorAt(n.start, "server %q: %s is %v, want %s", printable(m.key), key, n.kind, want)
	}
	if m.value.kind != tableKind {
		return nil, s.errorAt(m.value.start, "server %q is %v, want a table", printable(m.key), m.value.kind)
	}
	e.command, e.url, e.args = m.value.member("command"), m.value.member("url"), m.value.member("args")
	if e.command != nil && e.command.kind != textKind {
		return nil, fail(e.command, "command", "a text")
	}
	if e.url != nil && e.url.kind != textKind {
		return nil, fail(e.url, "url", "a text")
	}
	if e.args != nil {
		if e.args.kind != listKind {
			return nil, fail(e.args, "args", "a list of texts")
		}
		for _, a := range e.args.items {
			if a.kind != textKind {
				return nil, fail(a, "an argument", "a text")
			}
			e.texts = append(e.texts, a.text)
		}
	}
	return e, nil
}

// Servers lists the servers in the order of the file.
func (f *File) Servers() []Server {
	var all []Server
	s := &source{name: f.Name, text: f.text}
	for _, e := range f.servers {
		v := Server{
			Name: e.name, Line: s.errorAt(e.at, "").Line, Args: slices.Clone(e.texts),
			Env: e.table.texts("env"), Headers: map[string]string{}, Variables: e.table.texts("env_http_headers"),
			Installed: e.installed(),
		}
		for _, key := range []string{"headers", "http_headers"} {
			for name, value := range e.table.texts(key) {
				v.Headers[name] = value
			}
		}
		for _, key := range []string{"cwd", "dir"} {
			if n := e.table.member(key); n != nil && v.Dir == "" {
				v.Dir = n.text
			}
		}
		if n := e.table.member("bearer_token_env_var"); n != nil {
			v.Bearer = n.text
		}
		switch {
		case e.command != nil && e.url != nil:
			v.Odd = "it has both a command and a url"
		case e.command != nil && e.command.text == "" || e.url != nil && e.url.text == "":
			v.Odd = "its command or url is empty"
		case e.command != nil:
			v.Command = e.command.text
		case e.url != nil:
			v.URL = e.url.text
		default:
			v.Odd = "it has neither a command nor a url"
		}
		all = append(all, v)
	}
	return all
}

// texts are the members of a table below n that are texts.
func (n *node) texts(key string) map[string]string {
	all := map[string]string{}
	if below := n.member(key); below != nil {
		for _, m := range below.members {
			if m.value.kind == textKind {
				all[m.key] = m.value.text
			}
		}
	}
	return all
}

// installed reports whether pawl starts the server already.
func (e *entry) installed() bool {
	if e.command == nil {
		return false
	}
	program := path.Base(strings.ReplaceAll(e.command.text, `\`, "/"))
	return strings.TrimSuffix(strings.ToLower(program), ".exe") == "pawl" && len(e.texts) > 0 && e.texts[0] == "wrap"
}

// printable replaces what would disturb a terminal.
func printable(s string) string {
	q := fmt.Sprintf("%q", s)
	return q[1 : len(q)-1]
}
