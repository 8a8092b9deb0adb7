package api

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document is the published OpenAPI document, read as other people's tools will read it.
type document struct {
	tree     map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex // the compiler is for one at a time
	schemas map[string]*jsonschema.Schema
}

func readDocument(t *testing.T, url string) *document {
	t.Helper()
	r, err := http.Get(url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("openapi.json: got %d, %v", r.StatusCode, err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	d := &document{compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	d.tree, _ = v.(map[string]any)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("openapi.json", v); err != nil {
		t.Fatal(err)
	}
	return d
}

// at walks the document.
func (d *document) at(path ...string) any {
	var v any = d.tree
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// validate holds a value to the schema at a place of the document.
func (d *document) validate(t *testing.T, what, value string, path ...string) {
	t.Helper()
	var at strings.Builder
	at.WriteString("openapi.json#")
	for _, p := range path {
		at.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
	}
	d.mu.Lock()
	schema := d.schemas[at.String()]
	if schema == nil {
		var err error
		if schema, err = d.compiler.Compile(strings.NewReplacer("{", "%7B", "}", "%7D").Replace(at.String())); err != nil {
			d.mu.Unlock()
			t.Fatalf("schema of %s: %v", what, err)
		}
		d.schemas[at.String()] = schema
	}
	d.mu.Unlock()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		t.Errorf("%s does not match the document: %v\n%s", what, err, value)
	}
}

// check holds an exchange to the document: every answer, and every request that was
// taken.
func (d *document) check(t *testing.T, r *http.Request, body string, got *reply) {
	t.Helper()
	path, method := d.route(r.URL.EscapedPath()), strings.ToLower(r.Method)
	if path == "" || d.at("paths", path, method) == nil {
		if got.status < 400 && r.URL.Path != "/openapi.json" {
			t.Errorf("%s %s is served and is not in the document", r.Method, r.URL.Path)
		}
		return
	}
	what := r.Method + " " + path
	operation := []string{"paths", path, method}
	if got.status < 300 && body != "" {
		d.validate(t, "request of "+what, body, append(operation, "requestBody", "content", "application/json", "schema")...)
	}
	status := strconv.Itoa(got.status)
	if d.at(append(operation, "responses", status)...) == nil {
		status = "default"
	}
	media := got.header.Get("Content-Type")
	if media == "text/event-stream" || strings.HasPrefix(media, "text/plain") { // texts have no schema to speak of
		return
	}
	place := append(operation, "responses", status, "content", media, "schema")
	if d.at(place...) == nil {
		t.Errorf("%s answered %d with %s, which the document does not have", what, got.status, media)
		return
	}
	d.validate(t, "answer "+strconv.Itoa(got.status)+" of "+what, got.body, place...)
}

// route finds the path template of a path.
func (d *document) route(path string) string {
	paths, _ := d.at("paths").(map[string]any)
	if _, ok := paths[path]; ok {
		return path
	}
	want := strings.Split(path, "/")
	for template := range paths {
		have := strings.Split(template, "/")
		match := len(have) == len(want)
		for i := 0; match && i < len(have); i++ {
			match = have[i] == want[i] || strings.HasPrefix(have[i], "{") && want[i] != ""
		}
		if match {
			return template
		}
	}
	return ""
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// TestDocument holds the document to what it must say.
func TestDocument(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	if got := s.doc.at("openapi"); got != "3.1.0" {
		t.Errorf("got OpenAPI %v, want 3.1.0", got)
	}
	if got := s.doc.at("components", "schemas", "Envelope", "title"); got != "pawl envelope" {
		t.Errorf("got envelope %v, want the published schema", got)
	}
	if _, own := s.doc.at("components", "schemas").(map[string]any)["ErrorModel"]; own {
		t.Error("the framework's own error is in the document")
	}
	for path, methods := range s.doc.at("paths").(map[string]any) {
		for method := range methods.(map[string]any) {
			if s.doc.at("paths", path, method, "summary") == nil || s.doc.at("paths", path, method, "operationId") == nil {
				t.Errorf("%s %s has no name and summary", method, path)
			}
			if s.doc.at("paths", path, method, "responses", "default", "content", problemType) == nil {
				t.Errorf("%s %s does not say what a problem looks like", method, path)
			}
		}
	}
}
