package evidence

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/pawl-dev/pawl"
)

func TestHTTP1CancelledByCause(t *testing.T) {
	t.Parallel()
	t.Run("H15 cancelled with a cause of our own", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(within(t, patience))
		s := serveRaw(t, func(c *rawConn) {
			c.exec()
			cancel(net.UnknownNetworkError("cause"))
			c.untilGone()
		})
		tr := transport(t, nil)
		o := tr.Attempt(ctx, post("http://"+s.addr()))
		s.settle()
		check(t, o, nil, &s.counts, executed)
	})
}

func TestHTTP1WriteFails(t *testing.T) {
	t.Parallel()
	for _, warm := range []bool{true, false} {
		name := "H25 first write takes no byte on a fresh connection"
		if warm {
			name = "H24 first write takes no byte on a reused connection"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t, func(c *rawConn) {
				for r := c.request(); r != nil; r = c.request() {
					if r.URL.Path != "/warm" {
						c.effects.Add(1)
					}
					c.say(okAnswer)
				}
			})
			tr := transport(t, nil)
			var f faults
			f.install(tr)
			if warm {
				warmUp(t, tr, "http://"+s.addr())
			}
			f.refuse.Store(true)
			o := tr.Attempt(within(t, patience), post("http://"+s.addr()))
			tr.Close()
			s.settle()
			check(t, o, nil, &s.counts, wanted{notSent, pawl.P1, "no_bytes", 0, 0})
		})
	}
}

func TestHTTP1IdleCloseRace(t *testing.T) {
	t.Parallel()
	t.Run("H26 the server closes as we write", func(t *testing.T) {
		t.Parallel()
		for i := range 60 {
			closing := make(chan struct{})
			s := serveRaw(t, func(c *rawConn) {
				r := c.request()
				switch {
				case r == nil:
				case r.URL.Path == "/warm":
					c.say(okAnswer)
					close(closing)
				default:
					c.effects.Add(1)
					c.say(okAnswer)
				}
			})
			tr := transport(t, nil)
			warmUp(t, tr, "http://"+s.addr())
			<-closing
			for range i * 20 { // a little later each time, to meet the close at every moment
				s.heads.Load()
			}
			o := tr.Attempt(within(t, patience), post("http://"+s.addr()))
			tr.Close()
			s.settle()
			e := Classify(o, nil, 1)
			safe(t, e, &s.counts)
			switch effects := s.effects.Load(); {
			case e.Class == success && effects == 1: // the close was seen in time, a new connection taken
			case e.Class == unclear && effects == 0:
			case e.Proof == "no_bytes" && o.BytesBegun == 0 && effects == 0:
			default:
				t.Errorf("got %s by %s with %d bytes and %d effects", e.Class, e.Proof, o.BytesBegun, effects)
			}
		}
	})
}

func TestHTTP1Redirect(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, status string
		want         wanted
	}{
		{"H37 307 to another origin", "307 Temporary Redirect", wanted{rejected, pawl.P4, "status_table", 0, 1}},
		{"H37 308 to another origin", "308 Permanent Redirect", wanted{rejected, pawl.P4, "status_table", 0, 1}},
		{"H37' 302 to another origin", "302 Found", wanted{unclear, "", "status_table", 0, 1}},
		{"H37' 303 to another origin", "303 See Other", wanted{unclear, "", "status_table", 0, 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			other := serveRaw(t, func(c *rawConn) { c.exec() })
			s := serveRaw(t, func(c *rawConn) {
				c.request()
				c.say("HTTP/1.1 " + row.status + "\r\nLocation: http://" + other.addr() + "/pay\r\nContent-Length: 0\r\n\r\n")
			})
			tr := transport(t, nil)
			r := post("http://" + s.addr())
			withKey(r)
			o := tr.Attempt(within(t, patience), r)
			tr.Close()
			s.settle()
			other.settle()
			e := check(t, o, nil, &s.counts, row.want)
			if got := other.heads.Load(); got != 0 {
				t.Errorf("requests at the other origin: got %d, want 0", got)
			}
			if e.Header["location"] == "" {
				t.Errorf("location is not kept")
			}
		})
	}
}

func TestHTTP1RefusalOfLargeUpload(t *testing.T) {
	t.Parallel()
	t.Run("H38 413 in the middle of 8 MiB, then closed", func(t *testing.T) {
		t.Parallel()
		body := bytes.Repeat([]byte("x"), 8<<20)
		for range 12 {
			s := serveRaw(t, func(c *rawConn) {
				c.head()
				c.say(errorAnswer("413 Content Too Large", "Connection: close\r\n"))
			})
			tr := transport(t, &Options{MaxRequest: 16 << 20})
			r := post("http://" + s.addr())
			r.Body = body
			o := tr.Attempt(within(t, patience), r)
			tr.Close()
			s.settle()
			e := Classify(o, nil, 1)
			safe(t, e, &s.counts)
			switch {
			case o.Response == nil && e.Class == unclear: // the reset overtook the refusal
			case o.Response != nil && o.Response.Intact() == nil && e.Class == rejected && e.Strength == pawl.P4:
			case o.Response != nil && o.Response.Intact() != nil && e.Class == unclear:
			default:
				t.Errorf("got %s %s by %s, response %v", e.Class, e.Strength, e.Proof, o.Response)
			}
		}
	})
}

func TestHTTP1ConnectionFoundDead(t *testing.T) {
	t.Parallel()
	t.Run("H40 closed after accept, noticed before the request", func(t *testing.T) {
		t.Parallel()
		s := serveRaw(t, func(*rawConn) {})
		tr := transport(t, nil)
		ctx, rec, o := within(t, patience), &recorder{}, &Observation{}
		req, body, err := tr.build(post("http://" + s.addr()))
		if err != nil {
			t.Fatal(err)
		}
		c, err := tr.take(ctx, req.URL, rec)
		if err != nil {
			t.Fatal(err)
		}
		for c.cc.Err() == nil {
			<-c.wire.changed
		}
		tr.send(ctx, c, req, body, nil, rec, o)
		s.settle()
		check(t, o, nil, &s.counts, wanted{notSent, pawl.P1, "no_bytes", 0, 0})
	})
}
