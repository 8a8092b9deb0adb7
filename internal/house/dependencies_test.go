package house

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"
)

const dependencyList = "docs/dependencies.md"

// reason is a row of the list: the module's path in the first column, and something in
// each of the others.
var reason = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(?: [^|]+ \\|){4}$")

func TestEachDependencyHasItsReason(t *testing.T) {
	t.Parallel()
	out, err := run(moduleRoot(t), nil, "go", "mod", "edit", "-json")
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	required := make(map[string]bool)
	for _, r := range mod.Require {
		if !r.Indirect {
			required[r.Path] = true
		}
	}
	explained := make(map[string]bool)
	for _, row := range reason.FindAllStringSubmatch(read(t, dependencyList), -1) {
		explained[row[1]] = true
	}
	for _, m := range slices.Sorted(maps.Keys(required)) {
		if !explained[m] {
			t.Errorf("%s is required by go.mod and has no row in %s", m, dependencyList)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(explained)) {
		if !required[m] {
			t.Errorf("%s has a row in %s and is no direct requirement of go.mod", m, dependencyList)
		}
	}
}
