package pawl

import (
	"bytes"
	"testing"
	"time"
)

// Ids rise while the clock stands still or is read a little behind, and follow it when it
// was set back.
func TestIDsRise(t *testing.T) {
	t.Parallel()
	var s ids
	last := s.next(t0)
	for i := range 10_000 {
		id := s.next(t0.Add(-time.Duration(i%3) * time.Millisecond))
		if bytes.Compare(id[:], last[:]) <= 0 {
			t.Fatalf("id %d: got %v after %v", i, id, last)
		}
		last = id
	}
	if got := last.Time().Sub(t0); got < 0 || got > 2*time.Millisecond {
		t.Errorf("time of the last id: got %v after the clock's", got)
	}
	if got := s.next(t0.Add(-time.Hour)).Time(); !got.Equal(t0.Add(-time.Hour).Truncate(time.Millisecond)) {
		t.Errorf("clock set back: got %v", got)
	}
}
