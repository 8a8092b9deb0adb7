package draft

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Server is an MCP server, or an HTTP API, as the file declares it. Values of Env and Headers name secrets
// as ${env:NAME} or ${file:/path} and never hold them.
type Server struct {
	// Name stands before the names of its tools: name/tool. Default "server".
	Name string
	// Command starts the server in the folder Dir with Env; URL is where it is reached with
	// Headers. At most one of Command and URL is given.
	Command []string
	Dir     string
	Env     map[string]string
	URL     string
	Headers map[string]string
	// HTTP: it is no MCP server, and each tool is one operation of it.
	HTTP bool
	// Notes are written above it.
	Notes []string
}

// check refuses a server that no contract file can declare.
func (s *Server) check() error {
	if len(s.Name) > 64 || s.Name == "" || strings.ContainsFunc(s.Name, func(r rune) bool { return !plain(r) || r == '/' || r == '.' }) {
		return fmt.Errorf("%q is no name for a server: letters, digits, '_' and '-', at most 64", shorten(s.Name))
	}
	return nil
}

// Upstreams is a contract file with servers and no tools: each tool of theirs is unsafe
// until it is declared.
func Upstreams(servers []Server, from string) ([]byte, error) {
	w := &writer{}
	w.comment("", "Drafted from "+from+". No tool is declared yet, so each is unsafe: it is sent once, and doubt goes to a person. \"pawl init\" drafts the tools of a server.")
	w.line("version: 1")
	w.line("")
	w.line("upstreams:")
	servers = slices.Clone(servers)
	slices.SortFunc(servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	for i := range servers {
		if err := servers[i].check(); err != nil {
			return nil, err
		}
		servers[i].write(w)
	}
	return []byte(w.b.String()), nil
}

// write writes the entry of a server.
func (s *Server) write(w *writer) {
	w.line("  " + scalar(s.Name) + ":")
	for _, n := range s.Notes {
		w.comment("    ", n)
	}
	if s.URL != "" {
		w.line("    url: " + quoted(s.URL))
		s.pairs(w, "    ", "headers", s.Headers)
		if s.HTTP {
			w.comment("    ", "suggestion: where the provider documents that it answers 4xx only if nothing happened:")
			w.line("    # conventions: http")
		} else {
			w.line("    mcp: {}")
		}
		return
	}
	command := s.Command
	if len(command) == 0 {
		w.comment("    ", "confirm: the command that starts the server is not known.")
		command = []string{s.Name}
	}
	w.line("    mcp:")
	parts := make([]string, len(command))
	for i, p := range command {
		parts[i] = scalar(p)
	}
	if len(parts) < 50 {
		w.line("      command: [" + strings.Join(parts, ", ") + "]")
	} else {
		w.line("      command:")
		for _, p := range parts {
			w.line("        - " + p)
		}
	}
	s.pairs(w, "      ", "env", s.Env)
	if s.Dir != "" {
		w.line("      dir: " + scalar(s.Dir))
	}
}

func (s *Server) pairs(w *writer, indent, key string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	w.line(indent + key + ":")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		w.line(indent + "  " + scalar(name) + ": " + quoted(values[name]))
	}
}
