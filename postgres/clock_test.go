package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

// The server's clock counts, however far it is from this process's own, and it never runs
// backwards here.
func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock
		if _, ok := c.now(); ok {
			t.Error("got a time without any reading")
		}
		is := func(what string, want time.Time, wantOK bool) {
			t.Helper()
			got, ok := c.now()
			if ok != wantOK || ok && !got.Equal(want) {
				t.Errorf("%s: got %v, %t; want %v, %t", what, got, ok, want, wantOK)
			}
		}
		server := time.Now().UTC().Add(90 * time.Second) // the workers' own clocks are off
		pass := func(d time.Duration) { time.Sleep(d); server = server.Add(d) }
		read := func() {
			pass(time.Millisecond)
			c.observe(server.UnixMicro(), time.Now(), time.Now())
		}
		read()
		is("at once", server, true)
		pass(700 * time.Millisecond)
		is("carried on", server, true)
		pass(700 * time.Millisecond)
		is("too old", server, false)
		read()
		is("read again", server, true)

		server = server.Add(time.Hour) // set forward
		read()
		is("after a jump", server, true)
		last := server

		server = server.Add(-500 * time.Millisecond) // set back a little: it waits
		read()
		is("set back a little", last, true)
		pass(600 * time.Millisecond)
		is("caught up", server, true)
		last = server

		server = server.Add(-time.Hour) // set back far: it goes on
		read()
		last = last.Add(time.Millisecond)
		is("set back far", last, true)
		pass(300 * time.Millisecond)
		is("gone on", last.Add(300*time.Millisecond), true)

		late := server.Add(time.Hour)
		c.observe(late.UnixMicro(), time.Now().Add(-clockTrip-time.Millisecond), time.Now())
		is("an answer that took too long is no reading", last.Add(300*time.Millisecond), true)
	})
}
