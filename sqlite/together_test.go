package sqlite

import (
	"sync"
	"testing"
)

// TestOpenTogether has several openers make one new store. None of them may take the
// log that another is about to make for one that was lost.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	for range 3 {
		path := newPath(t)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				db, err := Open(path, small())
				if err != nil {
					t.Error(err)
					return
				}
				if why := db.Recovery(); why != nil {
					t.Errorf("got recovery %v, want none", why)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
