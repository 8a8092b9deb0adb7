package contract

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

func fieldsOf(t *testing.T, identity string) []pawl.Field {
	t.Helper()
	src := "version: 1\nupstreams: \n  up: {url: \"https://a.example.com\"}\ntools:\n  t:\n    upstream: up\n    request: {method: POST, path: /x}\n" + block(identity)
	return mustParse(t, src, nil).tools[0].contract.Identity
}

// Every canonicaliser of the root package can be written, in each form.
func TestIdentityForms(t *testing.T) {
	t.Parallel()
	pairs := &pawl.Rule{Kind: pawl.RuleZip, With: "new_ids"}
	for identity, want := range map[string][]pawl.Field{
		"identity: [a, b]":              {{Name: "a"}, {Name: "b"}},
		"identity: {a: text, b: upper}": {{Name: "a", Rule: pawl.Rule{Kind: pawl.RuleText}}, {Name: "b", Rule: pawl.Rule{Kind: pawl.RuleUpper}}},
		"identity: [{field: amount, rule: money, currency: currency}]":                                 {{Name: "amount", Rule: pawl.Rule{Kind: pawl.RuleMoney, Currency: "currency"}}},
		"identity: {amount: money(=EUR)}":                                                              {{Name: "amount", Rule: pawl.Rule{Kind: pawl.RuleMoney, Currency: "=EUR"}}},
		"identity: {n: decimal(2)}":                                                                    {{Name: "n", Rule: pawl.Rule{Kind: pawl.RuleDecimal, Digits: 2}}},
		"identity: [{field: n, rule: decimal, digits: 3}]":                                             {{Name: "n", Rule: pawl.Rule{Kind: pawl.RuleDecimal, Digits: 3}}},
		"identity: {m: \"enum(a, b)\"}":                                                                {{Name: "m", Rule: pawl.Rule{Kind: pawl.RuleEnum, Values: []string{"a", "b"}}}},
		"identity: [{field: m, rule: enum, values: [a, \"b,c\"]}]":                                     {{Name: "m", Rule: pawl.Rule{Kind: pawl.RuleEnum, Values: []string{"a", "b,c"}}}},
		"identity: {l: set(integer)}":                                                                  {{Name: "l", Rule: pawl.Rule{Kind: pawl.RuleSet, Of: &pawl.Rule{Kind: pawl.RuleInteger}}}},
		"identity: {ids: multiset(zip(new_ids))}":                                                      {{Name: "ids", Rule: pawl.Rule{Kind: pawl.RuleMultiset, Of: pairs}}},
		"identity: {ids: {rule: multiset, of: {rule: zip, with: new_ids}}}":                            {{Name: "ids", Rule: pawl.Rule{Kind: pawl.RuleMultiset, Of: pairs}}},
		"identity: {ids: {rule: zip, with: b, of: raw, with_of: lower}}":                               {{Name: "ids", Rule: pawl.Rule{Kind: pawl.RuleZip, With: "b", Of: &pawl.Rule{Kind: pawl.RuleRaw}, WithOf: &pawl.Rule{Kind: pawl.RuleLower}}}},
		"identity: {to: {rule: object, fields: {zip: upper, n: integer}}}":                             {{Name: "to", Rule: pawl.Rule{Kind: pawl.RuleObject, Fields: []pawl.Field{{Name: "zip", Rule: pawl.Rule{Kind: pawl.RuleUpper}}, {Name: "n", Rule: pawl.Rule{Kind: pawl.RuleInteger}}}}}},
		"identity: {c: {from: [chainId, /net/id], optional: true}}":                                    {{Name: "c", From: []string{"chainId", "/net/id"}, Optional: true}},
		"identity: {o: {from: order_id, prefix: \"#\", pattern: \"#W[0-9]{7}\"}, d: date, i: instant}": {{Name: "o", From: []string{"order_id"}, Prefix: "#", Pattern: "#W[0-9]{7}"}, {Name: "d", Rule: pawl.Rule{Kind: pawl.RuleDate}}, {Name: "i", Rule: pawl.Rule{Kind: pawl.RuleInstant}}},
		"identity: {f: bool, r: raw, w: list}":                                                         {{Name: "f", Rule: pawl.Rule{Kind: pawl.RuleBool}}, {Name: "r", Rule: pawl.Rule{Kind: pawl.RuleRaw}}, {Name: "w", Rule: pawl.Rule{Kind: pawl.RuleList}}},
	} {
		if got := fieldsOf(t, identity); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", identity, got, want)
		}
	}
}

// The retail tools' identity: pairs in any order are one exchange, other pairs another.
func TestExchangeIdentity(t *testing.T) {
	t.Parallel()
	f, err := Load("testdata/examples/exchange.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	identity := func(args string) string {
		c := f.tools[0].contract.WithDefaults()
		id, err := pawl.Identify(&c, &pawl.Call{Tool: c.Tool, Args: json.RawMessage(args), Run: "r"})
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		b, err := pawl.AppendJSON(nil, id.Identity)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one := identity(`{"order_id":"#W1234567","item_ids":["1","2"],"new_item_ids":["9","8"]}`)
	if same := identity(`{"order_id":"W1234567","item_ids":["2","1"],"new_item_ids":["8","9"]}`); same != one {
		t.Errorf("got %s, want %s", same, one)
	}
	if other := identity(`{"order_id":"W1234567","item_ids":["1","2"],"new_item_ids":["8","9"]}`); other == one {
		t.Errorf("got %s for another exchange", other)
	}
}

func TestKeySecrets(t *testing.T) {
	t.Parallel()
	values := map[string]string{"A": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "B": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "SHORT": "short-secret"}
	o := &Options{
		Getenv:   func(n string) (string, bool) { v, ok := values[n]; return v, ok },
		ReadFile: func(string) ([]byte, error) { return []byte("from-a-file-from-a-file\r\n"), nil },
	}
	ids := func(secrets []pawl.Secret) string {
		var s []string
		for _, x := range secrets {
			s = append(s, x.ID+"="+string(x.Value[:4]))
		}
		return strings.Join(s, " ")
	}
	for terms, want := range map[string][2]string{
		"${env:A}": {"default=aaaa", "default=aaaa"},
		"[{id: b, value: \"${env:B}\"}, {id: a, value: \"${env:A}\"}]":                                   {"b=bbbb a=aaaa", "b=bbbb a=aaaa"},
		"{default: [{id: a, value: \"${env:A}\"}], tenants: {acme: [{id: f, value: \"${file:/key}\"}]}}": {"a=aaaa", "f=from"},
		"{tenants: {acme: [{id: b, value: \"${env:B}\"}]}}":                                              {"", "b=bbbb"},
	} {
		secrets, err := mustParse(t, "version: 1\nkey_secret: "+terms+"\n", o).KeySecrets()
		if err != nil {
			t.Fatalf("%s: %v", terms, err)
		}
		if got := [2]string{ids(secrets("other")), ids(secrets("acme"))}; got != want {
			t.Errorf("%s: got %q, want %q", terms, got, want)
		}
	}
	for _, terms := range []string{"${env:MISSING}", "${env:SHORT}"} {
		f := mustParse(t, "version: 1\nkey_secret: "+terms+"\n", o)
		_, err := f.KeySecrets()
		if !errors.Is(err, ErrSecret) || strings.Contains(err.Error(), values["SHORT"]) {
			t.Errorf("%s: got %v, want ErrSecret without the value", terms, err)
		}
		if err := f.CheckSecrets(); !errors.Is(err, ErrSecret) {
			t.Errorf("%s: got %v, want ErrSecret", terms, err)
		}
	}
}
