package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/terminal"
)

// TestJSONHoldsNothingATerminalActsOn: a listing as JSON may be read on a terminal too.
func TestJSONHoldsNothingATerminalActsOn(t *testing.T) {
	t.Parallel()
	const hostile = "a\u009b31m\u202eb\x7f\u200bc\U000e0001 é😀"
	var out bytes.Buffer
	if err := writeJSON(terminal.New(&out), map[string]string{"x": hostile}); err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(out.Bytes(), "\u009b\u202e\x7f\u200b\U000e0001") {
		t.Errorf("got %q, want escapes", out.String())
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["x"] != hostile {
		t.Errorf("got %q (%v), want the same text back", back["x"], err)
	}
}
