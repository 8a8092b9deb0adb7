package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestDemo runs the demo as a program would and holds every scene to its outcome.
func TestDemo(t *testing.T) {
	t.Parallel()
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "pawl", "demo", "--json") // TestMain puts it into the path
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		t.Fatalf("pawl demo --json: %v\n%s%s", err, out.Bytes(), talk.Bytes())
	}
	var shape struct {
		Scenes []map[string]json.RawMessage `json:"scenes"`
		OK     *bool                        `json:"ok"`
	}
	dec := json.NewDecoder(bytes.NewReader(out.Bytes()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&shape); err != nil {
		t.Fatal(err)
	}
	for _, s := range shape.Scenes {
		got := slices.Sorted(maps.Keys(s))
		if want := []string{"effects", "envelope", "expected_effects", "name", "settled_by", "status"}; !slices.Equal(got, want) {
			t.Errorf("scene: got fields %q, want %q", got, want)
		}
	}
	var r struct {
		Scenes []struct {
			Name      string
			Effects   int
			Expected  int `json:"expected_effects"`
			Status    pawl.Status
			SettledBy pawl.SettledBy `json:"settled_by"`
			Envelope  pawl.Envelope
		}
		OK bool
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if !r.OK {
		t.Errorf("got ok false, want true: %s", out.Bytes())
	}
	want := []struct {
		name    string
		effects int
		status  pawl.Status
		by      pawl.SettledBy
		next    pawl.NextAction
	}{
		{"lost_answer", 2, pawl.Succeeded, pawl.ByProbe, pawl.UseResult},
		{"killed_worker", 1, pawl.Succeeded, pawl.ByProbe, pawl.UseResult},
		{"other_words", 1, pawl.Succeeded, pawl.ByAnswer, pawl.UseResult},
		{"other_amount", 1, pawl.Succeeded, pawl.ByAnswer, pawl.NewStep},
		{"two_workers", 1, pawl.Succeeded, pawl.ByAnswer, pawl.UseResult},
		{"too_little_time", 0, pawl.FailedNoEffect, "", pawl.CallAgain},
		{"needs_a_yes", 1, pawl.Succeeded, pawl.ByAnswer, pawl.UseResult},
		{"no_way_to_ask", 1, pawl.Succeeded, pawl.ByPerson, pawl.UseResult},
		{"trip_off", 2, pawl.Compensated, pawl.ByAnswer, pawl.AskUser},
		{"trip_off_in_doubt", 2, pawl.Compensated, pawl.ByProbe, pawl.AskUser},
		{"trip_off_answer_lost", 2, pawl.Compensated, pawl.ByAnswer, pawl.AskUser},
		{"trip_off_mailed", 5, pawl.Compensated, pawl.ByAnswer, pawl.UseResult},
	}
	if len(r.Scenes) != len(want) {
		t.Fatalf("got %d scenes, want %d", len(r.Scenes), len(want))
	}
	for i, w := range want {
		s := r.Scenes[i]
		if s.Name != w.name || s.Status != w.status || s.SettledBy != w.by || s.Envelope.NextAction != w.next {
			t.Errorf("scene %d: got %s %s by %q, next %s, want %s %s by %q, next %s",
				i+1, s.Name, s.Status, s.SettledBy, s.Envelope.NextAction, w.name, w.status, w.by, w.next)
		}
		if s.Effects != w.effects || s.Expected != w.effects {
			t.Errorf("scene %s: got %d effects, expected %d, want %d", s.Name, s.Effects, s.Expected, w.effects)
		}
	}
}
