package pawl

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

func TestLookupFollowsPointers(t *testing.T) {
	t.Parallel()
	// The first five places are those of RFC 6901's own example.
	args := parseArgs(t, `{"foo":["bar","baz"],"":0,"a/b":1,"m~n":8,"o":{"":{"x":null}},"/p":9}`)
	tests := []struct {
		place string
		want  any
		found bool
	}{
		{"/foo/0", "bar", true}, {"/", json.Number("0"), true}, {"/a~1b", json.Number("1"), true}, {"/m~0n", json.Number("8"), true},
		{"/foo", []any{"bar", "baz"}, true}, {"foo", []any{"bar", "baz"}, true}, {"", json.Number("0"), true}, {"/o//x", nil, true},
		{"/~1p", json.Number("9"), true}, {"a/b", json.Number("1"), true}, {"/m~01n", nil, false},
		{"/foo/2", nil, false}, {"/foo/-1", nil, false}, {"/foo/00", nil, false}, {"/foo/0/x", nil, false}, {"/p", nil, false}, {"/o/x", nil, false}, {"o/x", nil, false},
	}
	for _, tt := range tests {
		if got, found := lookup(args, tt.place); found != tt.found || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("lookup(%q): got %v, %v, want %v, %v", tt.place, got, found, tt.want, tt.found)
		}
	}
}

func TestWithoutCopies(t *testing.T) {
	t.Parallel()
	const text = `{"a":{"b":{"c":1,"d":2},"e":3},"f":[1,2],"g":"x"}`
	args := parseArgs(t, text)
	got := without(args, []string{"/a/b/c", "g", "/f/0", "/g/h", "/a/e", "/x/y"})
	if want := parseArgs(t, `{"a":{"b":{"d":2}},"f":[1,2]}`); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want := parseArgs(t, text); !reflect.DeepEqual(args, want) {
		t.Errorf("the arguments became %v, want %v", args, want)
	}
}

// TestEverythingElseIsAGuard: what did not go into the identity must be equal in a repeat.
func TestEverythingElseIsAGuard(t *testing.T) {
	t.Parallel()
	c := &Contract{Tool: "tool", Free: []string{"note", "/address/hint"}, Identity: []Field{
		{Name: "payment", From: []string{"payment_id", "order_id"}},
		Money("amount", "currency"),
		{Name: "address", Optional: true, Rule: Rule{Kind: RuleObject, Fields: []Field{{Name: "zip", From: []string{"zip", "post~code"}}, {Name: "geo", Optional: true, From: []string{"/geo/id"}}}}},
		{Name: "items", Optional: true, From: []string{"a"}, Rule: Rule{Kind: RuleMultiset, Of: &Rule{Kind: RuleZip, With: "b"}}},
	}}
	const first = `{"payment_id":"p1","amount":10,"currency":"EUR","quantity":2,"address":{"zip":"1","door":"left"},"a":[1,2],"b":[3,4]}`
	tests := []struct {
		name, earlier, now string
		guards, free       []string
	}{
		{"other spellings", first, `{"payment_id":" p1 ","amount":"10.00","currency":"EUR","quantity":2.0,"address":{"zip":1,"door":"left"},"a":[2,1],"b":["4","3"]}`, nil, nil},
		{"a quoted number", first, `{"payment_id":"p1","amount":10,"currency":"EUR","quantity":"2.0","address":{"zip":"1","door":"left"},"a":[1,2],"b":[3,4]}`, nil, nil},
		{"a text of digits", first, `{"payment_id":"p1","amount":10,"currency":"EUR","quantity":"02","address":{"zip":"1","door":"left"},"a":[1,2],"b":[3,4]}`, []string{"quantity"}, nil},
		{"a quoted number with spaces", first, `{"payment_id":"p1","amount":10,"currency":"EUR","quantity":" 2","address":{"zip":"1","door":"left"},"a":[1,2],"b":[3,4]}`, []string{"quantity"}, nil},
		{"two texts", `{"payment_id":"p1","amount":10,"currency":"EUR","version":"1.0"}`, `{"payment_id":"p1","amount":10,"currency":"EUR","version":"1.00"}`, []string{"version"}, nil},
		{"null for missing", first, `{"payment_id":"p1","amount":10,"currency":"EUR","quantity":2e0,"address":{"zip":"1","door":"left"},"a":[1,2],"b":[3,4],"extra":null}`, nil, nil},
		{"quantity", first, `{"payment_id":"p1","amount":10,"currency":"EUR","quantity":3,"address":{"zip":"1","door":"left"},"a":[1,2],"b":[3,4]}`, []string{"quantity"}, nil},
		{"currency", `{"payment_id":"p1","amount":10,"currency":"EUR"}`, `{"payment_id":"p1","amount":10,"currency":"USD"}`, []string{"currency"}, nil},
		{"a member that is not named", first, `{"payment_id":"p1","amount":10,"currency":"EUR","quantity":2,"address":{"zip":"1","door":"right"},"a":[1,2],"b":[3,4]}`, []string{"address"}, nil},
		{"another name of a member", `{"order_id":"o","address":{"zip":"1","geo":{"id":2}}}`, `{"order_id":"o","address":{"post~code":"1","geo":{"id":"2"}}}`, nil, nil},
		{"a free member", `{"order_id":"o","address":{"zip":"1"}}`, `{"order_id":"o","address":{"zip":"1","hint":"bell"},"note":"x"}`, nil, []string{"address/hint", "note"}},
		{"a name that was not used", `{"payment_id":"p1","order_id":"o1"}`, `{"payment_id":"p1","order_id":"o2"}`, []string{"order_id"}, nil},
		{"another name of the same", `{"payment_id":"p1"}`, `{"payment_id":"","order_id":"p1"}`, nil, nil},
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		guards, free := c.compare(parseArgs(t, tt.earlier), parseArgs(t, tt.now))
		if !slices.Equal(guards, tt.guards) || !slices.Equal(free, tt.free) {
			t.Errorf("%s: got guards %v and free %v, want %v and %v", tt.name, guards, free, tt.guards, tt.free)
		}
	}
}

// TestUndeclaredToolsHaveOneKeyPerValue: the whole argument object is the identity, and
// neither order nor the spelling of a number makes it another one.
func TestUndeclaredToolsHaveOneKeyPerValue(t *testing.T) {
	t.Parallel()
	key := func(args string) Key {
		t.Helper()
		id, err := Identify(&Contract{Tool: "tool", Class: Unsafe, Scope: ScopeStep, IdentityAll: true}, &Call{Tool: "tool", Run: "r", Step: "1", Args: json.RawMessage(args)})
		if err != nil {
			t.Fatal(err)
		}
		b, err := id.Blob(0)
		if err != nil {
			t.Fatal(err)
		}
		return DeriveKey(Secret{}, b)
	}
	want := key(`{"amount":10,"items":[{"n":0.5}]}`)
	for _, same := range []string{`{ "items":[{"n":5e-1}], "amount":10.0}`, `{"amount":1e1,"items":[{"n":0.50}]}`} {
		if got := key(same); got != want {
			t.Errorf("%s: got another key, want one", same)
		}
	}
	for _, other := range []string{`{"amount":"10","items":[{"n":0.5}]}`, `{"amount":11,"items":[{"n":0.5}]}`, `{"amount":10,"items":[{"n":0.5}],"x":null}`, `{"amount":10,"items":{"n":0.5}}`} {
		if got := key(other); got == want {
			t.Errorf("%s: got the same key, want another", other)
		}
	}
}
