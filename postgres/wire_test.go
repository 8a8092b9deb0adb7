package postgres

import (
	"testing"
	"unicode/utf8"
)

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "refund", "a\\b", "\x00", "\\0", "\xff\xfe", "ü\\x00\x00", "\\\\x", "\xe2\x82"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := escape(s)
		if !utf8.ValidString(e) {
			t.Errorf("escape %q: got %q, which is not UTF-8", s, e)
		}
		for _, c := range e {
			if c == 0 {
				t.Errorf("escape %q: got %q, which holds NUL", s, e)
			}
		}
		if got, ok := unescape(e); !ok || got != s {
			t.Errorf("unescape %q: got %q, %t; want %q", e, got, ok, s)
		}
		unescape(s) // whatever was written there by hand
	})
}
