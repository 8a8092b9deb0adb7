package pawl

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzValidJSON holds validJSON to encoding/json.
func FuzzValidJSON(f *testing.F) {
	for _, s := range []string{
		``, ` `, `{}`, `[]`, ` [ 1 , 2 ] `, `{"a":1,"b":[true,false,null]}`, `{"a" : {"b" : -0.5e+7}}`, `"a\u00e9\"\\\/\b\f\n\r\t"`, `"\u12g4"`, `"\u12"`, `"\x"`, `"`, `"\`,
		"\"\x01\"", "\"\xff\"", `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `[1,]`, `[,1]`, `[`, `[1`, `[1 2]`, `{"a" 1}`, `{1:2}`, `{"a":1]`, `[1}`,
		`tru`, `true`, `trueq`, `nul`, `falsy`, `01`, `-`, `1.`, `.5`, `1e`, `1e+`, `+1`, `1 2`, `{}x`, "\v1", "1\n",
		strings.Repeat("[", 10000) + strings.Repeat("]", 10000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
		strings.Repeat("[", 10000) + "1" + strings.Repeat("]", 10000), strings.Repeat("[", 10001),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := validJSON(b), json.Valid(b); got != want {
			t.Errorf("got %v, want %v for %q", got, want, b[:min(len(b), 200)])
		}
	})
}
