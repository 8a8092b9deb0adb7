package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// shownRequest is a request in the page.
var shownRequest = regexp.MustCompile("(?ms)^```http\n([A-Z]+) (\\S+)\n(.*?)^```$")

// TestPageIsTrue holds docs/api.md to the document: its requests are sound, and it has
// every path and every code.
func TestPageIsTrue(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	s := open(t, nil)
	shown := shownRequest.FindAllStringSubmatch(page, -1)
	if len(shown) < 7 {
		t.Errorf("got %d requests in the page, want one of each kind", len(shown))
	}
	for _, m := range shown {
		method, target, rest := m[1], m[2], m[3]
		path, _, _ := strings.Cut(target, "?")
		route := s.doc.route(path)
		if route == "" || s.doc.at("paths", route, strings.ToLower(method)) == nil {
			t.Errorf("%s %s is not in the document", method, target)
			continue
		}
		if _, body, has := strings.Cut(rest, "\n\n"); has {
			s.doc.validate(t, method+" "+target, body, "paths", route, strings.ToLower(method), "requestBody", "content", "application/json", "schema")
		}
		if path != "/v1/events" {
			if _, body, _ := strings.Cut(rest, "\n\n"); s.do(t, method, target, body).status == 422 {
				t.Errorf("%s %s is not taken", method, target)
			}
		}
	}
	for path := range s.doc.at("paths").(map[string]any) {
		if !strings.Contains(page, strings.ReplaceAll(path, "{id}", "op_019360b8a1f27b0c8d4e5f6a7b8c9d0e")) && !strings.Contains(page, path) {
			t.Errorf("the page says nothing of %s", path)
		}
	}
	for _, code := range codes(t) {
		if !strings.Contains(page, "`"+code+"`") {
			t.Errorf("the page says nothing of the code %s", code)
		}
	}
}

// codes lists the values of the constants of type Code.
func codes(t *testing.T) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if ok && len(v.Values) == 1 {
			if typ, is := v.Type.(*ast.Ident); is && typ.Name == "Code" {
				value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, value)
			}
		}
		return true
	})
	if len(list) < 10 {
		t.Fatalf("got %d codes, want every one", len(list))
	}
	return list
}
