package clients

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// placed puts a file of testdata into a folder of its own and opens it.
func placed(t *testing.T, name string) (*File, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o640); err != nil {
		t.Fatal(err)
	}
	return open(t, path), path
}

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func written(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// put installs and keeps the backup.
func put(t *testing.T, f *File, o *InstallOptions) *Change {
	t.Helper()
	c := install(t, f, o)
	if _, err := f.Backup(c); err != nil {
		t.Fatal(err)
	}
	if err := f.Replace(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestUndoOfTwoInstalls(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cursor.json", "vscode.json", "codex.toml"} {
		f, path := placed(t, name)
		before := f.text
		first := f.Servers()[0].Name
		put(t, f, &InstallOptions{Only: []string{first}})
		put(t, open(t, path), &InstallOptions{Gateway: "http://127.0.0.1:4100/mcp"})
		c, used, err := open(t, path).Undo()
		if err != nil {
			t.Fatal(err)
		}
		if len(used) == 0 || !c.Changed() {
			t.Errorf("%s: got %d backups used, changed: %v", name, len(used), c.Changed())
		}
		want := before
		if name == "cursor.json" { // what was wrapped before the first install loses pawl too
			want = f.Remove(nil).Text
		}
		if !bytes.Equal(c.Text, want) {
			t.Errorf("%s: got after undo\n%s\nwant\n%s", name, c.Text, want)
		}
	}
}

func TestReplaceKeepsLinkAndPermissions(t *testing.T) {
	t.Parallel()
	f, path := placed(t, "cursor.json")
	link := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.Symlink(path, link); err != nil {
		t.Skip("no symbolic links here")
	}
	linked := open(t, link)
	c := put(t, linked, nil)
	if fi, err := os.Lstat(link); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is none any more: %v, %v", fi.Mode(), err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o640 {
		t.Errorf("got permissions %v, %v, want 0640", fi.Mode(), err)
	}
	if got := written(t, path); !bytes.Equal(got, c.Text) {
		t.Errorf("got\n%s", got)
	}
	kept, err := backups(path)
	if err != nil || len(kept) != 1 {
		t.Fatalf("got %d backups beside the file, %v, want 1", len(kept), err)
	}
	if fi, err := os.Stat(kept[0].name); err != nil || fi.Mode().Perm() != 0o640 || !bytes.Equal(written(t, kept[0].name), f.text) {
		t.Errorf("the backup is not what the file was: %v, %v", fi.Mode(), err)
	}
}

func TestReplaceRefusesWhatItDidNotRead(t *testing.T) {
	t.Parallel()
	f, path := placed(t, "codex.toml")
	c := install(t, f, nil)
	other := append(bytes.Clone(f.text), "# edited\n"...)
	if err := os.WriteFile(path, other, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := f.Replace(c); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that has changed since: got %v, want ErrChanged", err)
	}
	if err := open(t, path).Replace(&Change{Text: []byte("no = \n")}); err == nil {
		t.Error("a text that cannot be read: got no error")
	}
	if got := written(t, path); !bytes.Equal(got, other) {
		t.Errorf("the file was written:\n%s", got)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("got %d files, %v, want 1", len(left), err)
	}
}

func TestOpenOfWhatIsNoFile(t *testing.T) {
	t.Parallel()
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing.json")} {
		if _, err := Open(path); err == nil {
			t.Errorf("%s: got no error", path)
		}
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	p := &Places{Project: t.TempDir(), Home: t.TempDir(), Config: t.TempDir(), Codex: t.TempDir()}
	for _, c := range []struct{ client, file string }{
		{"claude", filepath.Join(p.Config, "Claude", "claude_desktop_config.json")},
		{"claude-code", filepath.Join(p.Project, ".mcp.json")},
		{"cursor", filepath.Join(p.Home, ".cursor", "mcp.json")},
		{"cursor", filepath.Join(p.Project, ".cursor", "mcp.json")}, // once it is there it comes first
		{"vscode", filepath.Join(p.Project, ".vscode", "mcp.json")},
		{"codex", filepath.Join(p.Codex, "config.toml")},
		{"codex", filepath.Join(p.Project, ".codex", "config.toml")},
	} {
		if err := os.MkdirAll(filepath.Dir(c.file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(c.file, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Locate(c.client, p); err != nil || got != c.file {
			t.Errorf("%s: got %s, %v, want %s", c.client, got, err, c.file)
		}
	}
	if _, err := Locate("vscode", &Places{Project: t.TempDir(), Home: p.Home, Config: p.Config}); err == nil {
		t.Error("a client without a file: got no error")
	}
	if got, err := Locate("some/file.json", p); err != nil || got != "some/file.json" {
		t.Errorf("got %s, %v, want the path itself", got, err)
	}
}
