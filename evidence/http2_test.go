package evidence

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/pawl-dev/pawl"
)

// http2Row is one observed behaviour of an HTTP/2 server, as our transport meets it.
type http2Row struct {
	name     string
	warm     bool
	request  func(r *Request)
	rules    *Rules
	deadline time.Duration
	server   func(c *h2Conn)
	want     wanted
}

// resets resets the first measured stream, after it was executed or as not processed, and
// answers all that follow.
func resets(code http2.ErrCode, executed bool) func(c *h2Conn) {
	return func(c *h2Conn) {
		id := c.next()
		if executed {
			c.effects.Add(1)
		}
		c.fr.WriteRSTStream(id, code)
		c.then()
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	refused := wanted{rejected, pawl.P2, "refused_stream", 0, 1}
	unprocessed := wanted{unclear, "", "no_answer", 0, 1} // in truth not processed, but nothing typed says so
	for _, row := range []http2Row{
		{name: "2-01 REFUSED_STREAM, then 200", server: resets(http2.ErrCodeRefusedStream, false), want: refused},
		{name: "2-02 PROTOCOL_ERROR after the whole request, then 200", server: resets(http2.ErrCodeProtocol, true), want: executed},
		{
			name: "2-03 PROTOCOL_ERROR twice, then 200",
			server: func(c *h2Conn) {
				c.fr.WriteRSTStream(c.exec(), http2.ErrCodeProtocol)
				c.fr.WriteRSTStream(c.exec(), http2.ErrCodeProtocol)
				c.then()
			},
			want: executed,
		},
		{name: "2-04 INTERNAL_ERROR", server: resets(http2.ErrCodeInternal, true), want: executed},
		{name: "2-05 CANCEL", server: resets(http2.ErrCodeCancel, true), want: executed},
		{name: "2-06 ENHANCE_YOUR_CALM", server: resets(http2.ErrCodeEnhanceYourCalm, true), want: executed},
		{name: "2-07 NO_ERROR", server: resets(http2.ErrCodeNo, true), want: executed},
		{name: "2-08 REFUSED_STREAM, body that cannot be read again", server: resets(http2.ErrCodeRefusedStream, false), want: refused},
		{
			name: "2-09 REFUSED_STREAM for ever", deadline: patience,
			server: func(c *h2Conn) {
				for id := c.next(); id != 0; id = c.next() {
					c.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
				}
			},
			want: refused,
		},
		{
			name: "2-10 GOAWAY below our stream, then 200", warm: true,
			server: func(c *h2Conn) {
				c.warm()
				c.next()
				c.fr.WriteGoAway(1, http2.ErrCodeNo, nil)
				c.then()
			},
			want: unprocessed,
		},
		{
			name: "2-11 GOAWAY at our stream, then TCP close", warm: true,
			server: func(c *h2Conn) {
				c.warm()
				c.fr.WriteGoAway(c.exec(), http2.ErrCodeNo, []byte("bye"))
			},
			want: executed,
		},
		{
			name: "2-12 GOAWAY(ENHANCE_YOUR_CALM, 0) on the first stream",
			server: func(c *h2Conn) {
				c.next()
				c.fr.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil)
				c.then()
			},
			want: unprocessed,
		},
		{name: "2-13 executed, then TCP close, with key", request: withKey, server: func(c *h2Conn) { c.exec() }, want: executed},
		{
			name: "2-14 executed on a reused connection, then TCP close, with key", warm: true, request: withKey,
			server: func(c *h2Conn) { c.warm(); c.exec() }, want: executed,
		},
		{
			name: "2-15 executed, answer cut by INTERNAL_ERROR",
			server: func(c *h2Conn) {
				id := c.exec()
				c.headers(id, "200", false)
				c.fr.WriteData(id, false, []byte(`{"id":`))
				c.fr.WriteRSTStream(id, http2.ErrCodeInternal)
				c.then()
			},
			want: wanted{resultLost, "", "unreadable", 1, 1},
		},
		{
			name: "2-16 executed and silent until the deadline", deadline: 100 * time.Millisecond,
			server: func(c *h2Conn) { c.exec(); c.untilGone() }, want: executed,
		},
		{
			name: "2-17 PROTOCOL_ERROR on every request",
			server: func(c *h2Conn) {
				for id := c.exec(); id != 0; id = c.exec() {
					c.fr.WriteRSTStream(id, http2.ErrCodeProtocol)
				}
			},
			want: executed,
		},
		{
			name: "2-18 REFUSED_STREAM on every request, reused connection", warm: true,
			server: func(c *h2Conn) {
				c.warm()
				for id := c.next(); id != 0; id = c.next() {
					c.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
				}
			},
			want: refused,
		},
		{
			name:   "C-02 plain 200 on HTTP/2",
			server: func(c *h2Conn) { c.answer(c.exec(), "200", "ok"); c.then() },
			want:   wanted{success, "", "status_table", 1, 1},
		},
		{
			name: "C-07 GOAWAY(NO_ERROR) below our stream", warm: true,
			server: func(c *h2Conn) { c.warm(); c.next(); c.fr.WriteGoAway(1, http2.ErrCodeNo, nil); c.then() },
			want:   unprocessed,
		},
		{
			name: "C-07 GOAWAY(ENHANCE_YOUR_CALM) below our stream", warm: true,
			server: func(c *h2Conn) { c.warm(); c.next(); c.fr.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, nil); c.then() },
			want:   unprocessed,
		},
		{
			name:   "C-08 GOAWAY(NO_ERROR, 0) on the first stream",
			server: func(c *h2Conn) { c.next(); c.fr.WriteGoAway(0, http2.ErrCodeNo, nil); c.then() },
			want:   unprocessed,
		},
		{
			name:   "C-08 GOAWAY(ENHANCE_YOUR_CALM, 0) on the first stream",
			server: func(c *h2Conn) { c.next(); c.fr.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil); c.then() },
			want:   unprocessed,
		},
		{
			name: "C-09 GOAWAY at our stream, then TCP close", warm: true,
			server: func(c *h2Conn) { c.warm(); c.fr.WriteGoAway(c.exec(), http2.ErrCodeNo, nil) }, want: executed,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t)
		})
	}
}

func (row http2Row) run(t *testing.T) {
	t.Helper()
	s := serveH2(t, row.server)
	tr := transport(t, &Options{TLS: trusting()})
	base := "https://" + s.addr()
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
}
