package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Client is an MCP client whose configuration file is known.
type Client struct {
	// Name is what the command line calls it, Title what it calls itself.
	Name, Title string

	files func(p *Places) []string
}

// Places are the folders in which clients keep their files.
type Places struct {
	// Project is the folder that is worked in, Home the user's own, Config the user's
	// configuration folder. Empty fields mean those of this process.
	Project, Home, Config string
	// Codex is the folder of Codex; empty means .codex in Home.
	Codex string
}

func (p *Places) withDefaults() (Places, error) {
	var d Places
	if p != nil {
		d = *p
	}
	var err error
	if d.Project == "" {
		if d.Project, err = os.Getwd(); err != nil {
			return d, err
		}
	}
	if d.Home == "" {
		if d.Home, err = os.UserHomeDir(); err != nil {
			return d, err
		}
	}
	if d.Config == "" {
		if d.Config, err = os.UserConfigDir(); err != nil {
			return d, err
		}
	}
	if d.Codex == "" {
		if d.Codex = os.Getenv("CODEX_HOME"); d.Codex == "" {
			d.Codex = filepath.Join(d.Home, ".codex")
		}
	}
	return d, nil
}

// known are the clients; a project's own file comes before the user's.
var known = []Client{
	{"claude", "Claude Desktop", func(p *Places) []string {
		return []string{filepath.Join(p.Config, "Claude", "claude_desktop_config.json")}
	}},
	{"claude-code", "Claude Code", func(p *Places) []string { return []string{filepath.Join(p.Project, ".mcp.json")} }},
	{"cursor", "Cursor", func(p *Places) []string {
		return []string{filepath.Join(p.Project, ".cursor", "mcp.json"), filepath.Join(p.Home, ".cursor", "mcp.json")}
	}},
	{"vscode", "VS Code", func(p *Places) []string { return []string{filepath.Join(p.Project, ".vscode", "mcp.json")} }},
	{"codex", "Codex", func(p *Places) []string {
		return []string{filepath.Join(p.Project, ".codex", "config.toml"), filepath.Join(p.Codex, "config.toml")}
	}},
}

// Names are the clients that Locate knows.
func Names() []string {
	var names []string
	for _, c := range known {
		names = append(names, c.Name)
	}
	return names
}

// Locate is the path of a client's configuration file. What is no client's name is a path.
func Locate(name string, p *Places) (string, error) {
	i := slices.IndexFunc(known, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return name, nil
	}
	places, err := p.withDefaults()
	if err != nil {
		return "", fmt.Errorf("find the file of %s: %w", known[i].Title, err)
	}
	files := known[i].files(&places)
	for _, f := range files {
		if _, err := os.Stat(f); err == nil {
			return f, nil
		}
	}
	return "", fmt.Errorf("%s has no configuration file here: looked for %s", known[i].Title, strings.Join(files, " and "))
}
