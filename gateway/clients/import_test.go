package clients

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/contract/draft"
)

func TestImport(t *testing.T) {
	t.Parallel()
	f, err := Read("mcp.json", []byte(`{"servers": {
		"my server": {"command": "npx", "args": ["-y", "x"], "cwd": "/srv", "env": {"A_TOKEN": "v4lue", "B": "${env:OTHER}", "C": "${input:c}", "D": "${E:-x}"}},
		"my-server": {"command": "/usr/bin/pawl", "args": ["wrap", "--", "server", "--flag"]},
		"far": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer v4lue", "X-Key": "${env:KEY}", "X-Plain": "v4lue"}},
		"secret argument": {"command": "x", "args": ["--api-key", "v4lue"]},
		"client's variable": {"command": "x", "args": ["${workspaceFolder}"]},
		"secret url": {"url": "https://mcp.example.com/mcp?key=v4lue"},
		"user": {"url": "https://a:v4lue@mcp.example.com/mcp"},
		"pipe": {"url": "unix:///run/x"},
		"variable": {"url": "${env:URL}"},
		"both": {"url": "https://a/", "command": "b"},
		"wrapped alone": {"command": "pawl", "args": ["wrap", "-c", "pawl.yaml"]}
	}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Imported{
		"my server": {Server: draft.Server{Name: "my-server", Command: []string{"npx", "-y", "x"}, Dir: "/srv",
			Env:   map[string]string{"A_TOKEN": "${env:A_TOKEN}", "B": "${env:OTHER}", "C": "${env:C}", "D": "${env:E}"},
			Notes: []string{"confirm: pawl's own environment has A_TOKEN, C, E, OTHER."}}, Needs: []string{"A_TOKEN", "C", "E", "OTHER"}},
		"my-server": {Server: draft.Server{Name: "my-server-2", Command: []string{"server", "--flag"}, Env: map[string]string{}}},
		"far": {Server: draft.Server{Name: "far", URL: "https://mcp.example.com/mcp",
			Headers: map[string]string{"Authorization": "Bearer ${env:FAR_AUTHORIZATION}", "X-Key": "${env:KEY}", "X-Plain": "${env:FAR_X_PLAIN}"},
			Notes:   []string{"confirm: pawl's own environment has FAR_AUTHORIZATION, FAR_X_PLAIN, KEY."}}, Needs: []string{"FAR_AUTHORIZATION", "FAR_X_PLAIN", "KEY"}},
		"secret argument":   {Skipped: "looks like a secret"},
		"client's variable": {Skipped: "a variable of the client's own"},
		"secret url":        {Skipped: "may hold a secret"},
		"user":              {Skipped: "may hold a secret"},
		"pipe":              {Skipped: "none of http or https"},
		"variable":          {Skipped: "a variable of the client's own"},
		"both":              {Skipped: "both a command and a url"},
		"wrapped alone":     {Skipped: "do not name the command"},
	}
	var servers []draft.Server
	for _, got := range f.Import() {
		w, ok := want[got.From]
		if !ok {
			t.Errorf("got a server %q", got.From)
			continue
		}
		delete(want, got.From)
		if w.Skipped != "" {
			if !strings.Contains(got.Skipped, w.Skipped) || strings.Contains(got.Skipped, "v4lue") {
				t.Errorf("%s: got %q, want %q", got.From, got.Skipped, w.Skipped)
			}
			continue
		}
		w.From = got.From
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.From, diff)
		}
		servers = append(servers, got.Server)
	}
	for name := range want {
		t.Errorf("the server %q is missing", name)
	}
	text, err := draft.Upstreams(servers, "mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	file, err := contract.Parse("pawl.yaml", text, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	defer file.Close()
	if strings.Contains(string(text), "v4lue") {
		t.Errorf("a value is in the contract file:\n%s", text)
	}
	if got := len(file.MCPServers()); got != 3 {
		t.Errorf("got %d MCP servers, want 3", got)
	}
}
