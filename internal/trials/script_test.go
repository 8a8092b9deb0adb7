package trials

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pgtest"
)

// A script is a text file. Lines that begin with # are for people; the first ones name the
// trials that it plays (see heads). A block is what stands between empty lines: commands, one a line, and,
// below a line of four dashes, what they print together. A block without dashes prints
// nothing. The commands are explained where they are handled.
type script struct {
	path   string
	blocks []block
}

type block struct {
	// comment holds the lines for people, commands the others, each with its number.
	comment  []string
	commands []command
	want     string
}

type command struct {
	line int
	text string
}

const dashes = "----"

func readScript(path string) (*script, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &script{path: path}
	var b block
	output := false
	flush := func() {
		if len(b.comment)+len(b.commands) > 0 {
			s.blocks = append(s.blocks, b)
		}
		b, output = block{}, false
	}
	for i, line := range strings.Split(string(raw), "\n") {
		line = strings.TrimRight(line, " ")
		switch {
		case line == "":
			flush()
		case output:
			b.want += line + "\n"
		case line == dashes:
			output = true
		case strings.HasPrefix(line, "#") && len(b.commands) > 0:
			return nil, fmt.Errorf("%s:%d: a comment stands before the commands of its block", path, i+1)
		case strings.HasPrefix(line, "#"):
			b.comment = append(b.comment, line)
		default:
			b.commands = append(b.commands, command{i + 1, line})
		}
	}
	flush()
	return s, nil
}

// text is the script as a file, with the outputs given.
func (s *script) text(got []string) []byte {
	var out bytes.Buffer
	for i, b := range s.blocks {
		if i > 0 {
			out.WriteString("\n")
		}
		for _, line := range b.comment {
			out.WriteString(line + "\n")
		}
		for _, c := range b.commands {
			out.WriteString(c.text + "\n")
		}
		if got[i] != "" {
			out.WriteString(dashes + "\n" + got[i])
		}
	}
	return out.Bytes()
}

// scripts lists the scripts by name.
func scripts(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(list) == 0 {
		t.Fatalf("scripts: got %v, %v, want some", list, err)
	}
	slices.Sort(list)
	return list
}

func TestTrials(t *testing.T) {
	t.Parallel()
	for _, path := range scripts(t) {
		s, err := readScript(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := s.play(t, "")
			if *update && !t.Failed() {
				if err := os.WriteFile(path, s.text(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
		if twoStores && s.turnsOnStore() {
			t.Run(name+" on PostgreSQL", func(t *testing.T) {
				t.Parallel()
				s.play(t, pgtest.Database(t))
			})
		}
	}
}

// turnsOnStore: the script plays a trial in which the store has a part: resumes, workers,
// runs, approvals, commits.
func (s *script) turnsOnStore() bool {
	return slices.ContainsFunc(s.blocks[0].comment, func(line string) bool {
		m := headLine.FindStringSubmatch(line)
		return m != nil && strings.Contains("EFKLO", m[1][:1])
	})
}

// play does what the script says and returns what each block prints.
func (s *script) play(t *testing.T, database string) []string {
	t.Helper()
	w := newWorld(t, database)
	got := make([]string, len(s.blocks))
	for i, b := range s.blocks {
		for _, c := range b.commands {
			w.at = fmt.Sprintf("%s:%d", s.path, c.line)
			w.do(c.text)
		}
		got[i] = w.out.String()
		w.out.Reset()
		if got[i] != b.want && (!*update || database != "") {
			t.Errorf("%s: got\n%swant\n%s", w.at, got[i], b.want)
		}
	}
	return got
}
