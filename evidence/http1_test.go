package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// http1Row is one observed behaviour of an HTTP/1.1 server, as our transport meets it.
type http1Row struct {
	name    string
	options *Options
	warm    bool
	request func(r *Request)
	rules   *Rules
	// deadline is when the attempt gives up: 5 s unless set.
	deadline time.Duration
	server   func(c *rawConn)
	want     wanted
	// more looks further.
	more func(t *testing.T, o *Observation, s *rawServer)
}

const (
	notSent    = pawl.ClassNotSent
	rejected   = pawl.ClassRejected
	unclear    = pawl.ClassAmbiguous
	success    = pawl.ClassSucceeded
	resultLost = pawl.ClassResultLost
)

var (
	noAnswer = wanted{unclear, "", "no_answer", 0, 1}
	executed = wanted{unclear, "", "no_answer", 1, 1}
)

func withKey(r *Request) { r.Header.Set("Idempotency-Key", "k1") }

func withExpect(r *Request) { r.ExpectContinue = true }

// executedThenFIN serves an optional warm-up, has the effect of the first measured request
// and closes. Whatever comes on other connections is executed and answered.
func executedThenFIN(warm bool) func(c *rawConn) {
	return func(c *rawConn) {
		if warm && !c.warm() || !c.exec() || c.effects.Load() == 1 {
			return
		}
		c.say(okAnswer)
	}
}

func silent(c *rawConn) {
	if c.exec() {
		c.untilGone()
	}
}

func TestHTTP1(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), 32<<20)
	for _, row := range []http1Row{
		{
			name:   "H09 reset before anything was read",
			server: func(c *rawConn) { c.br.Peek(1); c.reset() },
			want:   wanted{unclear, "", "no_answer", 0, 0},
		},
		{name: "H10 executed, then FIN", server: executedThenFIN(false), want: executed},
		{
			name:   "H11 executed, then RST",
			server: func(c *rawConn) { c.exec(); c.reset() },
			want:   executed,
		},
		{name: "H12 H13 H14 executed and silent until the deadline", deadline: 80 * time.Millisecond, server: silent, want: executed},
		{
			name: "H16 never reads 32 MiB", deadline: 150 * time.Millisecond,
			options: &Options{MaxRequest: 64 << 20}, request: func(r *Request) { r.Body = large },
			server: func(c *rawConn) { c.br.Peek(1); c.park() },
			want:   wanted{unclear, "", "no_answer", 0, 0},
		},
		{
			name: "H17 an unfinished body is executed", deadline: 150 * time.Millisecond,
			options: &Options{MaxRequest: 64 << 20}, rules: &Rules{NeedsBody: true},
			request: func(r *Request) { r.Body = append([]byte(payment), bytes.Repeat([]byte(" "), 32<<20)...) },
			server: func(c *rawConn) {
				var v any
				if r := c.head(); r != nil && json.NewDecoder(r.Body).Decode(&v) == nil {
					c.effects.Add(1)
					c.park()
				}
			},
			want: wanted{unclear, "", "no_answer", 1, 0},
			more: func(t *testing.T, o *Observation, _ *rawServer) {
				if o.BodyPulled == 0 || o.BodyPulled == o.BodySize {
					t.Errorf("body pulled: got %d of %d, want a part", o.BodyPulled, o.BodySize)
				}
			},
		},
		{
			name: "H18 executed, declared length cut",
			server: func(c *rawConn) {
				c.exec()
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":")
			},
			want: wanted{resultLost, "", "unreadable", 1, 1},
		},
		{
			name: "H18 the same where the body may carry its own failure", rules: &Rules{BodyMayFail: true},
			server: func(c *rawConn) {
				c.exec()
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":")
			},
			want: wanted{unclear, "", "unreadable", 1, 1},
		},
		{
			name: "H19 executed, cut without declared length", rules: &Rules{ExpectBody: true},
			server: func(c *rawConn) { c.exec(); c.say("HTTP/1.1 200 OK\r\n\r\n{\"id\":") },
			want:   wanted{resultLost, "", "unreadable", 1, 1},
		},
		{
			name:   "H20 executed, answer is no HTTP",
			server: func(c *rawConn) { c.exec(); c.say("HELLO THERE\r\n") },
			want:   executed,
		},
		{name: "H21 reused connection, executed, then FIN", warm: true, server: executedThenFIN(true), want: executed},
		{name: "H22 key on a reused connection, executed, then FIN", warm: true, request: withKey, server: executedThenFIN(true), want: executed},
		{
			name: "H23 empty key marker on a reused connection", warm: true,
			request: func(r *Request) { r.Header["Idempotency-Key"] = []string{} },
			server:  executedThenFIN(true), want: executed,
		},
		{
			name: "H27 executed, then 408",
			server: func(c *rawConn) {
				c.exec()
				c.say("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			},
			want: wanted{unclear, "", "foreign_answer", 1, 1},
		},
		{
			name:   "H27 executed, then 408 in the upstream's own shape",
			server: func(c *rawConn) { c.exec(); c.say(errorAnswer("408 Request Timeout", "Connection: close\r\n")) },
			want:   wanted{unclear, "", "status_table", 1, 1},
		},
		{
			name: "H28 expect, refused by 413 and close", request: withExpect, rules: &Rules{NeedsBody: true},
			server: func(c *rawConn) {
				c.head()
				c.say(errorAnswer("413 Content Too Large", "Connection: close\r\n"))
				c.untilGone()
			},
			want: wanted{rejected, pawl.P4, "status_table", 0, 0},
			more: noBodyAtServer,
		},
		{
			name: "H29 expect, refused by 401 and keep-alive", request: withExpect,
			server: func(c *rawConn) {
				c.head()
				c.say(errorAnswer("401 Unauthorized", ""))
				c.untilGone()
			},
			want: wanted{rejected, pawl.P4, "status_table", 0, 0},
		},
		{
			name: "H30 expect, the body goes out unasked", request: withExpect, rules: &Rules{NeedsBody: true},
			options: &Options{ContinueTimeout: 50 * time.Millisecond}, server: executedThenFIN(false), want: executed,
		},
		{
			name: "H31 expect, without patience", request: withExpect, rules: &Rules{NeedsBody: true},
			options: &Options{ContinueTimeout: 1}, server: executedThenFIN(false), want: executed,
		},
		{
			name: "H32 expect, deadline while the body waits", request: withExpect, rules: &Rules{NeedsBody: true},
			deadline: 100 * time.Millisecond, options: &Options{ContinueTimeout: 5 * time.Second},
			server: func(c *rawConn) { c.head(); c.untilGone() },
			want:   wanted{notSent, pawl.P1, "no_body", 0, 0},
			more:   noBodyAtServer,
		},
		{
			name: "H39 key on a reused connection, one attempt is one request", warm: true, request: withKey,
			server: executedThenFIN(true), want: executed,
			more: func(t *testing.T, _ *Observation, s *rawServer) {
				if got := s.keys.Load(); got != 1 {
					t.Errorf("keys at the server: got %d, want 1", got)
				}
			},
		},
		{
			name: "H41 expect on a reused connection that dies", warm: true, request: withExpect, rules: &Rules{NeedsBody: true},
			server: func(c *rawConn) {
				if c.warm() {
					c.head()
				}
			},
			want: wanted{notSent, pawl.P1, "no_body", 0, 0},
			more: noBodyAtServer,
		},
		{
			name: "H42 9 KB of headers, never answered", deadline: 100 * time.Millisecond,
			request: func(r *Request) { r.Header.Set("X-Pad", strings.Repeat("p", 9000)) },
			server:  func(c *rawConn) { c.park() },
			want:    wanted{unclear, "", "no_answer", 0, 0},
		},
		{
			name: "H43 small headers, never answered", deadline: 100 * time.Millisecond,
			server: func(c *rawConn) { c.park() },
			want:   wanted{unclear, "", "no_answer", 0, 0},
		},
		{
			name: "H44 key in lower case", warm: true, request: func(r *Request) { r.Header["idempotency-key"] = []string{"k1"} },
			server: executedThenFIN(true), want: executed,
		},
		{name: "H45 key, body that cannot be read again", warm: true, request: withKey, server: executedThenFIN(true), want: executed},
		{
			name: "H46 key, no body", warm: true, request: func(r *Request) { withKey(r); r.Body = nil },
			server: executedThenFIN(true), want: executed,
		},
		{
			name: "H47 key, connections never reused", request: withKey, options: &Options{MaxIdlePerHost: -1},
			server: executedThenFIN(false), want: executed,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t)
		})
	}
}

func noBodyAtServer(t *testing.T, o *Observation, s *rawServer) {
	t.Helper()
	if s.body.Load() != 0 || o.BodyPulled != 0 {
		t.Errorf("body bytes: got %d at the server and %d pulled, want none", s.body.Load(), o.BodyPulled)
	}
}

func (row http1Row) run(t *testing.T) {
	t.Helper()
	s := serveRaw(t, row.server)
	tr := transport(t, row.options)
	base := "http://" + s.addr()
	if row.warm {
		warmUp(t, tr, base)
	}
	r := post(base)
	if row.request != nil {
		row.request(r)
	}
	deadline := row.deadline
	if deadline == 0 {
		deadline = 5 * time.Second
	}
	o := tr.Attempt(within(t, deadline), r)
	tr.Close()
	s.settle()
	if reused := slices.Contains(o.Trace, "reused"); reused != row.warm {
		t.Errorf("connection reused: got %v, want %v", reused, row.warm)
	}
	check(t, o, row.rules, &s.counts, row.want)
	if row.more != nil {
		row.more(t, o, s)
	}
}

func TestHTTP1NoConnection(t *testing.T) {
	t.Parallel()
	none := wanted{notSent, pawl.P1, "no_connection", 0, 0}
	plain := func(c *rawConn) {
		if c.exec() {
			c.say(okAnswer)
		}
	}
	for _, row := range []struct {
		name    string
		server  func(t *testing.T) *rawServer
		options *Options
		scheme  string
		prepare func(t *testing.T, tr *Transport, s *rawServer)
		ctx     func(t *testing.T) context.Context
		trace   string
	}{
		{
			name: "H01 connection refused", scheme: "http", trace: "dial_failed",
			server:  func(t *testing.T) *rawServer { return serveRaw(t, plain) },
			prepare: func(_ *testing.T, _ *Transport, s *rawServer) { s.listener.Close() },
		},
		{
			name: "H03 certificate not trusted", scheme: "https", trace: "tls_failed",
			server: func(t *testing.T) *rawServer { return serveTLS(t, serverTLS(), plain) },
		},
		{
			name: "H04 TLS to a plain server", scheme: "https", trace: "tls_failed",
			server: func(t *testing.T) *rawServer {
				return serveRaw(t, func(c *rawConn) { c.say("HTTP/1.1 400 Bad Request\r\n\r\n") })
			},
		},
		{
			name: "H06 closed in the TLS handshake", scheme: "https", trace: "tls_failed", options: &Options{TLS: trusting()},
			server: func(t *testing.T) *rawServer {
				return serveRaw(t, func(c *rawConn) { c.br.Discard(10) })
			},
		},
		{
			name: "H07 deadline while connecting", scheme: "http",
			server: func(t *testing.T) *rawServer { return serveRaw(t, plain) },
			prepare: func(_ *testing.T, tr *Transport, _ *rawServer) {
				tr.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			},
			ctx: func(t *testing.T) context.Context { return within(t, 50*time.Millisecond) },
		},
		{
			name: "H08 cancelled before", scheme: "http",
			server: func(t *testing.T) *rawServer { return serveRaw(t, plain) },
			ctx: func(t *testing.T) context.Context {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				return ctx
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := row.server(t)
			tr := transport(t, row.options)
			if row.prepare != nil {
				row.prepare(t, tr, s)
			}
			ctx := within(t, 5*time.Second)
			if row.ctx != nil {
				ctx = row.ctx(t)
			}
			o := tr.Attempt(ctx, post(row.scheme+"://"+s.addr()))
			s.settle()
			check(t, o, nil, &s.counts, none)
			if row.trace != "" && !slices.Contains(o.Trace, row.trace) {
				t.Errorf("trace: got %v, want %s in it", o.Trace, row.trace)
			}
		})
	}
}

func TestHTTP1NoSuchHost(t *testing.T) {
	t.Parallel()
	t.Run("H02 no such host", func(t *testing.T) {
		t.Parallel()
		tr := transport(t, nil)
		tr.dialer.Resolver = resolver(t, nil)
		o := tr.Attempt(within(t, 5*time.Second), post("http://no-such-host.invalid"))
		e := check(t, o, nil, &counts{}, wanted{notSent, pawl.P1, "no_connection", 0, 0})
		if !slices.Contains(e.Trace, "dns_failed") {
			t.Errorf("trace: got %v, want dns_failed in it", e.Trace)
		}
	})
}

func TestHTTP1ClientCertificateRequired(t *testing.T) {
	t.Parallel()
	t.Run("H05 server wants a client certificate", func(t *testing.T) {
		t.Parallel()
		config := serverTLS()
		config.ClientAuth = 2 // RequireAnyClientCert
		s := serveTLS(t, config, func(c *rawConn) { c.exec() })
		tr := transport(t, &Options{TLS: trusting()})
		o := tr.Attempt(within(t, 5*time.Second), post("https://"+s.addr()))
		tr.Close()
		s.settle()
		e := Classify(o, nil, 1)
		// The alert proves the refusal but reaches nobody as a type. Only if it came before
		// the request was begun does the byte counter prove it.
		if e.Class != unclear && e.Proof != "no_bytes" {
			t.Errorf("got %s by %s, want AMBIGUOUS, or NOT_SENT by no_bytes", e.Class, e.Proof)
		}
		safe(t, e, &s.counts)
	})
}

func TestHTTP1CancelledByCause(t *testing.T) {
	t.Parallel()
	t.Run("H15 cancelled with a cause of our own", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(within(t, 5*time.Second))
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
			o := tr.Attempt(within(t, 5*time.Second), post("http://"+s.addr()))
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
			o := tr.Attempt(within(t, 5*time.Second), post("http://"+s.addr()))
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

func TestHTTP1Proxy(t *testing.T) {
	t.Parallel()
	sayToProxy := func(answer string) func(c *rawConn) {
		return func(c *rawConn) {
			if _, err := c.br.Peek(1); err != nil {
				return
			}
			c.head()
			c.say(answer)
		}
	}
	none := wanted{notSent, pawl.P1, "no_connection", 0, 0}
	for _, row := range []struct {
		name, target, answer, trace string
		want                        wanted
	}{
		{"H33 CONNECT answered 502", "https://example.test", "HTTP/1.1 502 Bad Gateway\r\n\r\n", "proxy_connect_502", none},
		{"H34 CONNECT answered 407", "https://example.test", "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "proxy_connect_407", none},
		{"H35 CONNECT read and closed", "https://example.test", "", "dial", none},
		{"H36 forward proxy answers 502 itself", "http://example.test", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "first_byte", wanted{unclear, "", "foreign_answer", 0, -1}},
		{"H36 forward proxy wants credentials", "http://example.test", "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "first_byte", wanted{rejected, pawl.P2, "status_table", 0, -1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t, sayToProxy(row.answer))
			tr := transport(t, &Options{Proxy: &url.URL{Scheme: "http", Host: s.addr()}})
			o := tr.Attempt(within(t, 5*time.Second), post(row.target))
			tr.Close()
			s.settle()
			check(t, o, nil, &s.counts, row.want)
			if !slices.Contains(o.Trace, row.trace) {
				t.Errorf("trace: got %v, want %s in it", o.Trace, row.trace)
			}
		})
	}
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
			o := tr.Attempt(within(t, 5*time.Second), r)
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
			o := tr.Attempt(within(t, 5*time.Second), r)
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
		ctx, rec, o := within(t, 5*time.Second), &recorder{}, &Observation{}
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
		tr.send(ctx, c, req, body, rec, o)
		s.settle()
		check(t, o, nil, &s.counts, wanted{notSent, pawl.P1, "no_bytes", 0, 0})
	})
}
