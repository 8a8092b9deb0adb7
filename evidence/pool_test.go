package evidence

import (
	"context"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// echoing answers every measured request with its own number, on any connection.
func echoing(c *rawConn) {
	for c.exec() {
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func attempt(t *testing.T, tr *Transport, url string) *Observation {
	t.Helper()
	o := tr.Attempt(within(t, patience), post(url))
	if o.Err != nil || o.Response == nil {
		t.Fatalf("attempt: got %v, want an answer", o.Err)
	}
	return o
}

func reused(o *Observation) bool { return slices.Contains(o.Trace, "reused") }

func TestPoolReusesHealthyConnections(t *testing.T) {
	t.Parallel()
	plain := serveRaw(t, echoing)
	h2 := serveH2(t, func(c *h2Conn) { c.then() })
	for name, url := range map[string]string{"HTTP 1.1": "http://" + plain.addr(), "HTTP 2": "https://" + h2.addr()} {
		t.Run(name, func(t *testing.T) {
			tr := transport(t, &Options{TLS: trusting(), IdleTimeout: time.Minute})
			for i := range 20 {
				o := attempt(t, tr, url)
				if reused(o) != (i > 0) {
					t.Fatalf("attempt %d: reused got %v, want %v", i, reused(o), i > 0)
				}
			}
		})
	}
}

func TestPoolGivesConnectionsToOneAttempt(t *testing.T) {
	t.Parallel()
	var inUse, most atomic.Int64
	both := make(chan struct{})
	h2 := serveH2(t, func(c *h2Conn) {
		id := c.exec()
		if n := inUse.Add(1); n == 2 {
			close(both)
		}
		most.Add(1)
		<-both // neither is answered before both are on the wire
		c.answer(id, "200", "ok")
		c.then()
	})
	tr := transport(t, &Options{TLS: trusting()})
	done := make(chan *Observation)
	for range 2 {
		go func() { done <- tr.Attempt(within(t, patience), post("https://"+h2.addr())) }()
	}
	for range 2 {
		if o := <-done; o.Err != nil {
			t.Errorf("attempt: got %v, want an answer", o.Err)
		}
	}
	if most.Load() != 2 {
		t.Errorf("connections: got %d, want 2", most.Load())
	}
}

func TestPoolDropsDoubtfulConnections(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(c *rawConn){
		"NE14 a second answer behind the first": func(c *rawConn) { c.exec(); c.say(okAnswer + okAnswer); c.untilGone() },
		"NE14 a byte behind the answer":         func(c *rawConn) { c.exec(); c.say(okAnswer + "x"); c.untilGone() },
		"server says close": func(c *rawConn) {
			c.exec()
			c.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
			c.untilGone()
		},
		"body until the end of the connection": func(c *rawConn) { c.exec(); c.say("HTTP/1.0 200 OK\r\n\r\nok") },
		"answer before the body was read":      func(c *rawConn) { c.head(); c.say(okAnswer); c.park() },
		"protocol switched": func(c *rawConn) {
			c.exec()
			c.say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
			c.untilGone()
		},
		"answer larger than the limit": func(c *rawConn) {
			c.exec()
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
			c.say(string(make([]byte, 5000)))
			c.untilGone()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conns atomic.Int64
			s := serveRaw(t, func(c *rawConn) {
				conns.Add(1)
				script(c)
			})
			tr := transport(t, &Options{MaxResponse: 1000, MaxRequest: 64 << 20})
			r := post("http://" + s.addr())
			if name == "answer before the body was read" {
				r.Body = make([]byte, 32<<20)
			}
			for i := range 2 {
				o := tr.Attempt(within(t, patience), r)
				if o.Response == nil {
					t.Fatalf("attempt %d: got %v, want an answer", i, o.Err)
				}
			}
			if got := conns.Load(); got != 2 {
				t.Errorf("connections: got %d, want 2", got)
			}
		})
	}
}

func TestPoolNeverTakesAnAnswerForAnother(t *testing.T) {
	t.Parallel()
	t.Run("NE14 an answer that waits behind the first", func(t *testing.T) {
		t.Parallel()
		s := serveRaw(t, func(c *rawConn) {
			for c.exec() {
				c.say(okAnswer + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale")
			}
		})
		tr := transport(t, nil)
		for i := range 300 {
			if o := attempt(t, tr, "http://"+s.addr()); string(o.Response.Body) != "ok" {
				t.Fatalf("attempt %d: got %q, want ok", i, o.Response.Body)
			}
		}
	})
}

func TestPoolDropsConnectionsWithUnfinishedUploads(t *testing.T) {
	t.Parallel()
	s := serveH2(t, func(c *h2Conn) {
		for {
			f, err := c.fr.ReadFrame()
			if err != nil {
				return
			}
			if h, ok := f.(*http2.MetaHeadersFrame); ok {
				c.answer(h.StreamID, "200", "ok") // without ever opening the window for the body
			}
		}
	})
	tr := transport(t, &Options{TLS: trusting(), IdleTimeout: time.Minute})
	r := post("https://" + s.addr())
	r.Body = make([]byte, 1<<20)
	o := tr.Attempt(within(t, patience), r)
	if o.Response == nil || o.BodyPulled == o.BodySize {
		t.Fatalf("got %v with %d of %d pulled, want an answer before the whole body", o.Err, o.BodyPulled, o.BodySize)
	}
	if got := len(tr.pool.idle); got != 0 {
		t.Errorf("hosts with idle connections: got %d, want 0", got)
	}
	s.settle() // returns only if the connection is closed
}

func TestPoolNoticesDeadConnections(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	s := serveRaw(t, func(c *rawConn) {
		if c.exec() {
			c.say(okAnswer)
			<-leave
		}
	})
	tr := transport(t, &Options{IdleTimeout: time.Minute})
	attempt(t, tr, "http://"+s.addr())
	c := tr.pool.idle["http://"+s.addr()][0]
	close(leave)
	for c.usable() {
		<-c.wire.changed
	}
	if o := attempt(t, tr, "http://"+s.addr()); reused(o) {
		t.Errorf("a connection that the server had closed was used")
	}
}

// A close that has arrived, and that the connection's reader does not know of yet, costs a new
// connection and no doubt.
func TestPoolLooksBeforeUse(t *testing.T) { // NE12
	t.Parallel()
	if !canPeek {
		t.Skip("this system cannot look at what has arrived without taking it")
	}
	leave := make(chan struct{})
	s := serveRaw(t, func(c *rawConn) {
		r := c.request()
		switch {
		case r == nil:
		case r.URL.Path == "/warm":
			c.say(okAnswer)
			<-leave
		default:
			c.effects.Add(1)
			c.say(okAnswer)
		}
	})
	tr := transport(t, &Options{IdleTimeout: time.Minute})
	f := faults{ended: make(chan struct{})}
	f.install(tr)
	warmUp(t, tr, "http://"+s.addr())
	close(leave)
	<-f.ended
	f.ended = nil
	o := tr.Attempt(within(t, patience), post("http://"+s.addr()))
	if reused(o) {
		t.Error("a connection that the server had closed was used")
	}
	tr.Close()
	s.settle()
	check(t, o, nil, &s.counts, wanted{success, "", "status_table", 1, 1})
}

func TestPoolWaitsForConnectionsToSettle(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echoing)
	tr := transport(t, &Options{IdleTimeout: time.Minute})
	attempt(t, tr, "http://"+s.addr())
	c, _ := tr.pool.get("http://" + s.addr())
	defer c.close()
	if !c.settle(false) {
		t.Fatalf("a connection at rest: got unsettled, want settled")
	}
	c.wire.mu.Lock()
	c.wire.waiting = false // as if the reader still had something of the answer
	c.wire.mu.Unlock()
	if c.settle(false) {
		t.Errorf("a connection whose reader is busy: got settled, want unsettled")
	}
	if !c.settle(true) {
		t.Errorf("HTTP 2 has frames of its own at any time: got unsettled, want settled")
	}
	if err := c.cc.Reserve(); err != nil {
		t.Fatal(err)
	}
	if c.settle(true) {
		t.Errorf("a connection with an unfinished stream: got settled, want unsettled")
	}
	c.cc.Release()
}

func TestPoolLimits(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echoing)
	base := "http://" + s.addr()
	idle := func(tr *Transport) int {
		tr.pool.mu.Lock()
		defer tr.pool.mu.Unlock()
		return len(tr.pool.idle[base])
	}
	t.Run("idle connections are closed in time", func(t *testing.T) {
		t.Parallel()
		tr := transport(t, &Options{IdleTimeout: 20 * time.Millisecond})
		gone := make(chan struct{})
		f := faults{closed: func(*net.TCPConn) { close(gone) }}
		f.install(tr)
		attempt(t, tr, base)
		<-gone
		if got := idle(tr); got != 0 {
			t.Errorf("idle: got %d, want 0", got)
		}
	})
	t.Run("no more idle connections than the limit", func(t *testing.T) {
		t.Parallel()
		tr := transport(t, &Options{MaxIdlePerHost: 1, IdleTimeout: time.Minute})
		var all []*conn
		u, _ := parseURL(base)
		for range 3 {
			c, err := tr.take(t.Context(), u, &recorder{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for _, c := range all {
			tr.pool.put(c)
		}
		if got := idle(tr); got != 1 {
			t.Errorf("idle: got %d, want 1", got)
		}
	})
	t.Run("closed transport makes no connection", func(t *testing.T) {
		t.Parallel()
		tr := transport(t, nil)
		attempt(t, tr, base)
		tr.Close()
		tr.Close()
		o := tr.Attempt(t.Context(), post(base))
		if e := Classify(o, nil, 1); e.Proof != "no_connection" || idle(tr) != 0 {
			t.Errorf("got %s with %d idle, want no_connection and none", e.Proof, idle(tr))
		}
	})
	t.Run("closed while an attempt is out", func(t *testing.T) {
		t.Parallel()
		tr := transport(t, &Options{IdleTimeout: time.Minute})
		s := serveRaw(t, func(c *rawConn) {
			c.exec()
			tr.Close()
			c.say(okAnswer)
			c.untilGone()
		})
		attempt(t, tr, "http://"+s.addr())
		if got := len(tr.pool.idle); got != 0 {
			t.Errorf("hosts with idle connections: got %d, want 0", got)
		}
	})
}

func TestWireEarlyAnswer(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	w := newWire(near, 0)
	defer w.Close()
	go func() {
		far.Write([]byte("unasked"))
		buf := make([]byte, 16)
		for range 2 {
			far.Read(buf)
		}
	}()
	w.begin(nil)
	w.Read(make([]byte, 16))
	w.Write([]byte("request"))
	if _, early := w.finish(false); !early {
		t.Errorf("early: got false, want true: bytes came before the request")
	}
	w.begin(nil)
	w.Write([]byte("request"))
	if begun, early := w.finish(false); early || begun != 7 {
		t.Errorf("got early %v and %d bytes, want a quiet exchange of 7", early, begun)
	}
}

func TestWireWritesNothingOnceOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	near, far := net.Pipe()
	defer far.Close()
	w := newWire(near, -1)
	defer w.Close()
	w.begin(ctx.Done())
	cancel()
	if n, err := w.Write([]byte("late")); n != 0 || err == nil {
		t.Errorf("write after the end of the context: got %d and %v, want 0 and an error", n, err)
	}
	w.begin(nil)
	if begun, _ := w.seal(); begun != 0 {
		t.Errorf("begun: got %d, want 0", begun)
	}
	if n, err := w.Write([]byte("late")); n != 0 || err == nil {
		t.Errorf("write after the seal: got %d and %v, want 0 and an error", n, err)
	}
}

func TestPullsNothingOnceSealed(t *testing.T) {
	t.Parallel()
	b := &pulls{rest: []byte(payment)}
	b.Read(make([]byte, 5))
	if got := b.seal(); got != 5 {
		t.Errorf("pulled: got %d, want 5", got)
	}
	if n, err := b.Read(make([]byte, 5)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("read after the seal: got %d and %v, want 0 and an error", n, err)
	}
}

// stuck is a connection whose Write waits and then takes nothing.
type stuck struct {
	net.Conn
	entered, release chan struct{}
}

func (s stuck) Write([]byte) (int, error) {
	s.entered <- struct{}{}
	<-s.release
	return 0, net.ErrClosed
}

func TestWireTakesNothingBackFromAnotherAttempt(t *testing.T) {
	t.Parallel()
	s := stuck{entered: make(chan struct{}), release: make(chan struct{}, 2)}
	w := newWire(s, -1)
	done := make(chan struct{}, 2)
	write := func() {
		w.Write([]byte("12345"))
		done <- struct{}{}
	}
	go write() // a frame of the connection, before the hand-over
	<-s.entered
	w.begin(nil)
	go write()
	<-s.entered
	if begun, _ := w.finish(true); begun != 5 {
		t.Errorf("begun while both are in progress: got %d, want 5", begun)
	}
	w.begin(nil)
	s.release <- struct{}{}
	s.release <- struct{}{}
	<-done
	<-done
	if begun, _ := w.seal(); begun != 0 {
		t.Errorf("begun in a new attempt: got %d, want 0", begun)
	}
}
