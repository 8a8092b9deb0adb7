package receiver

import (
	"net/http"
	"strings"
	"testing"
)

// FuzzParseKey: what is taken for a key is the same key when it is quoted anew.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{`"abc"`, `"a\"b\\"`, `abc`, `""`, `"abc";v=1`, `"é"`, `("a")`, `"a" x`, `"a`, ` "a" `} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, bare bool) {
		key, err := ParseKey(http.Header{"Idempotency-Key": {s}}, bare)
		if err != nil {
			return
		}
		if key == "" || len(key) > maxKey {
			t.Fatalf("%q: got a key of %d characters", s, len(key))
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := ParseKey(http.Header{"Idempotency-Key": {quoted}}, false); err != nil || again != key {
			t.Errorf("%q: got %q, and %q, %v for its quoted form", s, key, again, err)
		}
	})
}

// FuzzFingerprint: no body is too much for it, and blanks around a JSON body do not count.
func FuzzFingerprint(f *testing.F) {
	for _, s := range []string{`{"b":1.0,"a":[true,null,"x"]}`, `1e400`, `-0`, `1e999999999`, `{"a":1,"a":2}`, `"\ud800"`, `[1] x`, strings.Repeat("[", 2000)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, ok := canonicalJSON(body); !ok {
			return
		}
		r := &Request{Body: body}
		if r.fingerprint() != (&Request{Body: append(append([]byte(" \n"), body...), '\n')}).fingerprint() {
			t.Errorf("%q: a blank before it makes another payload", body)
		}
	})
}

// Equal values are one payload, and whatever a reader may tell apart is two.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	of := func(body string) string { return (&Request{Body: []byte(body)}).fingerprint() }
	for _, same := range [][2]string{{`{"n":1.0}`, `{"n":1}`}, {`{"n":1e2}`, `{"n":100}`}, {`{"a":1,"b":2}`, `{"b":2,"a":1}`},
		{`-12.50e3`, `-12500`}, {`1e999`, `10E+998`}, {`[-0.0]`, `[0]`}, {`[1200]`, `[1.2e3]`}, {`[0.00012]`, `[12e-5]`}, {`{"a":{"c":[1, 2],"b":null}}`, ` {"a":{"b":null,"c":[1,2]}}`}, {`"\u0061"`, `"a"`}} {
		if of(same[0]) != of(same[1]) {
			t.Errorf("%s and %s: got two payloads, want one", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{`{"n":9007199254740993}`, `{"n":9007199254740992}`}, {`{"n":"1"}`, `{"n":1}`}, {`{}`, ``}, {`[1,2]`, `[2,1]`},
		{`1e3`, `1e-3`}, {`0.1`, `1`}, {`[1]`, `[-1]`}, {`[12]`, `[120]`}, {`[1e999999999999]`, `[1e999999999998]`}, {`{"a":1,"a":2}`, `{"a":2}`}, {"\"\xff\"", "\"\xfe\""}, {`"\ud800"`, `"\ud801"`}, {`null`, `"null"`}} {
		if of(other[0]) == of(other[1]) {
			t.Errorf("%s and %s: got one payload, want two", other[0], other[1])
		}
	}
	query := func(q string) string { return (&Request{Query: q}).fingerprint() }
	if query("a=1&b=2") != query("b=2&a=1") || query("a=1") == query("a=2") || query("a=1&a=2") == query("a=2&a=1") {
		t.Error("parameters of one name count in their order, and others in any")
	}
}
