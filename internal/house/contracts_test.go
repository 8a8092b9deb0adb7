package house

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/contract"
)

// contractBlock is a whole contract file in a document.
var contractBlock = regexp.MustCompile("(?ms)^```yaml\n(version: .*?)^```$")

func TestContractsInDocumentsAreSound(t *testing.T) {
	t.Parallel()
	found := 0
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, block := range contractBlock.FindAllStringSubmatch(read(t, name), -1) {
			found++
			if _, err := contract.Parse(name, []byte(block[1]), nil); err != nil {
				t.Errorf("a contract in %s: %v", name, err)
			}
		}
	}
	if found == 0 {
		t.Error("no document has a contract in it")
	}
}

func TestContractPageNamesEveryKey(t *testing.T) {
	t.Parallel()
	const page = "docs/contract.md"
	var schema any
	if err := json.Unmarshal([]byte(read(t, "contract/pawl.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]bool)
	collect(schema, keys)
	if len(keys) < 50 {
		t.Fatalf("got %d keys in the schema, want every key of a contract", len(keys))
	}
	text := read(t, page)
	for key := range keys {
		if !regexp.MustCompile("`([a-z_]+\\.)?" + key + "[`:]").MatchString(text) {
			t.Errorf("%s says nothing of the key %s", page, key)
		}
	}
}

// collect finds the names of all properties in a JSON Schema.
func collect(schema any, keys map[string]bool) {
	switch v := schema.(type) {
	case []any:
		for _, item := range v {
			collect(item, keys)
		}
	case map[string]any:
		if properties, ok := v["properties"].(map[string]any); ok {
			for key := range properties {
				keys[key] = true
			}
		}
		for _, item := range v {
			collect(item, keys)
		}
	}
}
