package contract

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// golden runs f over each NAME.yaml of the archives in a folder and compares with NAME.txt
// behind it.
func golden(t *testing.T, folder string, f func(t *testing.T, src []byte) string) {
	archives, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives in %s: %v", folder, err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, file := range ar.Files {
				if name, ok := strings.CutSuffix(file.Name, ".txt"); ok {
					want[name] = string(file.Data)
				}
			}
			fresh := &txtar.Archive{Comment: ar.Comment}
			for _, file := range ar.Files {
				name, ok := strings.CutSuffix(file.Name, ".yaml")
				if !ok {
					continue
				}
				got := f(t, file.Data)
				fresh.Files = append(fresh.Files, file, txtar.File{Name: name + ".txt", Data: []byte(got)})
				if got != want[name] && !*update {
					t.Errorf("%s:\ngot\n%s\nwant\n%s", name, got, want[name])
				}
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(fresh), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	golden(t, "problems", func(t *testing.T, src []byte) string {
		_, err := Parse("pawl.yaml", src, nil)
		if err == nil {
			return "no problem\n"
		}
		return err.Error() + "\n"
	})
}

func TestLint(t *testing.T) {
	t.Parallel()
	golden(t, "lint", func(t *testing.T, src []byte) string {
		f, err := Parse("pawl.yaml", src, nil)
		if err != nil {
			t.Fatalf("parse:\n%v", err)
		}
		var b strings.Builder
		for _, n := range Lint(f) {
			fmt.Fprintf(&b, "%d %s %s %s: %s; %s\n", n.Line, n.Severity, n.Code, n.Tool, n.Message, n.Cost)
		}
		return b.String()
	})
}
