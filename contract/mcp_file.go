package contract

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/evidence"
)

// MCPServers are the upstreams of the file that speak MCP, in the order of their names.
func (f *File) MCPServers() []*MCPServer {
	var list []*MCPServer
	for _, name := range slices.Sorted(maps.Keys(f.upstreams)) {
		up := f.upstreams[name]
		if !up.mcp {
			continue
		}
		m := up.terms.MCP
		s := &MCPServer{
			Name: name, Command: m.Command, Dir: m.Dir, TrustReadOnly: m.ReadOnlyHints == "trusted", Refuse: m.Undeclared == "refuse",
			StartTimeout: cmp.Or(time.Duration(m.StartTimeout), defaultStart), env: up.env, inherit: m.InheritEnv, headers: up.headers, vault: f.vault,
		}
		if m.Era != "auto" {
			s.Era = string(m.Era)
		}
		if len(m.Command) == 0 {
			s.URL = up.url.String()
			s.connections = func() (*evidence.Options, error) { return wireOptions(up, &f.options) }
		}
		list = append(list, s)
	}
	return list
}

// Connections are how connections to URL are made. It reads the files that tls names.
func (s *MCPServer) Connections() (*evidence.Options, error) {
	o, err := s.connections()
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", s.Name, err)
	}
	o.MaxIdlePerHost = mcpIdle
	return o, nil
}

const (
	defaultStart = 30 * time.Second
	// mcpIdle are the idle connections that are kept to a server: its calls come in bursts.
	mcpIdle = 16
)

// MCPTools are the declared tools of one of them, in the order of the file.
func (f *File) MCPTools(server string) []MCPTool {
	var list []MCPTool
	for _, t := range f.tools {
		if !t.speaksMCP() || t.upstream.name != server || t.around != nil {
			continue
		}
		m := MCPTool{Name: t.contract.Tool, Tool: t.request.call.tool, Class: t.contract.WithDefaults().Class}
		for _, own := range append([]*tool{t}, t.chosen()...) {
			for _, a := range own.attach {
				place := argumentPlace(a.Name)
				if own.inner != "" {
					place = t.terms.Unwrap.Arguments + place
				}
				if a.Carrier == "argument" && !slices.Contains(m.Hidden, place) && (own.inner == "" || !t.unwrap.text) {
					m.Hidden = append(m.Hidden, place)
				}
			}
		}
		list = append(list, m)
	}
	return list
}

// UseMCP sets what speaks to the MCP servers. It comes before Tools.
func (f *File) UseMCP(c MCPClient) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mcp = c
}

// Undeclared is a tool of an MCP server that the file does not declare: unsafe, with every
// argument in its identity. The error is ErrUndeclared where the server's terms refuse such
// tools.
func (f *File) Undeclared(server, name string) (*pawl.Tool, error) {
	up := f.upstreams[server]
	if up == nil || !up.mcp {
		return nil, fmt.Errorf("%w: there is no MCP server %q", ErrUndeclared, shorten(server))
	}
	full := server + "/" + name
	switch {
	case up.terms.MCP.Undeclared == "refuse":
		return nil, ErrUndeclared
	case !toolName.MatchString(full):
		return nil, fmt.Errorf("%w: %q is no name for a tool: letters, digits, '_', '-', '.' and '/', at most 128", ErrUndeclared, shorten(full))
	}
	t := &tool{
		upstream: up, pinned: &pinnedTools{},
		request:  &request{call: &toolCall{server, name}, body: &bodyTerms{args: true}},
		contract: pawl.Contract{Tool: full, Class: pawl.Unsafe, IdentityAll: true, Conventions: up.terms.Conventions == "mcp"},
	}
	withMCPTimes(&t.contract)
	return &pawl.Tool{Contract: t.contract, Port: &mcpTool{t, f}}, nil
}

// inherited are the variables that programs need to run and that hold no credential.
func inherited() []string {
	if runtime.GOOS == "windows" {
		return []string{
			"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
			"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
		}
	}
	return []string{"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
}

// Environment is what a child gets: variables that programs need to run, and those that
// the file names. The values of credentials are listed as well.
func (s *MCPServer) Environment() (env, secrets []string, err error) {
	values := map[string]string{}
	if s.inherit {
		for _, e := range os.Environ() {
			if name, v, ok := strings.Cut(e, "="); ok && name != "" {
				values[name] = v
			}
		}
	}
	for _, name := range inherited() {
		if v, ok := s.vault.getenv(name); ok {
			values[name] = v
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		v, found, err := s.vault.fill(s.env[name])
		if err != nil {
			return nil, nil, fmt.Errorf("env %s: %w", name, err)
		}
		if strings.ContainsRune(v, 0) {
			return nil, nil, fmt.Errorf("env %s: a variable cannot hold a NUL", name)
		}
		values[name] = v
		secrets = append(secrets, found...)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		env = append(env, name+"="+values[name])
	}
	return env, secrets, nil
}

// Header are the headers of every request over HTTP, with today's credentials, whose
// values are listed as well.
func (s *MCPServer) Header() (header http.Header, secrets []string, err error) {
	header = http.Header{}
	for _, name := range slices.Sorted(maps.Keys(s.headers)) {
		v, found, err := s.vault.fill(s.headers[name])
		if err != nil {
			return nil, nil, fmt.Errorf("header %s: %w", name, err)
		}
		if !headerValue(v) {
			return nil, nil, fmt.Errorf("header %s: %w: it holds characters that a header cannot carry", name, ErrSecret)
		}
		header.Set(name, v)
		secrets = append(secrets, found...)
	}
	return header, secrets, nil
}

// fill joins the parts of a text that has no expression, and lists the secrets in it.
func (v *vault) fill(parts []part) (text string, secrets []string, err error) {
	var b strings.Builder
	for _, p := range parts {
		if p.ref == nil {
			b.WriteString(p.text)
			continue
		}
		s, err := v.value(*p.ref)
		if err != nil {
			return "", nil, err
		}
		b.WriteString(s)
		secrets = append(secrets, s)
	}
	return b.String(), secrets, nil
}
