package draft_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/contract/draft"
)

// api drafts an OpenAPI document.
func api(t *testing.T, name string, src []byte) *draft.Draft {
	t.Helper()
	tools, server, err := draft.ReadOpenAPI(name, src)
	if err != nil {
		t.Fatal(err)
	}
	server.Name = "api"
	return drafted(t, tools, &draft.Options{Server: server, From: name})
}

func TestDraftOfAnAPI(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/api.openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	got := api(t, "api.openapi.json", src).YAML()
	if *update {
		if err := os.WriteFile("testdata/api.yaml", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("testdata/api.yaml (-want +got); -update rewrites it:\n%s", diff)
	}
	f, err := contract.Parse("pawl.yaml", got, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestPayPalsKeyedOperations: of PayPal's operations exactly those that take
// PayPal-Request-Id are suggested as keyed, no write is a read, and every draft loads.
func TestPayPalsKeyedOperations(t *testing.T) {
	t.Parallel()
	m := payPal(t)
	if m.writes != 108 || m.keyed != 20 || m.wrong != 0 {
		t.Errorf("got %d writes of which %d are suggested as keyed and %d drafted as read, want 108, 20 and 0", m.writes, m.keyed, m.wrong)
	}
	if m.gets != 54 || m.reads < 50 {
		t.Errorf("got %d GETs of which %d are drafted as read", m.gets, m.reads)
	}
}

// operations counts what was drafted for the operations of several documents.
type operations struct{ writes, wrong, keyed, gets, reads int }

// payPal drafts PayPal's documents. Each draft loads.
func payPal(t *testing.T) (m operations) {
	t.Helper()
	dir := os.Getenv("PAWL_CORPORA")
	if dir == "" {
		t.Skip("PAWL_CORPORA is not set: there are no documents to draft from")
	}
	files, err := filepath.Glob(filepath.Join(dir, "paypal-openapi", "*.json"))
	if err != nil || len(files) != 17 {
		t.Fatalf("got %d documents (%v), want 17", len(files), err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := api(t, filepath.Base(file), src)
		tools, _, _ := draft.ReadOpenAPI(file, src)
		for i, e := range d.Tools {
			switch get := tools[i].Operation.Method == "GET"; {
			case get && e.Class == pawl.Read:
				m.gets++
				m.reads++
			case get:
				m.gets++
				t.Logf("%s is left out: %v", e.Tool, e.Reasons)
			case e.Class == pawl.Read:
				m.writes++
				m.wrong++
			default:
				m.writes++
			}
			if e.Suggested != nil && e.Suggested.Class == pawl.Keyed {
				m.keyed++
			}
		}
		f, err := contract.Parse("pawl.yaml", d.YAML(), nil)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		f.Close()
	}
	return m
}

func TestDocumentsThatAreNone(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"{":                                 "no JSON",
		`{"openapi": "2.0", "paths": {}}`:   "version 3",
		`{"openapi": "3.0.0", "paths": {}}`: "no operation",
		`{"openapi": "3.0.0", "paths": []}`: `"paths"`,
		`{"swagger": "2.0"}`:                "version 3",
		`{"openapi": "3.1.0", "paths": {"/a": {"get": []}}}`:                                                "GET /a has another form",
		`{"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "x"}, "put": {"operationId": "x"}}}}`: "listed twice",
	} {
		_, _, err := draft.ReadOpenAPI("api.json", []byte(src))
		var input *draft.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
	if _, err := draft.New(nil, &draft.Options{Server: draft.Server{HTTP: true}}); err == nil {
		t.Error("an API without a server: got no error")
	}
}

func FuzzReadOpenAPI(f *testing.F) {
	src, err := os.ReadFile("testdata/api.openapi.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src)
	f.Add([]byte(`{"openapi":"3.0.0","components":{"schemas":{"a":{"$ref":"#/components/schemas/a"}}},"paths":{"/{x}/{y}":{"parameters":[{"in":"path","name":"x"}],"post":{"requestBody":{"content":{"application/json":{"schema":{"allOf":[{"$ref":"#/components/schemas/a"},{"properties":{"x":{}}}]}}}}}}}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		tools, server, err := draft.ReadOpenAPI("api.json", src)
		if err != nil {
			return
		}
		server.Name, server.URL = "api", "https://api.example.com"
		d, err := draft.New(tools, &draft.Options{Server: server})
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
