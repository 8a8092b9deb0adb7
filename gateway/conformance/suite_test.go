package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

var update = flag.Bool("update", false, "rewrite baseline.tsv, keeping its reasons")

// A row of the baseline is a check that does not simply pass on both sides, or how many do.
type row struct {
	revision, kind, scenario, check string
	bare, through                   string
	reason                          string
}

func (r row) key() string {
	return strings.Join([]string{r.revision, r.kind, r.scenario, r.check}, "\t")
}

func (r row) text() string {
	return strings.Join([]string{r.key(), r.bare, r.through, r.reason}, "\t")
}

// TestSuite runs what each revision of the protocol requires against the SDK's own server,
// alone and through the gateway. What passes alone passes through the gateway; baseline.tsv
// has every check that fails, on either side, and a reason for each that differs.
func TestSuite(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var rows []row
	t.Run("sets", func(t *testing.T) {
		for _, set := range []struct {
			revision string
			sessions bool
		}{{"2025-11-25", true}, {"2026-07-28", false}} {
			for _, k := range []kind{reads, effects} {
				t.Run(set.revision+"/"+string(k), func(t *testing.T) {
					t.Parallel()
					alone := serveFixture(t, set.sessions)
					behind := mcptest.Serve(t, contractFile(t, k, overHTTP(serveFixture(t, set.sessions))))
					bare := requirements(t, set.revision, alone)
					through := requirements(t, set.revision, behind.URL+"/mcp")
					found := compare(set.revision, k, bare, through)
					mu.Lock()
					defer mu.Unlock()
					rows = append(rows, found...)
				})
			}
		}
	})
	if !t.Failed() {
		baseline(t, rows)
	}
}

// A check is what the suite tells of one: it may be made several times in a scenario.
type check struct{ scenario, id string }

type results map[check][]string

var outputName = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// requirements runs the scenarios of a revision against a server.
func requirements(t *testing.T, revision, url string) results {
	t.Helper()
	out := t.TempDir()
	program := module(t, "@modelcontextprotocol", "conformance", "dist", "index.js")
	text, code := run(t, program, "server", "--url", url, "--requirements", revision, "-o", out)
	folders, err := os.ReadDir(out)
	if err != nil || len(folders) == 0 {
		t.Fatalf("the suite left no results (%v), exit code %d:\n%s", err, code, text)
	}
	all := results{}
	for _, folder := range folders {
		name := outputName.FindStringSubmatch(folder.Name())
		if name == nil {
			t.Fatalf("the suite wrote a folder %q", folder.Name())
		}
		data, err := os.ReadFile(filepath.Join(out, folder.Name(), "checks.json"))
		if err != nil {
			t.Fatal(err)
		}
		var checks []struct{ ID, Status, ErrorMessage string }
		if err := json.Unmarshal(data, &checks); err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			at := check{name[1], c.ID}
			all[at] = append(all[at], c.Status)
			if c.Status == "FAILURE" {
				t.Logf("%s: %s %s: %s", url, name[1], c.ID, c.ErrorMessage)
			}
		}
	}
	return all
}

// compare lists the checks that do not simply pass on both sides.
func compare(revision string, k kind, bare, through results) []row {
	rows := []row{{revision, string(k), "all", "passed", bare.passed(), through.passed(), ""}}
	seen := map[check]bool{}
	for _, side := range []results{bare, through} {
		for c := range side {
			if seen[c] {
				continue
			}
			seen[c] = true
			r := row{revision, string(k), c.scenario, c.id, tally(bare[c]), tally(through[c]), ""}
			if r.bare != r.through || slices.ContainsFunc(bare[c], failed) {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

func failed(status string) bool { return status != "SUCCESS" }

func (r results) passed() string {
	n := 0
	for _, statuses := range r {
		for _, status := range statuses {
			if !failed(status) {
				n++
			}
		}
	}
	return fmt.Sprint(n)
}

// tally counts statuses: "FAILURE 1, SUCCESS 2".
func tally(statuses []string) string {
	count := map[string]int{}
	for _, status := range statuses {
		count[status]++
	}
	var parts []string
	for status, n := range count {
		parts = append(parts, fmt.Sprintf("%s %d", status, n))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "not made"
	}
	return strings.Join(parts, ", ")
}

const (
	baselineFile = "baseline.tsv"
	header       = "# Checks of the conformance suite that do not simply pass without and with the gateway.\n" +
		"# revision\tkind\tscenario\tcheck\twithout\twith\treason\n"
)

// baseline holds the rows against the file: a change on either side is a failure, and so is
// a difference without a reason.
func baseline(t *testing.T, rows []row) {
	t.Helper()
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.key(), b.key()) })
	data, err := os.ReadFile(baselineFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(fields) == 7 {
			reasons[strings.Join(fields[:4], "\t")] = fields[6]
		}
	}
	text := header
	for _, r := range rows {
		r.reason = reasons[r.key()]
		if r.bare != r.through && r.reason == "" {
			t.Errorf("%s: without the gateway %s, with it %s, and no reason", r.key(), r.bare, r.through)
		}
		text += r.text() + "\n"
	}
	if *update {
		if err := os.WriteFile(baselineFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, is := strings.Split(string(data), "\n"), strings.Split(text, "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("no longer so: %s", line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("not in the baseline: %s", line)
		}
	}
}
