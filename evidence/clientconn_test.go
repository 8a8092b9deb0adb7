package evidence

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func TestClientConn(t *testing.T) {
	t.Parallel()
	confirmed := wanted{success, "", "status_table", 1, 1}
	t.Run("C-01 plain 200 on HTTP 1.1", func(t *testing.T) {
		t.Parallel()
		http1Row{server: func(c *rawConn) { c.exec(); c.say(okAnswer) }, want: confirmed}.run(t)
	})

	t.Run("C-03 the counter is complete whenever the answer is there", func(t *testing.T) {
		t.Parallel()
		s := serveRaw(t, func(c *rawConn) {
			if c.exec() {
				c.say(okAnswer)
			}
		})
		tr := transport(t, &Options{MaxIdlePerHost: -1})
		var bytes int64
		for i := range 200 {
			o := tr.Attempt(within(t, patience), post("http://"+s.addr()))
			if i == 0 {
				bytes = o.BytesBegun
			}
			if e := Classify(o, nil, 1); e.Class != success || o.BytesBegun != bytes || bytes < int64(len(payment)) {
				t.Fatalf("attempt %d: got %s with %d bytes, want SUCCEEDED with %d", i, e.Class, o.BytesBegun, bytes)
			}
		}
		tr.Close()
		s.settle()
		if got := s.effects.Load(); got != 200 {
			t.Errorf("effects: got %d, want 200", got)
		}
	})

	// On a held connection every byte passes, but Write stays until the connection is closed.
	t.Run("C-04 HTTP 1.1, write in progress at the deadline", func(t *testing.T) {
		t.Parallel()
		s := serveRaw(t, silent)
		tr := transport(t, nil)
		var f faults
		f.install(tr)
		f.free.Store(1) // the head goes out by itself
		f.hold.Store(true)
		o := tr.Attempt(s.deadline(t, 80*time.Millisecond), post("http://"+s.addr()))
		s.settle()
		check(t, o, &Rules{NeedsBody: true}, &s.counts, executed)
		if o.BodyPulled != o.BodySize || o.BytesBegun <= o.BodySize {
			t.Errorf("got %d bytes begun and %d pulled, want all of the request", o.BytesBegun, o.BodyPulled)
		}
	})

	held := func(t *testing.T, body bool) (*Observation, *rawServer) {
		s := serveH2(t, func(c *h2Conn) {
			if c.warm() && c.exec() != 0 {
				c.untilGone()
			}
		})
		tr := transport(t, &Options{TLS: trusting()})
		var f faults
		f.install(tr)
		warmUp(t, tr, "https://"+s.addr())
		f.hold.Store(true)
		r := post("https://" + s.addr())
		if !body {
			r.Body = nil
		}
		o := tr.Attempt(s.deadline(t, 80*time.Millisecond), r)
		tr.Close()
		s.settle()
		return o, s
	}
	t.Run("C-05 HTTP 2 without body, write in progress at the deadline", func(t *testing.T) {
		t.Parallel()
		o, s := held(t, false)
		check(t, o, &Rules{NeedsBody: true}, &s.counts, executed)
	})
	t.Run("C-06 HTTP 2 with body, write in progress at the deadline", func(t *testing.T) {
		t.Parallel()
		o, s := held(t, true)
		check(t, o, &Rules{NeedsBody: true}, &s.counts, wanted{notSent, pawl.P1, "no_body", 0, 0})
		check(t, o, nil, &s.counts, wanted{unclear, "", "no_answer", 0, 0})
	})
}
