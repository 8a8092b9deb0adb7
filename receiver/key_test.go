package receiver

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// The syntax of the header, V06.
func TestParseKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{`"abc"`, "abc"}, {`  "abc"  `, "abc"}, {`"a\"b\\"`, `a"b\`}, {`"a,b;c d"`, "a,b;c d"},
		{`"abc";v=1`, "abc"}, {`"abc"; v;w="x;\"y";*z=?1;u=:aGk=:`, "abc"},
		{`"` + strings.Repeat("k", maxKey) + `"`, strings.Repeat("k", maxKey)},
		{`"` + strings.Repeat("k", maxKey+1) + `"`, ""},
		{`""`, ""}, {``, ""}, {`abc`, ""}, {`12`, ""}, {`("abc")`, ""}, {`"abc`, ""}, {`"abc\"`, ""}, {`"a\c"`, ""}, {`"é"`, ""},
		{"\"a\x7f\"", ""}, {`"a", "b"`, ""}, {`"abc" x`, ""}, {`"abc" ;v=1`, ""}, {`"abc";`, ""}, {`"abc";V=1`, ""}, {`"abc";v=`, ""}, {`"abc";v="x`, ""},
	} {
		got, err := ParseKey(http.Header{"Idempotency-Key": {c.line}}, false)
		if got != c.want || (c.want == "") != errors.Is(err, ErrBadKey) {
			t.Errorf("%s: got %q, %v; want %q", c.line, got, err, c.want)
		}
	}
	if _, err := ParseKey(http.Header{}, false); !errors.Is(err, ErrNoKey) {
		t.Errorf("no line: got %v, want ErrNoKey", err)
	}
	if _, err := ParseKey(http.Header{"Idempotency-Key": {`"a"`, `"a"`}}, true); !errors.Is(err, ErrBadKey) {
		t.Errorf("two lines: got %v, want ErrBadKey", err)
	}
	if got, err := ParseKey(http.Header{"Idempotency-Key": {`abc`}}, true); got != "abc" || err != nil {
		t.Errorf("a bare key where it may be: got %q, %v; want abc", got, err)
	}
}
