package contract

import (
	"bytes"
	"os"
	"testing"

	yaml "github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	raw, err := os.ReadFile("pawl.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(schemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, src []byte) error {
	t.Helper()
	raw, err := yaml.YAMLToJSON(src)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("pawl.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("pawl.schema.json is not what the types say: run go generate ./contract")
	}
}

func TestSchemaAcceptsExamples(t *testing.T) {
	t.Parallel()
	s := compiledSchema(t)
	for _, file := range exampleFiles(t) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, src); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// What the loader refuses by its shape alone, an editor refuses as well.
func TestSchemaRefusesWrongShapes(t *testing.T) {
	t.Parallel()
	s := compiledSchema(t)
	ar, err := txtar.ParseFile("testdata/problems/structure.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range ar.Files {
		switch file.Name {
		case "unknown_key.yaml", "wrong_type.yaml", "scalar.yaml", "no_version.yaml":
			if err := validate(t, s, file.Data); err == nil {
				t.Errorf("%s: got no error, want one", file.Name)
			}
		}
	}
}
