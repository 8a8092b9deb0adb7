package sqlite

import (
	"testing"

	"github.com/pawl-dev/pawl/storetest"
)

// TestLists reads a page of every list from a store that has grown. It is not parallel: it
// measures time.
func TestLists(t *testing.T) { storetest.Lists(t, openTest(t, newPath(t), nil), fill) }
