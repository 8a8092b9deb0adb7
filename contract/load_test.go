package contract

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func exampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	return files
}

func mustParse(t *testing.T, src string, o *Options) *File {
	t.Helper()
	f, err := Parse("pawl.yaml", []byte(src), o)
	if err != nil {
		t.Fatalf("parse:\n%v", err)
	}
	return f
}

func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	for _, file := range exampleFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			f, err := Load(file, nil)
			if err != nil {
				t.Fatalf("load:\n%v", err)
			}
			for _, tool := range f.tools {
				again, err := Parse("source", []byte(tool.contract.Source), nil)
				if err != nil {
					t.Fatalf("source of %s:\n%s\n%v", tool.contract.Tool, tool.contract.Source, err)
				}
				if got := again.tools[0].contract; got.Hash() != tool.contract.Hash() {
					t.Errorf("%s: the source compiles to another contract:\n%s", tool.contract.Tool, tool.contract.Source)
				}
			}
		})
	}
}

func TestLoadMissingFile(t *testing.T) {
	t.Parallel()
	if _, err := Load(filepath.Join(t.TempDir(), "pawl.yaml"), nil); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("got %v, want a missing file", err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		if os.IsNotExist(err) {
			return err
		}
		err = u.Unwrap()
	}
}

// The examples are as good as their providers allow: the mailer promises nothing, and an
// error of the shop may be the echo of a success.
func TestExamplesAreSound(t *testing.T) {
	t.Parallel()
	for _, file := range exampleFiles(t) {
		f, err := Load(file, nil)
		if err != nil {
			t.Fatalf("load:\n%v", err)
		}
		var got []string
		for _, n := range Lint(f) {
			got = append(got, fmt.Sprintf("%d %s", n.Line, n.Code))
		}
		want := map[string][]string{"email.yaml": {"11 unsafe_alone", "11 no_rejection"}, "exchange.yaml": {"11 no_rejection"}}[filepath.Base(file)]
		if !slices.Equal(got, want) {
			t.Errorf("%s: got findings %q, want %q", file, got, want)
		}
	}
}
