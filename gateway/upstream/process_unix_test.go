//go:build unix

package upstream

import (
	"encoding/json"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestFamilyEnds: what a child has started ends with it, also where the child itself does
// not end when its input does.
func TestFamilyEnds(t *testing.T) {
	t.Parallel()
	_, set := file(t, started(script("stays")), nil)
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal([]byte(ask(t, set.Get("up"), callTool("family", `{}`))), &r); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(r.Content[0].Text)
	if err != nil || syscall.Kill(pid, 0) != nil {
		t.Fatalf("process %d does not run: %v", pid, err)
	}
	set.Close()
	for end := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d outlived its parent", pid)
		}
	}
	if _, err := set.Get("up").Call(t.Context(), callTool("echo", `{}`)); !errors.Is(err, ErrUnsent) || !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: got %v, want ErrUnsent and ErrClosed", err)
	}
}
