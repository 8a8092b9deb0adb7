package contract

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzParse: any text is a file or an *InvalidError with places inside the text, and
// what a file's contracts keep as their source compiles again.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/examples/*.yaml")
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	archives, _ := filepath.Glob("testdata/*/*.txtar")
	for _, path := range archives {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range ar.Files {
			if strings.HasSuffix(file.Name, ".yaml") {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		hang := time.AfterFunc(10*time.Second, func() { panic("no end in sight") })
		defer hang.Stop()
		file, err := Parse("f", src, nil)
		if err != nil {
			var invalid *InvalidError
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 || len(invalid.Problems) > maxProblems {
				t.Fatalf("got %v, want problems", err)
			}
			for _, p := range invalid.Problems {
				if p.Line < 1 || p.Column < 1 || p.Message == "" {
					t.Fatalf("got %+v", p)
				}
			}
			_ = err.Error()
			return
		}
		Lint(file)
		for _, own := range file.tools {
			again, err := Parse("source", []byte(own.contract.Source), nil)
			if err != nil {
				t.Fatalf("source of %q: %v\n%s", own.contract.Tool, err, own.contract.Source)
			}
			// The source of a case is that of its whole tool.
			if !slices.ContainsFunc(again.tools, func(t *tool) bool {
				return t.contract.Tool == own.contract.Tool && t.contract.Hash() == own.contract.Hash()
			}) {
				t.Fatalf("the source of %q is another contract:\n%s", own.contract.Tool, own.contract.Source)
			}
		}
	})
}

// Texts made to exhaust a reader are refused in bounded time.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		prev := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [*" + strings.Repeat(prev+",*", 8) + prev + "]\n"
	}
	for name, src := range map[string]string{
		"large":        strings.Repeat("#", maxFile+1),
		"brackets":     "store: " + strings.Repeat("[", 300_000),
		"braces":       "store: " + strings.Repeat("{a: ", 100_000),
		"dashes":       strings.Repeat("- ", 300_000),
		"questions":    strings.Repeat("? ", 300_000),
		"tags":         "store: " + strings.Repeat("!!str ", 150_000),
		"anchors":      "store: " + strings.Repeat("&a ", 200_000),
		"aliases":      bomb,
		"indentation":  indented(600),
		"many keys":    "version: 1\n" + strings.Repeat("k: v\n", 100_000),
		"many unknown": "version: 1\n" + distinct(20_000),
		"long line":    "store: " + strings.Repeat("x ", 300_000),
		"nul":          "version: 1\x00",
		"not utf8":     "version: 1\nstore: \xff\xfe\n",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("f", []byte(src), nil)
			var invalid *InvalidError
			if name != "long line" && !errors.As(err, &invalid) {
				t.Errorf("got %v, want problems", err)
			}
			if err != nil && len(err.Error()) > 64<<10 {
				t.Errorf("got an error of %d bytes", len(err.Error()))
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func indented(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("k" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26%50) + ": v\n")
	}
	return b.String()
}
