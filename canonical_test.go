package pawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// canonicalOf is the canonical text of one field.
func canonicalOf(f Field, args map[string]any) (string, error) {
	v, err := f.Canonical(args)
	if err != nil {
		return "", err
	}
	b, err := AppendJSON(nil, v)
	return string(b), err
}

func TestRulesMapEverySpellingToOne(t *testing.T) {
	t.Parallel()
	rule := func(k RuleKind) Field { return Field{Name: "v", Rule: Rule{Kind: k}} }
	optional := func(f Field) Field { f.Optional = true; return f }
	instant := rule(RuleInstant)
	enum := Field{Name: "v", Rule: Rule{Kind: RuleEnum, Values: []string{"open", "shut"}, Of: &Rule{Kind: RuleLower}}}
	order := Field{Name: "v", Prefix: "#", Pattern: `#W\d{3}`}
	zip := Field{Name: "z", From: []string{"a"}, Rule: Rule{Kind: RuleZip, With: "/b/c", WithOf: &Rule{Kind: RuleInteger}}}
	address := Field{Name: "address", Rule: Rule{Kind: RuleObject, Fields: []Field{
		{Name: "zip", From: []string{"zip", "postcode"}},
		{Name: "state", Rule: Rule{Kind: RuleUpper}},
		{Name: "line2", Optional: true},
	}}}
	tests := []struct {
		field Field
		want  string
		args  []string
	}{
		{Text("v"), `"caf\u00e9"`, []string{`{"v":"café"}`, `{"v":"cafe\u0301"}`, `{"v":"\u00a0\tcafé\u2003\n"}`}},
		{Text("v"), `"42"`, []string{`{"v":"42"}`, `{"v":42}`}},
		{Text("v"), `"-9007199254740993"`, []string{`{"v":-9007199254740993}`}},
		{Text("v"), `"A b"`, []string{`{"v":"A b"}`}},
		{rule(RuleRaw), `" cafe\u0301 "`, []string{`{"v":" cafe\u0301 "}`}},
		{rule(RuleRaw), `" "`, []string{`{"v":" "}`}},
		{rule(RuleUpper), `"STRA\u00dfE"`, []string{`{"v":"Straße"}`, `{"v":" straße"}`}},
		{rule(RuleLower), `"ana@example.com"`, []string{`{"v":"Ana@Example.COM"}`}},
		{Integer("v"), `"42"`, []string{`{"v":42}`, `{"v":"42"}`, `{"v":42.0}`, `{"v":4.2e1}`, `{"v":"+42"}`, `{"v":" 0042 "}`, `{"v":420e-1}`}},
		{Integer("v"), `"0"`, []string{`{"v":0}`, `{"v":-0}`, `{"v":"-0.0"}`, `{"v":0e999999999999999999999}`, `{"v":"+0"}`}},
		{Integer("v"), `"-5"`, []string{`{"v":-5}`, `{"v":"-5"}`, `{"v":-50e-1}`}},
		{Integer("v"), `"1` + strings.Repeat("0", 99) + `"`, []string{`{"v":1e99}`, `{"v":1` + strings.Repeat("0", 99) + `}`}},
		{Integer("v"), `"1"`, []string{`{"v":1` + strings.Repeat("0", 5000) + `e-5000}`, `{"v":0.` + strings.Repeat("0", 4999) + `1e5000}`}},
		{Decimal("v", 2), `"49.90"`, []string{`{"v":49.9}`, `{"v":"49.90"}`, `{"v":4.99e1}`, `{"v":49.9000}`, `{"v":0.0499E+3}`}},
		{Decimal("v", 0), `"50"`, []string{`{"v":50}`, `{"v":5e1}`, `{"v":50.0}`}},
		{Decimal("v", 3), `"-0.001"`, []string{`{"v":-1e-3}`, `{"v":"-0.0010"}`}},
		{Decimal("v", 2), `"0.00"`, []string{`{"v":-0.00}`, `{"v":0}`}},
		{Money("v", "cur"), `"80"`, []string{`{"v":80,"cur":"JPY"}`, `{"v":"80.00","cur":" jpy "}`, `{"v":8e1,"cur":"JPY"}`}},
		{Money("v", "/cur/code"), `"1.500"`, []string{`{"v":1.5,"cur":{"code":"KWD"}}`, `{"v":"1.500","cur":{"code":"kwd"}}`}},
		{Money("v", "=EUR"), `"-5.00"`, []string{`{"v":-5}`, `{"v":"-5.0"}`}},
		{rule(RuleBool), `"true"`, []string{`{"v":true}`, `{"v":"true"}`}},
		{rule(RuleBool), `"false"`, []string{`{"v":false}`, `{"v":"false"}`}},
		{rule(RuleDate), `"2024-02-29"`, []string{`{"v":"2024-02-29"}`, `{"v":" 2024-02-29\n"}`}},
		{instant, `"2026-01-31T23:30:00Z"`, []string{
			`{"v":"2026-01-31T23:30:00Z"}`, `{"v":"2026-02-01T01:30:00+02:00"}`, `{"v":"2026-01-31t23:30:00.000z"}`,
			`{"v":"2026-01-31T13:45:00.0-09:45"}`, `{"v":"2026-01-31T23:30:00-00:00"}`,
		}},
		{instant, `"2026-01-31T23:30:00.1234567890123Z"`, []string{`{"v":"2026-01-31T23:30:00.1234567890123Z"}`, `{"v":"2026-02-01T00:30:00.12345678901230+01:00"}`}},
		{enum, `"open"`, []string{`{"v":"Open"}`, `{"v":" OPEN "}`}},
		{order, `"#W123"`, []string{`{"v":"#W123"}`, `{"v":"W123"}`, `{"v":" W123"}`}},
		{rule(RuleList), `["b","a","b"]`, []string{`{"v":["b"," a","b"]}`}},
		{rule(RuleSet), `["a","b"]`, []string{`{"v":["b","a","b"]}`, `{"v":["a ","b","a"]}`}},
		{Multiset("v"), `["a","b","b"]`, []string{`{"v":["b","a","b"]}`, `{"v":["a","b","b"]}`}},
		// By code point, not by escape: 'é' after 'z', U+FFE5 before an emoji.
		{Multiset("v"), `["\\","a","z","\u00e9","\uffe5","\ud83d\ude00"]`, []string{`{"v":["😀","é","\uffe5","z","\\","a"]}`}},
		{Field{Name: "v", Prefix: "#", Rule: Rule{Kind: RuleSet}}, `["#a","#b"]`, []string{`{"v":["b","#a","#b"]}`}},
		{Field{Name: "v", Rule: Rule{Kind: RuleMultiset, Of: &Rule{Kind: RuleMoney, Currency: "cur"}}}, `["1.50","2.00"]`, []string{`{"v":[2,"1.5"],"cur":"USD"}`}},
		{zip, `[["x","2"],["y","1"]]`, []string{`{"a":["x","y"],"b":{"c":["2",1.0]}}`}},
		{Pairs("items", "a", "b"), `[["1","9"],["2","8"],["2","8"]]`, []string{
			`{"a":["1","2","2"],"b":["9","8","8"]}`, `{"a":["2","2","1"],"b":["8","8","9"]}`,
		}},
		{Field{Name: "v", Rule: Rule{Kind: RuleSet, Of: &Rule{Kind: RuleZip, With: "b"}}}, `[["1","8"],["1","9"]]`, []string{`{"v":[1,1,1],"b":[9,8,9]}`}},
		{address, `{"line2":"","state":"NY","zip":"10001"}`, []string{
			`{"address":{"zip":"10001","state":"ny"}}`, `{"address":{"postcode":10001,"state":"NY ","line2":null,"more":1}}`,
		}},
		{Field{Name: "v", Rule: Rule{Kind: RuleSet, Of: &address.Rule}}, `[{"line2":"","state":"NY","zip":"1"},{"line2":"x","state":"CA","zip":"2"}]`, []string{
			`{"v":[{"zip":2,"state":"CA","line2":"x"},{"zip":1,"state":"ny"},{"zip":"1","state":"NY"}]}`,
		}},
		{Field{Name: "v", Rule: Rule{Kind: RuleList, Of: &Rule{Kind: RuleObject, Fields: []Field{{Name: "n", From: []string{"/o/n"}}}}}}, `[{"n":"1"}]`, []string{
			`{"v":[{"o":{"n":1}}]}`, `{"v":[{"o":{"n":"1","m":null},"p":{"q":{}},"r":null}]}`,
		}},
		{Field{Name: "id", From: []string{"orderId", "/order/ids/1", "/a~1b"}}, `"7"`, []string{
			`{"orderId":7}`, `{"orderId":null,"order":{"ids":["x","7"]}}`, `{"orderId":" ","order":{"ids":["x"]},"a/b":"7"}`,
		}},
		{optional(Text("v")), `""`, []string{`{}`, `{"v":null}`, `{"v":""}`, `{"v":" \n"}`}},
		{optional(Money("v", "cur")), `""`, []string{`{}`, `{"v":""}`}},
		{optional(Multiset("v")), `""`, []string{`{}`, `{"v":[]}`, `{"v":null}`}},
		{optional(Pairs("items", "a", "b")), `""`, []string{`{}`, `{"a":[],"b":[]}`, `{"b":[]}`}},
		{optional(address), `""`, []string{`{}`, `{"address":{}}`, `{"address":{"line2":""}}`}},
	}
	for _, tt := range tests {
		if err := tt.field.validate(); err != nil {
			t.Errorf("%+v: %v", tt.field, err)
		}
		for _, args := range tt.args {
			if got, err := canonicalOf(tt.field, parseArgs(t, args)); err != nil || got != tt.want {
				t.Errorf("%s of %.80s: got %s, %v, want %s", tt.field.Rule.Kind, args, got, err, tt.want)
			}
		}
	}
}

func TestRulesRefuseWhatIsNoValueOfTheirs(t *testing.T) {
	t.Parallel()
	rule := func(k RuleKind) Field { return Field{Name: "v", Rule: Rule{Kind: k}} }
	enum := Field{Name: "v", Rule: Rule{Kind: RuleEnum, Values: []string{"open"}}}
	object := Field{Name: "v", Rule: Rule{Kind: RuleObject, Fields: []Field{Text("a"), {Name: "b", Optional: true, Rule: Rule{Kind: RuleInteger}}}}}
	optionalPairs := Pairs("v", "a", "b")
	optionalPairs.Optional = true
	tests := []struct {
		field   Field
		pointer string
		missing bool
		args    []string
	}{
		{Text("v"), "/v", true, []string{`{}`, `{"v":null}`, `{"v":""}`, `{"v":"\u2003"}`}},
		{Text("v"), "/v", false, []string{`{"v":true}`, `{"v":[]}`, `{"v":{}}`, `{"v":1.10}`, `{"v":42.0}`, `{"v":1e3}`, `{"v":-0}`}},
		{rule(RuleRaw), "/v", true, []string{`{}`, `{"v":""}`}},
		{rule(RuleRaw), "/v", false, []string{`{"v":42}`, `{"v":false}`}},
		{Integer("v"), "/v", true, []string{`{"v":" "}`}},
		{Integer("v"), "/v", false, []string{
			`{"v":1.5}`, `{"v":"x"}`, `{"v":true}`, `{"v":1e1000000000}`, `{"v":1e-1000000000}`, `{"v":1e99999999999999999999}`, `{"v":1e100}`,
			`{"v":"1,000"}`, `{"v":"1_000"}`, `{"v":"0x1F"}`, `{"v":"٤٢"}`, `{"v":"--1"}`, `{"v":"+-1"}`, `{"v":"1e"}`, `{"v":"e1"}`, `{"v":"1e+"}`,
			`{"v":"."}`, `{"v":"5."}`, `{"v":".5"}`, `{"v":"1.2.3"}`, `{"v":"1e1e1"}`, `{"v":"NaN"}`, `{"v":"Infinity"}`, `{"v":"1 2"}`, `{"v":"-"}`,
		}},
		{Decimal("v", 2), "/v", false, []string{`{"v":49.905}`, `{"v":"49.905"}`, `{"v":1e-3}`, `{"v":"€5"}`}},
		{Money("v", "cur"), "/v", true, []string{`{"cur":"USD"}`, `{"v":"","cur":"USD"}`}},
		{Money("v", "cur"), "/v", false, []string{
			`{"v":80.5,"cur":"JPY"}`, `{"v":1.0005,"cur":"KWD"}`, `{"v":1}`, `{"v":1,"cur":"XXX"}`, `{"v":1,"cur":"US"}`, `{"v":1,"cur":""}`, `{"v":1,"cur":840}`, `{"v":1,"cur":"uſd"}`,
		}},
		{rule(RuleBool), "/v", true, []string{`{"v":""}`}},
		{rule(RuleBool), "/v", false, []string{`{"v":"True"}`, `{"v":"yes"}`, `{"v":1}`, `{"v":0}`, `{"v":[]}`}},
		{rule(RuleDate), "/v", false, []string{
			`{"v":"2026-02-29"}`, `{"v":"2026-1-02"}`, `{"v":"20260102"}`, `{"v":"2026-01-02T00:00:00Z"}`, `{"v":20260102}`, `{"v":"02-01-2026"}`, `{"v":"2026-13-01"}`,
		}},
		{rule(RuleInstant), "/v", false, []string{
			`{"v":"2026-01-02"}`, `{"v":"2026-01-02T10:00:00"}`, `{"v":"2026-01-02 10:00:00Z"}`, `{"v":"2026-01-02T24:00:00Z"}`, `{"v":"2026-01-02T10:00:60Z"}`,
			`{"v":"2026-01-02T10:00:00,5Z"}`, `{"v":"2026-01-02T10:00:00.Z"}`, `{"v":"2026-01-02T10:00:00+24:00"}`, `{"v":"2026-01-02T10:00:00+0200"}`,
			`{"v":"2026-01-02T10:00:00+01:60"}`, `{"v":"9999-12-31T23:59:59-01:00"}`, `{"v":"0000-01-01T00:00:00+01:00"}`, `{"v":1767348000}`, `{"v":"2026-01-02T10:00Z"}`,
		}},
		{enum, "/v", false, []string{`{"v":"Open"}`, `{"v":"shut"}`, `{"v":true}`}},
		{Field{Name: "v", Pattern: `a|b`}, "/v", false, []string{`{"v":"ab"}`, `{"v":"xa"}`}},
		{Field{Name: "v", Pattern: `(?m)a$|b$`, Rule: Rule{Kind: RuleRaw}}, "/v", false, []string{`{"v":"a\n"}`, `{"v":"a\nb"}`}},
		{Multiset("v"), "/v", true, []string{`{"v":[]}`, `{"v":null}`, `{"v":""}`}},
		{Multiset("v"), "/v", false, []string{`{"v":"a"}`, `{"v":{}}`, `{"v":" "}`}},
		{Multiset("v"), "/v/1", false, []string{`{"v":["a",null]}`, `{"v":["a"," "]}`, `{"v":["a",true]}`, `{"v":["a",[]]}`}},
		{Pairs("v", "a", "b"), "/a", true, []string{`{}`, `{"a":[],"b":[]}`}},
		{Pairs("v", "a", "b"), "/a", false, []string{`{"a":["1"]}`, `{"a":["1"],"b":["1","2"]}`, `{"a":[],"b":["1"]}`, `{"a":["1"],"b":[""]}`, `{"b":["1"]}`}},
		{optionalPairs, "/a", false, []string{`{"b":["1"]}`, `{"a":null,"b":["1"]}`, `{"a":["1"],"b":null}`}},
		{object, "/v", true, []string{`{}`, `{"v":{}}`, `{"v":""}`, `{"v":{"a":""}}`}},
		{object, "/v", false, []string{`{"v":"x"}`, `{"v":[]}`}},
		{object, "/v/a", true, []string{`{"v":{"b":1}}`}},
		{object, "/v/b", false, []string{`{"v":{"a":"x","b":"y"}}`}},
		{Field{Name: "v", Rule: Rule{Kind: RuleList, Of: &object.Rule}}, "/v/1/b", false, []string{`{"v":[{"a":"x"},{"a":"y","b":0.5}]}`}},
		{Field{Name: "v", Rule: Rule{Kind: RuleSet, Of: &object.Rule}}, "/v/0/c", false, []string{`{"v":[{"a":"x","c":1}]}`, `{"v":[{"a":"x","c":{"d":null,"e":[]}}]}`}},
		{Field{Name: "v", From: []string{"/o/list/1"}}, "/o/list/1", true, []string{
			`{"o":{"list":["a"]}}`, `{"o":{"list":{"1":""}}}`, `{"o":"list"}`, `{}`, `{"/o/list/1":"x"}`,
		}},
		{Field{Name: "v", From: []string{"/l/01", "/l/-1", "/l/+0", "/l/-"}}, "/l/01", true, []string{`{"l":["a","b"]}`}},
	}
	for _, tt := range tests {
		if err := tt.field.validate(); err != nil {
			t.Errorf("%+v: %v", tt.field, err)
		}
		for _, args := range tt.args {
			v, err := tt.field.Canonical(parseArgs(t, args))
			var ferr *FieldError
			if !errors.As(err, &ferr) {
				t.Errorf("%s of %.80s: got %v, %v, want a *FieldError", tt.field.Rule.Kind, args, v, err)
				continue
			}
			if ferr.Field != "v" || ferr.Pointer != tt.pointer || ferr.Missing != tt.missing || isMissing(err) != tt.missing {
				t.Errorf("%s of %.80s: got %+v, want pointer %s, missing %v", tt.field.Rule.Kind, args, ferr, tt.pointer, tt.missing)
			}
			if v != nil {
				t.Errorf("%s of %.80s: got a value %v beside the error", tt.field.Rule.Kind, args, v)
			}
		}
	}
}

func TestFieldErrorsNeverHoldValues(t *testing.T) {
	t.Parallel()
	args := parseArgs(t, `{"v":"canary-4929","cur":"canary-4929","list":["canary-4929",1.5],"n":4929.4929}`)
	for _, f := range []Field{
		Integer("v"), Decimal("n", 2), Money("n", "cur"), {Name: "v", Pattern: "x"}, {Name: "v", Rule: Rule{Kind: RuleEnum, Values: []string{"a"}}},
		{Name: "v", Rule: Rule{Kind: RuleDate}}, {Name: "v", Rule: Rule{Kind: RuleInstant}}, {Name: "v", Rule: Rule{Kind: RuleBool}},
		{Name: "v", Rule: Rule{Kind: RuleList}}, {Name: "v", Rule: Rule{Kind: RuleObject, Fields: []Field{Text("a")}}}, Pairs("p", "list", "v"),
		Multiset("list"), {Name: "list", Rule: Rule{Kind: RuleSet, Of: &Rule{Kind: RuleInteger}}}, Text("n"),
	} {
		if _, err := f.Canonical(args); err == nil || strings.Contains(err.Error(), "4929") {
			t.Errorf("%+v: got %v, want an error without the value", f, err)
		}
	}
}

func TestValuesThatParseJSONCannotMakeAreRefused(t *testing.T) {
	t.Parallel()
	for _, v := range []any{49.9, 1, "\xff", "a\x00", json.Number("1x"), []string{"a"}, map[string]string{}} {
		for _, k := range []RuleKind{RuleText, RuleInteger, RuleBool, RuleDate, RuleList, RuleZip, RuleObject} {
			f := Field{Name: "v", Rule: Rule{Kind: k, With: "w"}}
			if got, err := f.Canonical(map[string]any{"v": v}); err == nil {
				t.Errorf("%s of %#v: got %v, want an error", k, v, got)
			}
		}
	}
}

func TestDistinctIntegersBeyondDoublesStayDistinct(t *testing.T) { // trial G1
	t.Parallel()
	for _, f := range []Field{Text("charge_id"), Integer("charge_id"), Decimal("charge_id", 0)} {
		for _, digits := range []string{"9007199254740992", "9007199254740993"} {
			got, err := f.Canonical(parseArgs(t, `{"charge_id":`+digits+`}`))
			if err != nil || got != digits {
				t.Errorf("%s: got %v, %v, want %s", f.Rule.Kind, got, err, digits)
			}
		}
	}
}

func TestMissingIdentityIsRefused(t *testing.T) { // trial G2
	t.Parallel()
	for _, args := range []string{`{"customer":"c1"}`, `{"customer":"c2"}`, `{"order_id":null}`, `{"order_id":""}`, `{"order_id":" "}`} {
		if v, err := Text("order_id").Canonical(parseArgs(t, args)); !isMissing(err) {
			t.Errorf("%s: got %v, %v, want a refusal because it is missing", args, v, err)
		}
	}
}

func TestSpellingsOfOneAmountHaveOneKey(t *testing.T) { // trial G4
	t.Parallel()
	keys := map[Key]bool{}
	for _, amount := range []string{`10`, `10.0`, `"10.00"`, `1e1`, `"10"`, `100e-1`} {
		id := identity(t, `{"order_id":"A-1","amount":`+amount+`,"memo":"`+strings.Trim(amount, `"`)+`"}`, Text("order_id"), Money("amount", "=USD"))
		keys[keyOf(t, id)] = true
	}
	if len(keys) != 1 {
		t.Errorf("got %d keys, want 1", len(keys))
	}
}

func keyOf(t testing.TB, id map[string]any) Key {
	t.Helper()
	b, err := Blob{ID: id, Tool: "tool", Run: "run-1", Step: "1"}.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return DeriveKey(Secret{}, b)
}

func TestNumbersAsTextAreNumbersOnlyForNumberRules(t *testing.T) { // trial G5
	t.Parallel()
	one := identity(t, `{"n":42,"flag":true}`, Integer("n"), Field{Name: "flag", Rule: Rule{Kind: RuleBool}})
	other := identity(t, `{"n":"42","flag":"true"}`, Integer("n"), Field{Name: "flag", Rule: Rule{Kind: RuleBool}})
	if keyOf(t, one) != keyOf(t, other) {
		t.Errorf("got two keys for %v and %v, want one", one, other)
	}
	if got, err := Text("ref").Canonical(parseArgs(t, `{"ref":"007"}`)); err != nil || got != "007" {
		t.Errorf("text: got %v, %v, want 007", got, err)
	}
}

func TestRawKeepsLookAlikesApart(t *testing.T) { // trial G10
	t.Parallel()
	raw := Field{Name: "path", Rule: Rule{Kind: RuleRaw}}
	letter, sign := `{"path":"\u00c5.txt"}`, `{"path":"\u212b.txt"}`
	if keyOf(t, identity(t, letter, raw)) == keyOf(t, identity(t, sign, raw)) {
		t.Error("raw: got one key for the letter and the Ångström sign, want two")
	}
	if keyOf(t, identity(t, letter, Text("path"))) != keyOf(t, identity(t, sign, Text("path"))) {
		t.Error("text: got two keys for the letter and the Ångström sign, want one")
	}
}

func TestSeparatorsInValuesDoNotCollide(t *testing.T) { // trial G11
	t.Parallel()
	for _, sep := range []string{`|`, `:`, `,`, `\u0001`, `\"`, `\\`, `\",\"b\":\"`, `\u2028`, `/`} {
		one := identity(t, `{"a":"x`+sep+`y","b":"z"}`, Text("a"), Text("b"))
		other := identity(t, `{"a":"x","b":"y`+sep+`z"}`, Text("a"), Text("b"))
		if keyOf(t, one) == keyOf(t, other) {
			t.Errorf("separator %s: got one key for %v and %v, want two", sep, one, other)
		}
	}
}

func TestAliasesAndSignsHaveOneKey(t *testing.T) { // trial G17
	t.Parallel()
	chain := Field{Name: "chain", From: []string{"chainId", "network"}, Rule: Rule{Kind: RuleInteger}}
	keys := map[Key]bool{}
	for _, args := range []string{`{"chainId":1,"amount":"1.0"}`, `{"network":"1","amount":"+1"}`, `{"chainId":"+1","amount":1}`} {
		keys[keyOf(t, identity(t, args, chain, Decimal("amount", 6)))] = true
	}
	if len(keys) != 1 {
		t.Errorf("got %d keys, want 1", len(keys))
	}
}

// TestPairsAreNotTwoLists: sorting two arrays on their own would take different
// exchanges for one.
func TestPairsAreNotTwoLists(t *testing.T) {
	t.Parallel()
	f := Pairs("items", "item_ids", "new_item_ids")
	one := identity(t, `{"item_ids":["1","2"],"new_item_ids":["8","9"]}`, f)
	other := identity(t, `{"item_ids":["1","2"],"new_item_ids":["9","8"]}`, f)
	if keyOf(t, one) == keyOf(t, other) {
		t.Error("got one key for two exchanges, want two")
	}
}

// sampleText draws texts with everything that escaping, folding and normalising could stumble on.
var sampleText = rapid.StringOf(rapid.OneOf(
	rapid.Rune().Filter(func(r rune) bool { return r != 0 }),
	rapid.SampledFrom([]rune{'a', 'e', '\u0301', '\u0323', 'é', 'Å', '\u212b', ' ', '\u00a0', '\n', '"', '\\', '\u2028', '\x7f', 'ß', 'İ', 'ı', 'ſ', 'K', 'Ω', '가', '\u1100', '\u1161', '😀', '0', '-', '.'}),
))

func TestTextRulesAreStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := sampleText.Draw(t, "text")
		for _, k := range []RuleKind{RuleText, RuleRaw, RuleUpper, RuleLower} {
			f := Field{Name: "v", Rule: Rule{Kind: k}, Optional: true}
			once, err := f.Canonical(map[string]any{"v": s})
			if err != nil {
				t.Fatal(err)
			}
			if twice, err := f.Canonical(map[string]any{"v": once}); err != nil || twice != once {
				t.Fatalf("%s: got %q of %q, %v", k, twice, once, err)
			}
		}
		f := Field{Name: "v", Optional: true}
		plain, _ := f.Canonical(map[string]any{"v": s})
		if spaced, err := f.Canonical(map[string]any{"v": "\u2003\t" + s + " \n"}); err != nil || spaced != plain {
			t.Fatalf("white space around %q: got %q, want %q, %v", s, spaced, plain, err)
		}
	})
}

// TestNumberSpellingsAgreeAndValuesDiffer draws unscaled integers, spells them in many
// ways and compares canonical forms with the integers themselves.
func TestNumberSpellingsAgreeAndValuesDiffer(t *testing.T) {
	t.Parallel()
	f := Decimal("v", 4)
	spelling := func(t *rapid.T, n int64) any { // of n / 10^4
		sign, digits := "", fmt.Sprint(n)
		if n < 0 {
			sign, digits = "-", digits[1:]
		}
		digits += strings.Repeat("0", rapid.IntRange(0, 5).Draw(t, "zeros"))
		exp := 4 + len(digits) - len(strings.TrimPrefix(fmt.Sprint(n), "-"))
		point := rapid.IntRange(0, len(digits)-1).Draw(t, "point")
		text := sign + digits
		if point > 0 {
			text = sign + digits[:point] + "." + digits[point:]
			exp -= len(digits) - point
		}
		if exp != 0 {
			text += fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e"), -exp)
		}
		if rapid.Bool().Draw(t, "quoted") {
			return " " + text + "\t"
		}
		return json.Number(text)
	}
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.Int64().Draw(t, "n"), rapid.Int64().Draw(t, "m")
		if rapid.Bool().Draw(t, "near") {
			m = n ^ 1
		}
		a, b := spelling(t, n), spelling(t, n)
		x, err := f.Canonical(map[string]any{"v": a})
		if err != nil {
			t.Fatalf("%v: %v", a, err)
		}
		y, err := f.Canonical(map[string]any{"v": b})
		if err != nil || x != y {
			t.Fatalf("%v and %v are one: got %v and %v, %v", a, b, x, y, err)
		}
		c := spelling(t, m)
		z, err := f.Canonical(map[string]any{"v": c})
		if err != nil || (x == z) != (n == m) {
			t.Fatalf("%v and %v: got %v and %v, %v", a, c, x, z, err)
		}
		if back := strings.Replace(x.(string), ".", "", 1); mustInt(t, back) != n {
			t.Fatalf("%v: got %v, want %d ten-thousandths", a, x, n)
		}
	})
}

func mustInt(t *rapid.T, s string) int64 {
	n, err := json.Number(s).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestListRulesCountWhatTheySay compares lists, sets and multisets with plain Go slices.
func TestListRulesCountWhatTheySay(t *testing.T) {
	t.Parallel()
	elements := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "é", `a","b`, "]", "\\"}), 1, 4)
	sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	rapid.Check(t, func(t *rapid.T) {
		a, b := elements.Draw(t, "a"), elements.Draw(t, "b")
		if rapid.Bool().Draw(t, "shuffled") {
			b = rapid.Permutation(a).Draw(t, "b again")
		}
		for kind, same := range map[RuleKind]bool{
			RuleList:     slices.Equal(a, b),
			RuleMultiset: slices.Equal(sorted(a), sorted(b)),
			RuleSet:      slices.Equal(slices.Compact(sorted(a)), slices.Compact(sorted(b))),
		} {
			f := Field{Name: "v", Rule: Rule{Kind: kind}}
			x, err := canonicalOf(f, map[string]any{"v": anys(a)})
			if err != nil {
				t.Fatal(err)
			}
			y, err := canonicalOf(f, map[string]any{"v": anys(b)})
			if err != nil || (x == y) != same {
				t.Fatalf("%s of %q and %q: got %s and %s, %v", kind, a, b, x, y, err)
			}
		}
	})
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// FuzzField checks for every rule that canonicalising never panics, does not touch the
// arguments, yields what AppendJSON takes, and is stable where the canonical form is a
// value of the rule again.
func FuzzField(f *testing.F) {
	for _, s := range []string{
		`{"v":"x"}`, `{"v":4.99e1,"cur":"EUR"}`, `{"v":["a","b"],"w":[1,2]}`, `{"v":{"v":"x","w":[true]}}`, `{"v":"2026-01-31T23:30:00.10+01:00"}`,
		`{"v":1e1000000000}`, `{"v":"true"}`, `{"v":"2024-02-29"}`, `{"v":[{"v":"a"},{"v":"a"}]}`, `{"v":"\u212b\u0323\u0301"}`, `{"v":"-0.000"}`,
	} {
		f.Add([]byte(s))
	}
	member := []Field{{Name: "v"}, {Name: "w", Optional: true, Rule: Rule{Kind: RuleSet}}}
	rules := []Rule{
		{}, {Kind: RuleRaw}, {Kind: RuleUpper}, {Kind: RuleLower}, {Kind: RuleInteger}, {Kind: RuleDecimal, Digits: 2},
		{Kind: RuleMoney, Currency: "cur"}, {Kind: RuleMoney, Currency: "=CLF"}, {Kind: RuleBool}, {Kind: RuleDate}, {Kind: RuleInstant},
		{Kind: RuleEnum, Values: []string{"x"}}, {Kind: RuleList}, {Kind: RuleSet, Of: &Rule{Kind: RuleInteger}}, {Kind: RuleMultiset},
		{Kind: RuleZip, With: "w"}, {Kind: RuleMultiset, Of: &Rule{Kind: RuleZip, With: "w"}}, {Kind: RuleObject, Fields: member},
		{Kind: RuleSet, Of: &Rule{Kind: RuleObject, Fields: member}}, {Kind: RuleList, Of: &Rule{Kind: RuleList}},
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		parsed, err := ParseJSON(raw)
		if err != nil {
			t.Skip()
		}
		args, ok := parsed.(map[string]any)
		if !ok {
			t.Skip()
		}
		for _, rule := range rules {
			field := Field{Name: "v", Rule: rule}
			if err := field.validate(); err != nil {
				t.Fatal(err)
			}
			v, err := field.Canonical(args)
			if err != nil {
				var ferr *FieldError
				if !errors.As(err, &ferr) || ferr.Field != "v" || ferr.What == "" {
					t.Fatalf("%s: got %#v, want a whole *FieldError", rule.Kind, err)
				}
				continue
			}
			text, err := AppendJSON(nil, v)
			if err != nil {
				t.Fatalf("%s: canonical %#v: %v", rule.Kind, v, err)
			}
			if rule.Kind == RuleZip || rule.Of != nil && rule.Of.Kind == RuleZip {
				continue // pairs are no array of texts
			}
			again, err := field.Canonical(map[string]any{"v": v, "cur": args["cur"]})
			if err != nil || !reflect.DeepEqual(again, v) {
				t.Fatalf("%s: canonical %s gives %#v, %v", rule.Kind, text, again, err)
			}
		}
		fresh, err := ParseJSON(raw)
		if err != nil || !reflect.DeepEqual(fresh, parsed) {
			t.Fatalf("the arguments were changed from %#v to %#v, %v", fresh, parsed, err)
		}
	})
}
