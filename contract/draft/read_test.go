package draft_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/contract/draft"
)

func TestFormsOfALists(t *testing.T) {
	t.Parallel()
	const tool = `{"name": "get_a", "description": "Get a.", "inputSchema": {"properties": {"x": {"type": ["string", "null"]}}, "required": ["x"]}}`
	for name, src := range map[string]string{
		"result":    `{"tools": [` + tool + `], "nextCursor": "n"}`,
		"response":  `{"jsonrpc": "2.0", "id": 1, "result": {"tools": [` + tool + `]}}`,
		"list":      "\xef\xbb\xbf [" + tool + `]`,
		"one":       tool,
		"functions": `[{"type": "function", "function": {"name": "get_a", "description": "Get a.", "parameters": {"properties": {"x": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["x"]}}}]`,
	} {
		tools, err := draft.ReadTools(name, []byte(src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(tools) != 1 || tools[0].Name != "get_a" || len(tools[0].Parameters) != 1 || tools[0].Parameters[0].Type != "string" || !tools[0].Parameters[0].Required {
			t.Errorf("%s: got %+v", name, tools)
		}
	}
}

func TestListsThatAreNone(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"":                               "list.json:1:1: no JSON",
		"{\n  \"tools\": [,]\n}":         "list.json:2:13: no JSON",
		`{"tools": []}`:                  "no tool is listed",
		`{"version": 1}`:                 "want a tool list",
		`{"openapi": "3.0.3"}`:           "an OpenAPI document",
		`[{"description": "x"}]`:         "a tool has no name",
		`[{"name": "a b"}]`:              `the tool name "a b"`,
		`[{"name": 7}]`:                  "name",
		`[{"name": "a"}, {"name": "a"}]`: `tool "a" is listed twice`,
		"\xff":                           "not UTF-8",
		`[{"name": "` + strings.Repeat("a", 129) + `"}]`: "at most 128",
	} {
		_, err := draft.ReadTools("list.json", []byte(src))
		var input *draft.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", src, err, want)
		}
	}
}

func FuzzReadTools(f *testing.F) {
	f.Add([]byte(`{"tools": [{"name": "get_a", "description": "Get a, and delete b.", "inputSchema": {"properties": {"item_ids": {"type": "array", "items": {"type": "string"}}, "new_item_ids": {"type": "array"}}}}]}`))
	f.Add([]byte(`[{"function": {"name": "n:\u0000", "parameters": []}}]`))
	f.Add([]byte(`{"name": "x", "inputSchema": {"properties": {"#": {"enum": ["\n", 1]}, "amount": {"type": "number"}, "currency": {}}, "required": ["#", "amount", "currency"]}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		tools, err := draft.ReadTools("list.json", src)
		if err != nil {
			var input *draft.InputError
			if !errors.As(err, &input) {
				t.Fatalf("got %v, want an InputError", err)
			}
			return
		}
		d, err := draft.New(tools, &draft.Options{Server: draft.Server{Name: "x", Command: []string{"server", "--flag: #"}}})
		if err != nil {
			return
		}
		f, err := contract.Parse("pawl.yaml", d.YAML(), nil)
		if err != nil {
			t.Fatalf("the draft does not load: %v\n%s", err, d.YAML())
		}
		f.Close()
	})
}
