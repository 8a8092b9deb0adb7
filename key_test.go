package pawl

import (
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestKeyVectors holds the vectors that every implementation must reproduce, from the
// arguments of a call to the key, plus the blob in between.
func TestKeyVectors(t *testing.T) {
	t.Parallel()
	refund := []Field{Text("order_id"), Money("amount", "=EUR")}
	tests := []struct {
		name   string
		fields []Field
		args   string
		blob   Blob // without its ID
		bytes  string
		key    string
	}{
		{
			"step", refund, `{"order_id":" A-1182","amount":4.99e1}`,
			Blob{Run: "run-7", Step: "3", Tool: "issue_refund"},
			`{"id":{"amount":"49.90","order_id":"A-1182"},"run":"run-7","step":"3","tool":"issue_refund"}`,
			"8893dc6d05960a237c3dc2bfd80913b2",
		},
		{
			"another tool", []Field{{Name: "to", Rule: Rule{Kind: RuleLower}}, Text("template_id")},
			`{"template_id":"refund_confirmed","to":"Ana@Example.com"}`,
			Blob{Run: "run-7", Step: "4", Tool: "send_email"},
			`{"id":{"template_id":"refund_confirmed","to":"ana@example.com"},"run":"run-7","step":"4","tool":"send_email"}`,
			"8059bcd7bc3a390dddc2015d77e56899",
		},
		{
			"beyond ASCII", refund, `{"order_id":"CAFE\u0301-1 😀","amount":"-0"}`,
			Blob{Run: "run-7", Step: "3", Tool: "issue_refund"},
			`{"id":{"amount":"0.00","order_id":"CAF\u00c9-1 \ud83d\ude00"},"run":"run-7","step":"3","tool":"issue_refund"}`,
			"9b283688eee6689050e2c555e739c9dd",
		},
		{
			"scope run", refund, `{"order_id":"A-1182","amount":"49.9"}`,
			Blob{Run: "run-7", Tool: "issue_refund"},
			`{"id":{"amount":"49.90","order_id":"A-1182"},"run":"run-7","tool":"issue_refund"}`,
			"f1aff075120cf2b2eae9e1ac7c577b43",
		},
		{
			"generation", refund, `{"order_id":"A-1182","amount":49.90}`,
			Blob{Run: "run-7", Step: "3", Tool: "issue_refund", Gen: 1},
			`{"gen":1,"id":{"amount":"49.90","order_id":"A-1182"},"run":"run-7","step":"3","tool":"issue_refund"}`,
			"e15b8efb01476779e6049ae225aa2563",
		},
		{
			"tenant", refund, `{"order_id":"A-1182","amount":49.900}`,
			Blob{Run: "run-7", Step: "3", Tool: "issue_refund", Tenant: "acme"},
			`{"id":{"amount":"49.90","order_id":"A-1182"},"run":"run-7","step":"3","tenant":"acme","tool":"issue_refund"}`,
			"92a3bf230683caf055eda2bc00cc5811",
		},
		{
			"escapes", []Field{{Name: "order_id", Rule: Rule{Kind: RuleRaw}}, Money("amount", "=EUR")},
			`{"order_id":"<a&b>\u2028\t\u007F","amount":1}`,
			Blob{Run: "run-7", Step: "3", Tool: "issue_refund"},
			`{"id":{"amount":"1.00","order_id":"<a&b>\u2028\t\u007f"},"run":"run-7","step":"3","tool":"issue_refund"}`,
			"d908fbee5c8c32be07b20583e8c36f87",
		},
		{
			"scope business", refund, `{"order_id":"A-1182","amount":"49.90"}`,
			Blob{Tool: "issue_refund"},
			`{"id":{"amount":"49.90","order_id":"A-1182"},"tool":"issue_refund"}`,
			"98d21a8735396e759cba2d323899c922",
		},
		{
			"scope parent_run", refund, `{"order_id":"A-1182","amount":"49.90"}`,
			Blob{Run: "parent-1", Tool: "issue_refund"},
			`{"id":{"amount":"49.90","order_id":"A-1182"},"run":"parent-1","tool":"issue_refund"}`,
			"6a76ba4554b965a75005e3c90ebe2f2a",
		},
		{
			"zip", []Field{{Name: "items", From: []string{"item_ids"}, Rule: Rule{Kind: RuleZip, With: "new_item_ids"}}, Text("order_id")},
			`{"order_id":"W1","item_ids":["1",2],"new_item_ids":[9,"8"]}`,
			Blob{Run: "run-7", Step: "3", Tool: "exchange"},
			`{"id":{"items":[["1","9"],["2","8"]],"order_id":"W1"},"run":"run-7","step":"3","tool":"exchange"}`,
			"3e3bb3e07932a98af714260387a1d6cd",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			blob := tt.blob
			blob.ID = identity(t, tt.args, tt.fields...)
			b, err := blob.Bytes()
			if err != nil || string(b) != tt.bytes {
				t.Fatalf("blob: got %s, %v, want %s", b, err, tt.bytes)
			}
			if got := DeriveKey(Secret{}, b).String(); got != tt.key {
				t.Errorf("key: got %s, want %s", got, tt.key)
			}
		})
	}
}

// identity is the canonical identity of arguments that have one.
func identity(t testing.TB, args string, fields ...Field) map[string]any {
	t.Helper()
	id := map[string]any{}
	for _, f := range fields {
		if err := f.validate(); err != nil {
			t.Fatalf("field %q: %v", f.Name, err)
		}
		v, err := f.Canonical(parseArgs(t, args))
		if err != nil {
			t.Fatal(err)
		}
		id[f.Name] = v
	}
	return id
}

func parseArgs(t testing.TB, text string) map[string]any {
	t.Helper()
	v, err := ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func TestDeriveKeyIsAnHMACUnderASecret(t *testing.T) {
	t.Parallel()
	// Test case 2 of RFC 4231.
	k := DeriveKey(Secret{Value: []byte("Jefe")}, []byte("what do ya want for nothing?"))
	got, _ := k.Encode(KeyHex64)
	if want := "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBlobRefusesWhatNoCallHas(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]Blob{
		"no tool":               {Run: "r"},
		"step without run":      {Tool: "t", Step: "3"},
		"negative generation":   {Tool: "t", Gen: -1},
		"float in the identity": {Tool: "t", ID: map[string]any{"a": 1.5}},
		"invalid UTF-8":         {Tool: "t", Run: "\xff"},
	} {
		if out, err := b.Bytes(); err == nil || out != nil {
			t.Errorf("%s: got %s, %v, want only an error", name, out, err)
		}
	}
	var jerr *JSONError
	if _, err := (Blob{Tool: "t", ID: map[string]any{"a": []any{"\xff"}}}).Bytes(); !errors.As(err, &jerr) || jerr.Pointer != "/a/0" {
		t.Errorf("got %v, want a *JSONError at /a/0", err)
	}
}

// TestDistinctBlobsHaveDistinctBytes also covers values that hold what separates others.
func TestDistinctBlobsHaveDistinctBytes(t *testing.T) {
	t.Parallel()
	label := rapid.StringOf(rapid.SampledFrom([]rune{'a', '"', '\\', ',', ':', '{', '}', '\u2028', 'é', '😀', '\n'}))
	gen := rapid.Custom(func(t *rapid.T) Blob {
		b := Blob{
			Tool: "t" + label.Draw(t, "tool"), Tenant: label.Draw(t, "tenant"), Run: label.Draw(t, "run"),
			Gen: rapid.IntRange(0, 2).Draw(t, "gen"),
			ID:  map[string]any{"a" + label.Draw(t, "name"): label.Draw(t, "value")},
		}
		if b.Run != "" {
			b.Step = label.Draw(t, "step")
		}
		return b
	})
	rapid.Check(t, func(t *rapid.T) {
		one, other := gen.Draw(t, "one"), gen.Draw(t, "other")
		x, err := one.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		y, err := other.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		same := one.Tool == other.Tool && one.Tenant == other.Tenant && one.Run == other.Run && one.Step == other.Step &&
			one.Gen == other.Gen && compareCanonical(one.ID, other.ID) == 0
		if (string(x) == string(y)) != same {
			t.Fatalf("%+v and %+v: got %s and %s", one, other, x, y)
		}
		v, err := ParseJSON(x)
		if err != nil {
			t.Fatalf("%s: %v", x, err)
		}
		if again, err := AppendJSON(nil, v); err != nil || string(again) != string(x) {
			t.Fatalf("the blob %s is not canonical: want %s, %v", x, again, err)
		}
	})
}

func TestKeyEncodings(t *testing.T) {
	t.Parallel()
	var zero, ones, mixed Key
	for i := range ones {
		ones[i] = 0xFF
		mixed[i] = byte(i * 9)
	}
	tests := []struct {
		enc               KeyEncoding
		zero, ones, mixed string
	}{
		{"", "00000000000000000000000000000000", "ffffffffffffffffffffffffffffffff", "0009121b242d363f48515a636c757e87"},
		{KeyHex, "00000000000000000000000000000000", "ffffffffffffffffffffffffffffffff", "0009121b242d363f48515a636c757e87"},
		{KeyHex64, strings.Repeat("0", 64), strings.Repeat("f", 64), "0009121b242d363f48515a636c757e879099a2abb4bdc6cfd8e1eaf3fc050e17"},
		{KeyUUID, "00000000-0000-8000-8000-000000000000", "ffffffff-ffff-8fff-bfff-ffffffffffff", "0009121b-242d-863f-8851-5a636c757e87"},
		{KeyBase62, "0000000000000000000000", "7n42DGM5Tflk9n8mt7Fhc7", "00490f51Qtfi89WSFtoSXP"},
		{KeyBase32Hex, strings.Repeat("0", 52), strings.Repeat("v", 51) + "g", "004h46p45kr3ui2hb9hmotbugu89j8lbmiusdjuos7lf7v051obg"},
		{KeyBase32Hex26, strings.Repeat("0", 26), strings.Repeat("v", 25) + "s", "004h46p45kr3ui2hb9hmotbugs"},
	}
	for _, tt := range tests {
		for _, c := range []struct {
			key  Key
			want string
		}{{zero, tt.zero}, {ones, tt.ones}, {mixed, tt.mixed}} {
			if got, err := c.key.Encode(tt.enc); err != nil || got != c.want {
				t.Errorf("%q of %s: got %s, %v, want %s", tt.enc, c.key, got, err, c.want)
			}
		}
	}
	if got, err := zero.Encode("rot13"); err == nil {
		t.Errorf("got %q for an unknown encoding, want an error", got)
	}
}

func TestKeyEncodingsHoldTheSameBits(t *testing.T) {
	t.Parallel()
	forms := map[KeyEncoding]*regexp.Regexp{
		KeyUUID:        regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
		KeyBase62:      regexp.MustCompile(`^[0-9A-Za-z]{22}$`),
		KeyBase32Hex:   regexp.MustCompile(`^[0-9a-v]{52}$`),
		KeyBase32Hex26: regexp.MustCompile(`^[0-9a-v]{26}$`),
	}
	rapid.Check(t, func(t *rapid.T) {
		k := Key(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		for e, form := range forms {
			if s, err := k.Encode(e); err != nil || !form.MatchString(s) {
				t.Fatalf("%s: got %s, %v, want %v", e, s, err, form)
			}
		}
		// big.Int writes base 62 with lower-case letters first.
		s, _ := k.Encode(KeyBase62)
		swapped := strings.Map(func(r rune) rune {
			switch {
			case 'A' <= r && r <= 'Z':
				return r + 32
			case 'a' <= r && r <= 'z':
				return r - 32
			}
			return r
		}, s)
		n, ok := new(big.Int).SetString(swapped, 62)
		if !ok || n.Cmp(new(big.Int).SetBytes(k[:16])) != 0 {
			t.Fatalf("base62 %s: got %v, want %s", s, n, k)
		}
		text, err := k.MarshalText()
		var back Key
		if err != nil || back.UnmarshalText(text) != nil || back != k {
			t.Fatalf("text %s reads as %s, %v", text, back, err)
		}
	})
}

func TestKeyTextIsChecked(t *testing.T) {
	t.Parallel()
	var k Key
	for _, s := range []string{"", `"00"`, `"` + strings.Repeat("g", 64) + `"`, `"` + strings.Repeat("0", 66) + `"`} {
		if err := json.Unmarshal([]byte(s), &k); err == nil {
			t.Errorf("%s: got nil, want an error", s)
		}
	}
}

// BenchmarkCanonicalKey is the whole way from parsed arguments to the key of a typical
// call: a text and an amount of money.
func BenchmarkCanonicalKey(b *testing.B) {
	fields := []Field{Text("order_id"), Money("amount", "currency")}
	args := parseArgs(b, string(benchObject))
	secret := Secret{Value: []byte("0123456789abcdef0123456789abcdef")}
	b.ReportAllocs()
	for b.Loop() {
		id := make(map[string]any, len(fields))
		for i := range fields {
			v, err := fields[i].Canonical(args)
			if err != nil {
				b.Fatal(err)
			}
			id[fields[i].Name] = v
		}
		blob, err := Blob{ID: id, Tool: "issue_refund", Run: "run-7", Step: "3", Tenant: "acme"}.Bytes()
		if err != nil {
			b.Fatal(err)
		}
		DeriveKey(secret, blob)
	}
}
