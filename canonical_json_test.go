package pawl

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestAppendJSONIsCanonical(t *testing.T) {
	t.Parallel()
	tests := []struct {
		v    any
		want string
	}{
		{nil, `null`},
		{true, `true`},
		{json.Number("49.90"), `49.90`},
		{json.Number("9007199254740993"), `9007199254740993`},
		{-3, `-3`},
		{int64(math.MaxInt64), `9223372036854775807`},
		{"<a&b>", `"<a&b>"`},
		{"\n\t\r\b\f\"\\/", `"\n\t\r\b\f\"\\/"`},
		{"\x01\x1f\x7f", `"\u0001\u001f\u007f"`},
		{"CAFÉ 😀\u2028\uffff\ufffd", `"CAF\u00c9 \ud83d\ude00\u2028\uffff\ufffd"`},
		{[]string{"b", "a"}, `["b","a"]`},
		{[]string(nil), `[]`},
		{[]any{}, `[]`},
		{map[string]any{}, `{}`},
		{map[string]any{"b": []any{1, "x"}, "a": nil, "": false}, `{"":false,"a":null,"b":[1,"x"]}`},
		// U+FB33 sorts before U+1F600 by code point and after it by UTF-16 unit.
		{map[string]any{"\U0001F600": 1, "\uFB33": 2}, `{"\ufb33":2,"\ud83d\ude00":1}`},
		{map[string]any{"Z": 1, "a": 2, "~": 3, "é": 4}, `{"Z":1,"a":2,"~":3,"\u00e9":4}`},
	}
	for _, tt := range tests {
		got, err := AppendJSON([]byte("kept"), tt.v)
		if err != nil || string(got) != "kept"+tt.want {
			t.Errorf("AppendJSON(%#v): got %s, %v, want kept%s", tt.v, got, err, tt.want)
		}
	}
}

func TestAppendJSONRefusesWhatParseJSONCannotMake(t *testing.T) {
	t.Parallel()
	type named string
	var loop []any
	loop = []any{&loop}
	round := map[string]any{}
	round["a"] = round
	tests := []struct {
		name    string
		v       any
		pointer string
	}{
		{"float", map[string]any{"a": []any{1, 2.5}}, "/a/1"},
		{"NaN", math.NaN(), ""},
		{"empty number", json.Number(""), ""},
		{"number that is none", json.Number("1x"), ""},
		{"number with a plus", json.Number("+1"), ""},
		{"NaN as a number", json.Number("NaN"), ""},
		{"invalid UTF-8", []any{"a\xff"}, "/0"},
		{"invalid UTF-8 in a key", map[string]any{"\xff": 1}, ""},
		{"NUL", "a\x00", ""},
		{"another type", named("a"), ""},
		{"pointer", loop, "/0"},
		{"a value that holds itself", round, strings.Repeat("/a", MaxDepth)},
		{"keys that differ in case", map[string]any{"Amount": 1, "amount": 2}, "/amount"},
	}
	for _, tt := range tests {
		_, err := AppendJSON(nil, tt.v)
		var jerr *JSONError
		if !errors.As(err, &jerr) {
			t.Errorf("%s: got %v, want a *JSONError", tt.name, err)
		} else if jerr.Pointer != tt.pointer || jerr.Offset != -1 {
			t.Errorf("%s: got %+v, want pointer %q and offset -1", tt.name, jerr, tt.pointer)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	v, err := ParseJSON(benchObject)
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = AppendJSON(buf[:0], v); err != nil {
			b.Fatal(err)
		}
	}
}
