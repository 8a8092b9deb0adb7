package rule_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/rule"
)

const root = "../.."

// named lists the constants of a file that have the given type, with their values.
func named(t *testing.T, file, kind string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); ok && id.Name == kind {
			value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[v.Names[0].Name] = value
		}
		return true
	})
	return found
}

// asked reports whether any code of a folder asks whether a rule holds.
func asked(t *testing.T, folder, call string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") && strings.Contains(string(b), call) {
			return true
		}
	}
	return false
}

// TestTableIsWhatTheCodeAsks: every rule that is named is asked for somewhere and has a
// row, every row has its rule, and the documentation shows every row.
func TestTableIsWhatTheCodeAsks(t *testing.T) {
	t.Parallel()
	rows := map[string]rule.Switch{}
	switches, err := rule.Switches()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range switches {
		rows[s.Name] = s
	}
	if len(rows) != len(switches) {
		t.Errorf("got %d names in %d rows, want each once", len(rows), len(switches))
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	check := func(name, value string, folders []string, call string) {
		seen[value] = true
		s, ok := rows[value]
		if !ok {
			t.Errorf("%s has no row in rules.tsv", value)
			return
		}
		found := false
		for _, folder := range folders {
			found = found || asked(t, folder, call)
		}
		if !found {
			t.Errorf("no code asks whether %s holds", name)
		}
		test, _, _ := strings.Cut(s.Test, "/")
		if !strings.Contains(string(page), "`"+value+"`") || !strings.Contains(string(page), "`"+test+"`") {
			t.Errorf("docs/reliability.md does not show %s with %s", value, test)
		}
	}
	for _, file := range []string{"rules.go", "rules_run.go"} {
		for name, value := range named(t, file, "protocolRule") {
			check(name, value, []string{"."}, "holds("+name+")")
		}
	}
	for name, value := range named(t, "internal/rule/rule.go", "Rule") {
		check(name, value, []string{"evidence", "contract", "gateway/upstream", "sqlite", "postgres"}, "rule.Holds(rule."+name+")")
	}
	for name := range rows {
		if !seen[name] {
			t.Errorf("rules.tsv has a row for %s, which is no rule", name)
		}
	}
}
