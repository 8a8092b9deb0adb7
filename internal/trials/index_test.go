package trials

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// numbers are the trials there are, by kind.
var numbers = map[string]string{
	"A": "1 2 4 5 7 8 10 11", "B": "1 2 4 5 7 8 10 11 13", "C": "1 2 4 5 7 8 10", "D": "1 2 4 5 7 8 10 11",
	"E": "1 2 4 5 7 8 10 11 13", "F": "1 2 4 5 7 8 10 11 13 14", "G": "1 2 4 5 7 8 10 11 13 14 16 17",
	"H": "1 2 4 5 7 8 10 11 13 14", "I": "1 2 4 5 7 8 10 11 13", "J": "1 2 4 5 7 8 10", "K": "1 2 4 5 7 8 10",
	"L": "1 2 4 5 7 8", "M": "1 2 4 5 7 8", "N": "1 2 4 5", "O": "1 2 4 5", "P": "1 2", "Q": "1 2",
}

// A head is the first line of a script, for each trial that it plays:
//
//	# A1 owner/repo#1, owner/repo#2: What happened, in our own words.
type head struct {
	id, sources, story string
	where              string // the script, or why the trial waits
}

var headLine = regexp.MustCompile(`^# ([A-Q][0-9]+) ((?:[\w.-]+/[\w.-]+#[0-9]+(?:, )?)+): (\S.*\.\)?)$`)

// played reads the heads of every script.
func played(t *testing.T) []head {
	t.Helper()
	var all []head
	for _, path := range scripts(t) {
		s, err := readScript(path)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, line := range s.blocks[0].comment {
			if m := headLine.FindStringSubmatch(line); m != nil {
				name := strings.TrimSuffix(filepath.Base(path), ".txt")
				all = append(all, head{m[1], m[2], m[3], fmt.Sprintf("[%s](../internal/trials/%s)", name, path)})
				n++
			}
		}
		if n == 0 {
			t.Errorf("%s: the first line names no trial", path)
		}
	}
	return all
}

// waiting reads the trials without a script: id, sources, story and reason, between tabs.
func waiting(t *testing.T) []head {
	t.Helper()
	raw, err := os.ReadFile("testdata/waiting.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var all []head
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			t.Fatalf("waiting.tsv: %q has %d fields, want 4", line, len(f))
		}
		all = append(all, head{f[0], f[1], f[2], f[3]})
	}
	return all
}

const page = "../../docs/trials.md"

const preface = `# Trials: field reports played against pawl

Each row is a public report of a tool call, API call or job with side effects that went wrong. A trial plays what
happened against the real executor, a real store and a provider that counts effects in a ledger of its own. The scripts
are meant to be read: commands, then what they print. A test of ` + "`internal/trials`" + ` writes this page and fails when it is
not current.

    go test ./internal/trials            # play them all
    go test ./internal/trials -update    # rewrite expected output and this page, to be reviewed like code
`

// TestIndex holds docs/trials.md to the scripts, and every trial to a script or a reason.
func TestIndex(t *testing.T) {
	t.Parallel()
	have, wait := played(t), waiting(t)
	seen := map[string]string{}
	for _, h := range slices.Concat(have, wait) {
		if seen[h.id] != "" {
			t.Errorf("%s is in %s and in %s", h.id, seen[h.id], h.where)
		}
		seen[h.id] = h.where
	}
	known := 0
	for kind, list := range numbers {
		for _, n := range strings.Fields(list) {
			known++
			if seen[kind+n] == "" {
				t.Errorf("%s%s has neither script nor reason", kind, n)
			}
		}
	}
	if len(seen) != known {
		t.Errorf("got %d trials, want %d: one has an id that is not known", len(seen), known)
	}
	var out bytes.Buffer
	out.WriteString(preface)
	table := func(title, last string, list []head) {
		slices.SortFunc(list, func(a, b head) int {
			return cmp.Or(cmp.Compare(a.id[:1], b.id[:1]), cmp.Compare(number(a.id), number(b.id)))
		})
		fmt.Fprintf(&out, "\n## %s\n\n| trial | source | what happened | %s |\n|---|---|---|---|\n", title, last)
		for _, h := range list {
			fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", h.id, h.sources, h.story, h.where)
		}
	}
	table(fmt.Sprintf("Played: %d", len(have)), "script", have)
	table(fmt.Sprintf("Without a script: %d", len(wait)), "why", wait)
	if *update {
		if err := os.WriteFile(page, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, out.Bytes()) {
		t.Errorf("docs/trials.md is not current: run go test ./internal/trials -update")
	}
}

// notCounted are scripts without a look at what every other one looks at.
var notCounted = map[string]string{
	"killed_at_random.txt requests": "how many requests were out at the kill is chance",
}

// TestEveryTrialCounts: no script leaves out the record, the requests that reached the
// provider, or the effects that it counts.
func TestEveryTrialCounts(t *testing.T) {
	t.Parallel()
	for _, path := range scripts(t) {
		s, err := readScript(path)
		if err != nil {
			t.Fatal(err)
		}
		last := s.blocks[len(s.blocks)-1].commands
		for _, want := range []string{"ops", "requests", "ledger"} {
			if notCounted[filepath.Base(path)+" "+want] != "" {
				continue
			}
			if !slices.ContainsFunc(last, func(c command) bool { return c.text == want }) {
				t.Errorf("%s: its last block lacks %q", path, want)
			}
		}
	}
}

func number(id string) int {
	n, _ := strconv.Atoi(id[1:]) // the pattern has digits there
	return n
}
