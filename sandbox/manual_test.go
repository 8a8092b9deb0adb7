package sandbox

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestManualIsComplete: docs/sandbox.md names every service, path, field of a mode and
// clause of a fault line.
func TestManualIsComplete(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := string(raw)
	var wanted []string
	for _, name := range Services() {
		wanted = append(wanted, "| "+name+" |")
	}
	for _, ep := range endpoints() {
		wanted = append(wanted, strings.TrimSuffix(ep.pattern(), "{$}"))
	}
	for _, name := range Guises() {
		wanted = append(wanted, "`"+name+"`")
	}
	source, err := os.ReadFile("admin.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := regexp.MustCompile(`route\("([A-Z]+ /admin/[a-z]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(routes) < 10 {
		t.Fatalf("found %d routes in admin.go", len(routes))
	}
	for _, m := range routes {
		wanted = append(wanted, m[1])
	}
	mode, err := json.Marshal(DefaultMode(Stock))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(string(mode), -1) {
		wanted = append(wanted, "`"+m[1]+"`")
	}
	clauses, _, _ := strings.Cut(FaultGrammar, " (clauses")
	for clause := range strings.SplitSeq(strings.ReplaceAll(clauses, "and one of: ", ""), "; ") {
		clause = strings.ReplaceAll(clause, "before|after", "W")
		wanted = append(wanted, "`"+clause+"`")
	}
	for _, text := range wanted {
		if !strings.Contains(manual, text) {
			t.Errorf("docs/sandbox.md does not name %s", text)
		}
	}
}
