package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goFile is a Go file in a document, and what is said to be in it, if anything.
var goFile = regexp.MustCompile("`([a-z0-9_/]+\\.go)`(?: `([A-Za-z.]+)`)?")

func TestArchitectureNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	const page = "docs/architecture.md"
	named := goFile.FindAllStringSubmatch(read(t, page), -1)
	if len(named) == 0 {
		t.Fatalf("%s names no Go file", page)
	}
	for _, m := range named {
		file, name := m[1], m[2]
		if _, err := os.Stat(filepath.Join(moduleRoot(t), filepath.FromSlash(file))); err != nil {
			t.Errorf("%s names %s, which is not there", page, file)
		} else if name != "" && !declared(t, file)[name] {
			t.Errorf("%s says that %s has %s, which it does not", page, file, name)
		}
	}
}

// declared lists the functions, methods (as Type.Method) and types that a Go file declares.
func declared(t *testing.T, file string) map[string]bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[receiverOf(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					names[s.Name.Name] = true
				}
			}
		}
	}
	return names
}

// receiverOf is the receiver's type and a dot, or nothing for a function.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "."
	}
	return "?."
}

// link is the target of a Markdown link that leads to a file of the tree.
var link = regexp.MustCompile(`\]\(([^)#: ]+)(?:#[^)]*)?\)`)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			target := path.Join(path.Dir(name), m[1])
			if _, err := os.Stat(filepath.Join(moduleRoot(t), filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
}

// testName is a test in a document.
var testName = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")

func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	there := make(map[string]bool)
	for _, name := range files(t) {
		if strings.HasSuffix(name, "_test.go") {
			for declaration := range declared(t, name) {
				there[declaration] = true
			}
		}
	}
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range testName.FindAllStringSubmatch(read(t, name), -1) {
			if !there[m[1]] {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
}

// target is a make target in a document or a script: "make race".
var target = regexp.MustCompile("(?m)(?:`|^ *|^\t)make ([a-z]+)\\b")

func TestNamedMakeTargetsExist(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".md") && name != ".ci/run" {
			continue
		}
		for _, m := range target.FindAllStringSubmatch(read(t, name), -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s speaks of make %s, which the Makefile does not have", name, m[1])
			}
		}
	}
}
