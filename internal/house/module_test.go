package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/pawl-dev/pawl"

// platforms are those whose imports are looked at: files of one platform alone must keep
// the rules too.
var platforms = []string{"linux", "darwin", "windows"}

// listed is what go list tells about one package.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	Module     *struct {
		Path string
		Main bool
	}
	// IgnoredGoFiles are those that other platforms build.
	GoFiles, IgnoredGoFiles []string
	Imports, Deps           []string
}

// ours reports whether the package belongs to this module.
func (p *listed) ours() bool { return p.Module != nil && p.Module.Main }

// folder is the package's place in the module: "." for the root.
func (p *listed) folder() string { return folderOf(p.ImportPath) }

func folderOf(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

func isOurs(importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// root is the module's folder on disk.
var root = sync.OnceValues(func() (string, error) {
	out, err := run("", nil, "go", "list", "-m", "-f", "{{.Dir}}", module)
	return strings.TrimSpace(string(out)), err
})

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// packages lists every package of the module and everything it is built from, by import
// path, on one platform.
func packages(t *testing.T, platform string) map[string]*listed {
	t.Helper()
	out, err := run(moduleRoot(t), []string{"GOOS=" + platform, "GOARCH=amd64", "CGO_ENABLED=0"},
		"go", "list", "-deps", "-json=ImportPath,Dir,Standard,Module,GoFiles,IgnoredGoFiles,Imports,Deps", "./...")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*listed)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = &p
	}
}

// files lists the files of the tree that are tracked or about to be, by path from the
// module's root.
func files(t *testing.T) []string {
	t.Helper()
	dir := moduleRoot(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not there to list the tree's files")
	}
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		t.Skip("the tree is no git checkout")
	}
	out, err := run(dir, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(strings.Trim(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(list, func(name string) bool { // deleted and not yet committed
		_, err := os.Lstat(filepath.Join(dir, name))
		return err != nil
	})
}

// read returns a file of the tree.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(moduleRoot(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func run(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out, errors.New(cmd.String() + ": " + strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}
