package terminal

import (
	"bytes"
	"slices"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"plain text, café 😀", "plain text, café 😀"},
		{"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"a\nb\tc\rd", `a\nb\tc\rd`},
		{"\u202eevil", `\u202eevil`},
		{"\x80\xff", `\x80\xff`},
		{"\ufffd stays", "\ufffd stays"},
		{"\u009b2J", `\u009b2J`},
		{"", ""},
	} {
		if got := Escape(c.in); got != c.want {
			t.Errorf("Escape(%q): got %q, want %q", c.in, got, c.want)
		}
	}
	if got, want := EscapeLines("a\n\tb\x1b"), "a\n\tb\\x1b"; got != want {
		t.Errorf("EscapeLines: got %q, want %q", got, want)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b]0;title\a\u2066x")
	f.Fuzz(func(t *testing.T, in string) {
		out := Escape(in)
		if !utf8.ValidString(out) {
			t.Fatalf("Escape(%q): got invalid UTF-8 %q", in, out)
		}
		for _, r := range out {
			if !unicode.IsPrint(r) && r != utf8.RuneError {
				t.Fatalf("Escape(%q): got %q, which holds %U", in, out, r)
			}
		}
	})
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		width int
		want  []string
	}{
		{"one two three", 7, []string{"one two", "three"}},
		{"ééééé", 2, []string{"éé", "éé", "é"}},
		{"", 5, []string{""}},
		{"a verylongword b", 5, []string{"a", "veryl", "ongwo", "rd b"}},
	} {
		if got := Wrap(c.in, c.width); !slices.Equal(got, c.want) {
			t.Errorf("Wrap(%q, %d): got %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

func TestTableForPrograms(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	New(&b).Table([]string{"ID", "STATUS"}, [][]Cell{{{"op_1", Plain}, {"a\tb\x1b[0m", Red}}})
	if got, want := b.String(), "op_1\ta\\tb\\x1b[0m\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
