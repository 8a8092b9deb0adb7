package pawl

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestFieldValidationNamesTheContradiction(t *testing.T) {
	t.Parallel()
	loop := &Rule{Kind: RuleList}
	loop.Of = loop
	tests := []struct {
		name  string
		field Field
		want  string
	}{
		{"no name", Field{}, "name"},
		{"unknown kind", Field{Name: "a", Rule: Rule{Kind: "float"}}, "float"},
		{"empty place", Field{Name: "a", From: []string{""}}, "from"},
		{"bad pointer", Field{Name: "a", From: []string{"/a~b"}}, "from"},
		{"bad pattern", Field{Name: "a", Pattern: "("}, "pattern"},
		{"pattern that leaves its group", Field{Name: "a", Pattern: "a)(b"}, "pattern"},
		{"pattern on a number", Field{Name: "a", Pattern: "x", Rule: Rule{Kind: RuleInteger}}, "pattern"},
		{"prefix on a date", Field{Name: "a", Prefix: "x", Rule: Rule{Kind: RuleDate}}, "prefix"},
		{"prefix on pairs", Field{Name: "a", Prefix: "x", Rule: Rule{Kind: RuleMultiset, Of: &Rule{Kind: RuleZip, With: "b"}}}, "prefix"},
		{"digits on money", Field{Name: "a", Rule: Rule{Kind: RuleMoney, Currency: "c", Digits: 2}}, "digits"},
		{"negative digits", Field{Name: "a", Rule: Rule{Kind: RuleDecimal, Digits: -1}}, "digits"},
		{"too many digits", Field{Name: "a", Rule: Rule{Kind: RuleDecimal, Digits: 51}}, "digits"},
		{"money without currency", Field{Name: "a", Rule: Rule{Kind: RuleMoney}}, "currency"},
		{"unknown currency", Field{Name: "a", Rule: Rule{Kind: RuleMoney, Currency: "=ABC"}}, "currency"},
		{"currency on text", Field{Name: "a", Rule: Rule{Currency: "c"}}, "currency"},
		{"enum without values", Field{Name: "a", Rule: Rule{Kind: RuleEnum}}, "values"},
		{"enum of numbers", Field{Name: "a", Rule: Rule{Kind: RuleEnum, Values: []string{"1"}, Of: &Rule{Kind: RuleInteger}}}, "of"},
		{"enum of a text rule with digits", Field{Name: "a", Rule: Rule{Kind: RuleEnum, Values: []string{"1"}, Of: &Rule{Digits: 2}}}, "digits"},
		{"enum value in another case", Field{Name: "a", Rule: Rule{Kind: RuleEnum, Values: []string{"A"}, Of: &Rule{Kind: RuleLower}}}, "values"},
		{"enum value with a space", Field{Name: "a", Rule: Rule{Kind: RuleEnum, Values: []string{"a "}}}, "values"},
		{"enum value twice", Field{Name: "a", Rule: Rule{Kind: RuleEnum, Values: []string{"a", "a"}}}, "values"},
		{"empty enum value", Field{Name: "a", Rule: Rule{Kind: RuleEnum, Values: []string{""}}}, "values"},
		{"values on text", Field{Name: "a", Rule: Rule{Values: []string{"a"}}}, "values"},
		{"of on text", Field{Name: "a", Rule: Rule{Of: &Rule{}}}, "of"},
		{"zip without a second array", Field{Name: "a", Rule: Rule{Kind: RuleZip}}, "with"},
		{"with on a list", Field{Name: "a", Rule: Rule{Kind: RuleList, With: "b"}}, "with"},
		{"list of a zip", Field{Name: "a", Rule: Rule{Kind: RuleList, Of: &Rule{Kind: RuleZip, With: "b"}}}, "zip"},
		{"zip of a zip", Field{Name: "a", Rule: Rule{Kind: RuleZip, With: "b", WithOf: &Rule{Kind: RuleZip, With: "c"}}}, "zip"},
		{"set of a broken zip", Field{Name: "a", Rule: Rule{Kind: RuleSet, Of: &Rule{Kind: RuleZip}}}, "with"},
		{"list of a broken rule", Field{Name: "a", Rule: Rule{Kind: RuleList, Of: &Rule{Kind: "x"}}}, "x"},
		{"object without members", Field{Name: "a", Rule: Rule{Kind: RuleObject}}, "fields"},
		{"member without a name", Field{Name: "a", Rule: Rule{Kind: RuleObject, Fields: []Field{{}}}}, "name"},
		{"member twice", Field{Name: "a", Rule: Rule{Kind: RuleObject, Fields: []Field{Text("b"), Text("B")}}}, "twice"},
		{"fields on a list", Field{Name: "a", Rule: Rule{Kind: RuleList, Fields: []Field{Text("b")}}}, "fields"},
		{"a rule that holds itself", Field{Name: "a", Rule: Rule{Kind: RuleList, Of: loop}}, "deeper"},
	}
	for _, tt := range tests {
		if err := tt.field.validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error that names %q", tt.name, err, tt.want)
		}
	}
}

func TestFieldsSurviveJSON(t *testing.T) {
	t.Parallel()
	fields := []Field{
		Text("order_id"), Integer("n"), Decimal("kg", 3), Money("amount", "currency"), Multiset("items"), Pairs("pairs", "a", "b"),
		{Name: "o", From: []string{"/x/y", "z"}, Optional: true, Rule: Rule{Kind: RuleObject, Fields: []Field{{Name: "m", Prefix: "#", Pattern: `#\d+`}}}},
	}
	b, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	var back []Field
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, fields) {
		t.Errorf("got %+v, %v, want %+v", back, err, fields)
	}
}

func TestPatternsAreCompiledOnce(t *testing.T) {
	t.Parallel()
	one, err := wholePattern(`once-\d+`)
	if err != nil {
		t.Fatal(err)
	}
	if other, _ := wholePattern(`once-\d+`); other != one {
		t.Error("got two compiled forms of one pattern, want one")
	}
}

func TestIdentityNamesDifferInMoreThanCase(t *testing.T) {
	t.Parallel()
	c := Contract{Tool: "tool", Identity: []Field{Text("Order_ID"), Text("order_id")}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("got %v, want a refusal of the second name", err)
	}
}
