package evidence

import (
	"bytes"
	"encoding/json"
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
	// deadline is when the attempt gives up, from when the server saw something of it.
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
	o := tr.Attempt(s.deadline(t, row.deadline), r)
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
