package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/sandbox/drill"
	"github.com/pawl-dev/pawl/sandbox/retail"
)

// TestDrillRetail plays some tasks in each mode, as make drill plays all of them.
func TestDrillRetail(t *testing.T) {
	t.Parallel()
	corpora := os.Getenv("PAWL_CORPORA")
	if corpora == "" {
		t.Skip("PAWL_CORPORA is not set: it names the folder with tau-bench-v1/retail")
	}
	for _, c := range []struct {
		name  string
		flags []string
		check func(*testing.T, *drill.Report)
	}{
		{"none", []string{"--faults", "none", "--tasks", "100"}, func(t *testing.T, r *drill.Report) {
			if r.Kills != 0 || r.Total.SettledBy[pawl.ByPerson] != 0 {
				t.Errorf("got %d kills and %v, want none", r.Kills, r.Total.SettledBy)
			}
		}},
		{"lost", []string{"--faults", "lost", "--tasks", "40"}, func(t *testing.T, r *drill.Report) {
			if r.Total.Unknown != r.Total.Operations || r.Total.WithoutPerson != 1 {
				t.Errorf("got %+v, want every operation UNKNOWN at some time and settled without a person", r.Total)
			}
		}},
		{"mix", []string{"--faults", "mix", "--tasks", "30", "--seed", "2"}, func(t *testing.T, r *drill.Report) {
			if r.Kills == 0 || r.Total.Unknown == 0 || r.Total.Calls <= r.Total.Operations {
				t.Errorf("got %d kills and %+v, want daemons killed, doubt, and calls made again", r.Kills, r.Total)
			}
		}},
		{"mix, four daemons on PostgreSQL", []string{"--faults", "mix", "--tasks", "16", "--seed", "3", "--daemons", "4", "--kill-every", "1s", "--store", pgtest.Database(t)}, func(t *testing.T, r *drill.Report) {
			if r.Daemons != 4 || r.Kills < 3 {
				t.Errorf("got %d daemons and %d kills, want 4, and one killed every second", r.Daemons, r.Kills)
			}
		}},
		{"mix, two daemons", []string{"--faults", "mix", "--tasks", "12", "--daemons", "2", "--kill-every", "2s"}, func(t *testing.T, r *drill.Report) {
			if r.Daemons != 2 {
				t.Errorf("got %d daemons, want 2", r.Daemons)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, talk bytes.Buffer
			args := append([]string{"drill", "retail", "--data", corpora, "--json"}, c.flags...)
			cmd := exec.CommandContext(t.Context(), "pawl", args...) // TestMain puts it into the path
			cmd.Stdout, cmd.Stderr = &out, &talk
			if err := cmd.Run(); err != nil {
				t.Fatalf("pawl %q: %v\n%s%s", args, err, out.Bytes(), talk.Bytes())
			}
			var r drill.Report
			dec := json.NewDecoder(bytes.NewReader(out.Bytes()))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&r); err != nil {
				t.Fatal(err)
			}
			if !r.OK || len(r.Differ) != 0 || len(r.Tools) != len(retail.Tools) || r.Total.Effects == 0 {
				t.Errorf("got %s, want no task to differ", out.Bytes())
			}
			c.check(t, &r)
		})
	}
}
