package clients

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected files")

func readTest(t *testing.T, name string) *File {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func install(t *testing.T, f *File, o *InstallOptions) *Change {
	t.Helper()
	c, err := f.Install(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reread(t *testing.T, f *File, text []byte) *File {
	t.Helper()
	again, err := Read(f.Name, text)
	if err != nil {
		t.Fatalf("the changed file cannot be read: %v\n%s", err, text)
	}
	return again
}

func TestInstallAndRemove(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cursor.json", "vscode.json", "codex.toml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := readTest(t, name)
			o := &InstallOptions{Gateway: "http://127.0.0.1:4100/mcp/"}
			c := install(t, f, o)
			golden := filepath.Join("testdata", strings.Replace(name, ".", ".installed.", 1))
			if *update {
				if err := os.WriteFile(golden, c.Text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(c.Text)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
			installed := reread(t, f, c.Text)
			if again := install(t, installed, o); again.Changed() || !bytes.Equal(again.Text, c.Text) {
				t.Errorf("a second install changes the file:\n%s", cmp.Diff(string(c.Text), string(again.Text)))
			}
			back := installed.Remove(f)
			// What had pawl in front of it before loses it too.
			if name == "cursor.json" {
				want = []byte(strings.Replace(string(f.text), `"command": "/usr/local/bin/pawl", "args": ["wrap", "--", "npx", "x"]`, `"command": "npx", "args": ["x"]`, 1))
			} else {
				want = f.text
			}
			if diff := cmp.Diff(string(want), string(back.Text)); diff != "" {
				t.Errorf("after remove (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServersOfAFile(t *testing.T) {
	t.Parallel()
	servers := readTest(t, "codex.toml").Servers()
	byName := map[string]Server{}
	for _, s := range servers {
		byName[s.Name] = s
	}
	for name, want := range map[string]Server{
		"git":       {Command: "npx", Args: []string{"-y", "@cyanheads/git-mcp-server"}, Line: 9, Env: map[string]string{"GIT_TOKEN": "secret-in-the-file"}},
		"my server": {Command: `C:\tools\server.exe`, Line: 20},
		"inline":    {URL: "https://mcp.example.com/mcp", Bearer: "EXAMPLE_TOKEN", Headers: map[string]string{"X-Team": "red"}, Line: 23},
		"flat":      {Command: "server", Env: map[string]string{"A": "b"}, Line: 29},
		"dotted":    {Command: "server", Args: []string{"x"}, Line: 30},
	} {
		got := byName[name]
		want.Name = name
		for _, m := range []*map[string]string{&want.Env, &want.Headers, &want.Variables} {
			if *m == nil {
				*m = map[string]string{}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(servers) != 5 {
		t.Errorf("got %d servers, want 5", len(servers))
	}
}

func TestOnlyTheServersThatAreNamed(t *testing.T) {
	t.Parallel()
	f := readTest(t, "cursor.json")
	c := install(t, f, &InstallOptions{Only: []string{"git"}, Pawl: "/opt/pawl", Flags: []string{"--config", "/srv/pawl.yaml"}})
	changed := 0
	for _, o := range c.Servers {
		if o.What.Changes() {
			changed++
		}
	}
	if want := `"args": ["wrap", "--config", "/srv/pawl.yaml", "--", "npx", "-y", "@cyanheads/git-mcp-server"]`; changed != 1 || !strings.Contains(string(c.Text), want) {
		t.Errorf("got %d changes in\n%s", changed, c.Text)
	}
	if _, err := f.Install(&InstallOptions{Only: []string{"nobody"}}); err == nil {
		t.Error("a server that is not there: got no error")
	}
	if _, err := f.Install(&InstallOptions{Gateway: "ftp://x"}); err == nil {
		t.Error("a gateway that is none: got no error")
	}
}

func TestWhatIsShownHoldsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-of-the-file"
	f, err := Read("x.json", []byte(`{"mcpServers": {
		"a": {"command": "x", "args": ["--token", "`+secret+`", "--api-key=`+secret+`", "ghp_`+secret+`", "Bearer `+secret+`"], "env": {"T": "`+secret+`"}},
		"b": {"url": "https://user:`+secret+`@h/mcp?key=`+secret+`#`+secret+`", "headers": {"Authorization": "`+secret+`"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c := install(t, f, &InstallOptions{Gateway: "http://127.0.0.1:1/mcp"})
	for _, o := range c.Servers {
		if shown := strings.Join(append(o.Before, o.After...), " ") + o.Why; strings.Contains(shown, secret) || !o.What.Changes() {
			t.Errorf("%s: got %q, %s", o.Server, shown, o.What)
		}
	}
	for _, i := range f.Import() {
		if strings.Contains(i.Skipped+strings.Join(i.Server.Command, " ")+i.Server.URL, secret) {
			t.Errorf("import of %s: got %+v", i.From, i)
		}
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"a.json", "", "a.json:1:1: no JSON value begins here"},
		{"a.json", "{\"mcpServers\": {\n  \"x\": {\"command\": \"y\" \"args\": []}}}", "a.json:2:24: want ',' or '}'"},
		{"a.json", `{"mcpServers": {"x": {"command": "y"}`, "before the closing '}'"},
		{"a.json", `{"mcpServers": {} /* `, "the comment has no end"},
		{"a.json", `{"mcpServers": {"x": {}, "x": {}}}`, "this key is there twice"},
		{"a.json", `{"mcpServers": {"x": {"command": 7}}}`, "command is a plain value, want a text"},
		{"a.json", `{"mcpServers": {"x": {"command": "y", "args": "z"}}}`, "args is a text, want a list of texts"},
		{"a.json", `{"mcpServers": {"x": {"command": "y", "args": [1]}}}`, "an argument is a plain value, want a text"},
		{"a.json", `{"mcpServers": []}`, "want a table of servers"},
		{"a.json", `{"mcpServers": {}, "servers": {}}`, "both mcpServers and servers"},
		{"a.json", `{"x": 1}`, "no server is listed"},
		{"a.json", `[]`, "want a table"},
		{"a.json", `{} x`, "something follows"},
		{"a.json", `{"mcpServers": "` + "\n" + `"}`, "no end on its line"},
		{"a.json", `{"a": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "nested too deeply"},
		{"a.json", "{\xff}", "not UTF-8"},
		{"a.toml", "[mcp_servers.x]\ncommand = \n", "a.toml:2:11: want a value"},
		{"a.toml", "[mcp_servers.x]\ncommand = \"a\" b\n", "want the end of the line"},
		{"a.toml", "[mcp_servers.x\n", `want "]"`},
		{"a.toml", "mcp_servers = 1\n[mcp_servers.x]\n", "has a value already"},
		{"a.toml", "[mcp_servers.x]\ncommand = \"a\"\ncommand = \"b\"\n", "this key is there twice"},
		{"a.toml", "[mcp_servers.x]\ncommand = \"a\n", "no end on its line"},
		{"a.toml", "x = '''a\n", "the text has no end"},
		{"a.toml", `x = "\q"` + "\n", "TOML does not know"},
		{"a.toml", `x = "\ud800"` + "\n", "no character"},
		{"a.toml", "x = [1, 2\n", "before the closing ']'"},
	} {
		_, err := Read(c.name, []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
}

// commands is what is started for each server.
func commands(f *File) map[string][]string {
	all := map[string][]string{}
	for _, s := range f.Servers() {
		if s.Command != "" {
			all[s.Name] = append([]string{s.Command}, s.Args...)
		}
	}
	return all
}

func FuzzInstall(f *testing.F) {
	for _, name := range []string{"cursor.json", "vscode.json", "codex.toml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, strings.HasSuffix(name, ".toml"))
	}
	f.Add([]byte("mcp_servers={a={command='''x'''},b={command=\"y\",args=[ 'z' , ]}}"), true)
	f.Add([]byte("[mcp_servers]\n  a.b=1\n  a.command='x' # y\nc={d.e=1, command=\"z\"}"), true)
	f.Add([]byte(`{"mcpServers":{"a":{"args":["x",],"command":"y"}}}`), false)
	f.Fuzz(func(t *testing.T, text []byte, toml bool) {
		name := "a.json"
		if toml {
			name = "a.toml"
		}
		file, err := Read(name, text)
		if err != nil {
			return
		}
		was := commands(file)
		for _, s := range file.Servers() {
			if s.Installed {
				return // it loses what it had before
			}
		}
		c := install(t, file, nil)
		installed := reread(t, file, c.Text)
		if again := install(t, installed, nil); !bytes.Equal(again.Text, c.Text) {
			t.Fatalf("a second install changes\n%s\ninto\n%s", c.Text, again.Text)
		}
		back := reread(t, file, installed.Remove(nil).Text)
		if now := commands(back); !reflect.DeepEqual(was, now) {
			t.Fatalf("got %q after remove, want %q\n%s", now, was, c.Text)
		}
	})
}
