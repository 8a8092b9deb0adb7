package pawl

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseJSONYieldsWhatIsWritten(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want any
	}{
		{`null`, nil},
		{` true `, true},
		{"\t\r\nfalse\n", false},
		{`""`, ""},
		{`"a/b"`, "a/b"},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"\u00e9\uD83D\uDE00\ud83d\ude00"`, "é😀😀"},
		{`"é😀\n` + "\u2028" + `\ufffd` + "\ufffd" + `"`, "é😀\n\u2028\ufffd\ufffd"},
		{`"\u007f` + "\x7f" + `"`, "\x7f\x7f"},
		{`0`, json.Number("0")},
		{`-0`, json.Number("-0")},
		{`9007199254740993`, json.Number("9007199254740993")},
		{`-12.50e+07`, json.Number("-12.50e+07")},
		{`4.99E1`, json.Number("4.99E1")},
		{`[]`, []any{}},
		{`[ 1 , [ ] , "x" ]`, []any{json.Number("1"), []any{}, "x"}},
		{`{}`, map[string]any{}},
		{`{ "a" : { "b" : null } , "" : [ ] }`, map[string]any{"a": map[string]any{"b": nil}, "": []any{}}},
		{strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), nested(MaxDepth)},
	}
	for _, tt := range tests {
		got, err := ParseJSON([]byte(tt.text))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("ParseJSON(%q): got %#v, %v, want %#v", tt.text, got, err, tt.want)
		}
	}
}

func nested(depth int) any {
	v := []any{}
	for ; depth > 1; depth-- {
		v = []any{v}
	}
	return v
}

func TestParseJSONRefusesWhatHasTwoReadings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		offset     int
		pointer    string
	}{
		{"nothing", ``, 0, ""},
		{"only space", "  ", 2, ""},
		{"two values", `1 2`, 2, ""},
		{"byte order mark", "\ufeff{}", 0, ""},
		{"form feed as space", "\f1", 0, ""},
		{"comment", `{"a":1/**/}`, 6, ""},
		{"trailing comma in an object", `{"a":1,}`, 7, ""},
		{"trailing comma in an array", `[1,]`, 3, "/1"},
		{"single quotes", `{'a':1}`, 1, ""},
		{"bare key", `{a:1}`, 1, ""},
		{"NaN", `{"a":NaN}`, 5, "/a"},
		{"Infinity", `[-Infinity]`, 1, "/0"},
		{"plus sign", `+1`, 0, ""},
		{"leading zero", `{"a":007}`, 6, ""},
		{"bare point", `[.5]`, 1, "/0"},
		{"point at the end", `[5.]`, 1, "/0"},
		{"empty exponent", `[5e]`, 1, "/0"},
		{"hexadecimal", `[0x1]`, 2, ""},
		{"capital literal", `True`, 0, ""},
		{"long literal", `nullx`, 4, ""},
		{"open object", `{"a":1`, 6, ""},
		{"open array", `[1`, 2, ""},
		{"open string", `["ab`, 4, "/0"},
		{"open escape", `"a\`, 2, ""},
		{"missing colon", `{"a" 1}`, 5, "/a"},
		{"raw NUL", "\"a\x00\"", 2, ""},
		{"escaped NUL", `{"a":"x\u0000y"}`, 7, "/a"},
		{"NUL in a key", `{"a\u0000":1}`, 3, ""},
		{"bare line feed", "\"a\nb\"", 2, ""},
		{"bare control after an escape", "\"\\n\x1f\"", 3, ""},
		{"unknown escape", `"\x41"`, 1, ""},
		{"short unicode escape", `"\u12"`, 1, ""},
		{"signed unicode escape", `"\u+123"`, 1, ""},
		{"lone high surrogate", `{"a":{"b":"\ud83d"}}`, 11, "/a/b"},
		{"high surrogate before a letter", `"\ud83dA"`, 1, ""},
		{"two high surrogates", `"\ud83d\ud83d\ude00"`, 1, ""},
		{"lone low surrogate", `"\ude00"`, 1, ""},
		{"invalid UTF-8", "{\"a\":\"ok\xff\"}", 8, "/a"},
		{"invalid UTF-8 before an escape", "\"a\xc3\\n\"", 2, ""},
		{"invalid UTF-8 after an escape", "\"\\n\xc3\"", 3, ""},
		{"invalid UTF-8 in a key", "{\"\xff\":1}", 2, ""},
		{"encoded surrogate", "\"\xed\xa0\x80\"", 1, ""},
		{"overlong slash", "\"\xc0\xaf\"", 1, ""},
		{"duplicate key", `{"a":1,"b":2,"a":1}`, 13, "/a"},
		{"duplicate key by escape", `{"a":1,"\u0061":2}`, 7, "/a"},
		{"duplicate key deep inside", `[{"o":{"a":1,"a":2}}]`, 13, "/0/o/a"},
		{"keys that differ in case", `{"amount":1,"AMOUNT":2}`, 12, "/AMOUNT"},
		{"the folded key second", `{"Amount":1,"amount":2}`, 12, "/amount"},
		{"long s", `{"status":1,"ſtatus":2}`, 12, "/ſtatus"},
		{"Kelvin sign", `{"k":1,"K":2}`, 7, "/K"},
		{"composed and decomposed", `{"é":1,"e` + "\u0301" + `":2}`, 8, "/e\u0301"},
		{"Greek sigmas", `{"σ":1,"ς":2}`, 8, "/ς"},
		{"too deep", strings.Repeat("[", MaxDepth+1), MaxDepth, strings.Repeat("/0", MaxDepth)},
		{"too deep in objects", strings.Repeat(`{"a":`, MaxDepth+1), 5 * MaxDepth, strings.Repeat("/a", MaxDepth)},
		{"pointer escapes", `{"a/b~c":{"x\u0007y":[1 2]}}`, 24, "/a~1b~0c/x\\u0007y"},
		{"too large", strings.Repeat(" ", MaxJSON) + "1", MaxJSON, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := ParseJSON([]byte(tt.text))
			var jerr *JSONError
			if !errors.As(err, &jerr) {
				t.Fatalf("got %#v, %v, want a *JSONError", v, err)
			}
			if jerr.Offset != tt.offset || jerr.Pointer != tt.pointer || jerr.What == "" {
				t.Errorf("got %+v, want offset %d and pointer %q", jerr, tt.offset, tt.pointer)
			}
			if v != nil {
				t.Errorf("got a value %#v beside the error", v)
			}
		})
	}
}

func TestJSONWithDuplicateKeysIsRefused(t *testing.T) { // trial G16
	t.Parallel()
	_, err := ParseJSON([]byte(`{"order_id":"A-1","amount":{"value":"1.00","value":"9.00"}}`))
	var jerr *JSONError
	if !errors.As(err, &jerr) || jerr.Pointer != "/amount/value" {
		t.Errorf("got %v, want a refusal of /amount/value", err)
	}
}

func TestJSONErrorsNeverHoldValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"card":"canary" x}`, `{"card":canary}`, `["canary`, `{"a":"canary\q"}`, `{"a":"canary","a":"canary"}`,
		"{\"a\":\"canary\xff\"}", `"canary" "canary"`,
	} {
		_, err := ParseJSON([]byte(text))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v, want an error without the value", text, err)
		}
	}
}

func TestJSONErrorsAreShort(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"`+strings.Repeat("\u2028", 10_000)+`":`, MaxDepth) + "?"
	_, err := ParseJSON([]byte(deep)[:MaxJSON/2])
	if err == nil || len(err.Error()) > 1500 {
		t.Errorf("got %d bytes of error, want at most 1500", len(err.Error()))
	}
	for _, r := range err.Error() {
		if r == '\u2028' {
			t.Fatal("got an unescaped line separator in the message")
		}
	}
}

func TestParseJSONLimit(t *testing.T) {
	t.Parallel()
	text := []byte(`"` + strings.Repeat("x", MaxJSON) + `"`)
	if _, err := ParseJSON(text); err == nil {
		t.Error("ParseJSON: got nil, want a refusal of a text beyond MaxJSON")
	}
	if _, err := ParseJSONLimit(text, len(text)); err != nil {
		t.Errorf("ParseJSONLimit: got %v, want nil", err)
	}
}

func TestParsedValuesOutliveTheirBytes(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"order_id":"A-1182","n":12}`)
	v, err := ParseJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if want := map[string]any{"order_id": "A-1182", "n": json.Number("12")}; !reflect.DeepEqual(v, want) {
		t.Errorf("got %v after the bytes were overwritten, want %v", v, want)
	}
}

// FuzzParseJSON checks that what ParseJSON accepts has one reading: encoding/json finds
// the same value in it, and its canonical text is its own canonical text.
func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{
		`null`, `[1,2.50,-0e9]`, `{"a":{"b":["x\u00e9\ud83d\ude00\n"]},"B":true}`, `{"a":1,"A":2}`, `"\u0000"`,
		"\"\xff\"", `{"é":"<&>"}`, `"\u2028\u007f"`, `[[[[]]]]`, `1e1000000000`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := ParseJSON(raw)
		if err != nil {
			if v != nil {
				t.Fatalf("got a value %#v beside the error %v", v, err)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var std any
		if err := dec.Decode(&std); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", raw, err)
		}
		if !reflect.DeepEqual(v, std) {
			t.Fatalf("%q: got %#v, encoding/json has %#v", raw, v, std)
		}
		text, err := AppendJSON(nil, v)
		if err != nil {
			t.Fatalf("AppendJSON(%#v): %v", v, err)
		}
		back, err := ParseJSONLimit(text, len(text))
		if err != nil {
			t.Fatalf("its own canonical text %q is refused: %v", text, err)
		}
		if !reflect.DeepEqual(back, v) {
			t.Fatalf("canonical text %q reads as %#v, want %#v", text, back, v)
		}
		if again, err := AppendJSON(nil, back); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("canonical text changes from %q to %q, %v", text, again, err)
		}
	})
}

// benchObject is a typical argument object of 330 bytes.
var benchObject = []byte(`{"order_id":"A-1182","amount":49.90,"currency":"EUR","reason":"item arrived damaged","items":[` +
	`{"sku":"W-2217","quantity":1},{"sku":"W-9981","quantity":2}],"customer":{"id":"c_901827","email":"ana@example.com",` +
	`"name":"Ana Pérez","verified":true},"note":"please refund to the original card","notify":true,"ticket":"T-20260114-042"}`)

// BenchmarkParseJSON reads it strictly, and as encoding/json does.
func BenchmarkParseJSON(b *testing.B) {
	b.Run("strict", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseJSON(benchObject); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dec := json.NewDecoder(bytes.NewReader(benchObject))
			dec.UseNumber()
			var v any
			if err := dec.Decode(&v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
