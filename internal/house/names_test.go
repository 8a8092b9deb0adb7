package house

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// emptyNames are folder names that say nothing about what is inside.
var emptyNames = []string{"util", "utils", "common", "pkg", "helper", "helpers", "misc"}

func TestFoldersAreNamedAfterWhatTheyHold(t *testing.T) {
	t.Parallel()
	for _, name := range files(t) {
		for folder := range strings.SplitSeq(path.Dir(name), "/") {
			if slices.Contains(emptyNames, folder) {
				t.Errorf("%s: name the folder %q after what it holds", name, folder)
			}
		}
	}
}

func TestEachPackageHasOneComment(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t, platforms[0]) {
		if !p.ours() {
			continue
		}
		var where []string
		for _, name := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil && !strings.HasSuffix(name, "_test.go") {
				where = append(where, name)
			}
		}
		if len(where) != 1 {
			t.Errorf("%s: got package comments in %v, want exactly one", p.folder(), where)
		}
	}
}

// No file may speak of the place where somebody wrote it, or leave work for later.
var unwanted = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`(^|[^\w.~-])/(work|root)/`), "a path of one machine means nothing on another"},
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`), "unfinished work belongs into the tracker, not into the tree"},
}

func TestFilesHoldNothingOfTheirMaking(t *testing.T) {
	t.Parallel()
	for _, name := range files(t) {
		text := read(t, name)
		if strings.ContainsRune(text, 0) {
			continue // no text
		}
		for i, line := range strings.Split(text, "\n") {
			for _, u := range unwanted {
				if found := u.pattern.FindString(line); found != "" {
					t.Errorf("%s:%d has %q: %s", name, i+1, found, u.why)
				}
			}
		}
	}
}
