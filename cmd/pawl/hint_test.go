package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/sqlite"
)

// TestHints holds the errors that a script cannot provoke everywhere to their next step.
func TestHints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{pawl.ErrReadOnly, "right to write"},
		{fmt.Errorf("%w: %w", pawl.ErrReadOnly, fs.ErrPermission), "right to write"},
		{pawl.ErrFull, "Make room"},
		{pawl.ErrBusy, "which program"},
		{pawl.ErrNewerSchema, "newer one"},
		{server.ErrRecovery, "pawl restore -c x.yaml --yes"},
		{contract.ErrShortSecret, "longer"},
		{&server.StoreError{Err: sqlite.ErrNoStore}, "--store"},
		{&server.StoreError{Err: fs.ErrNotExist}, "--store"},
		{fs.ErrNotExist, "contract file"},
		{&pawl.Refusal{Why: pawl.RefusedLease}, "Wait for it"},
		{errors.New("something else"), ""},
	} {
		got := hintFor(fmt.Errorf("open store: %w", c.err), " -c x.yaml")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("hint for %v: got %q, want one with %q", c.err, got, c.want)
		}
	}
}
