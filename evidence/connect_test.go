package evidence

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

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
			ctx := within(t, patience)
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
		o := tr.Attempt(within(t, patience), post("http://no-such-host.invalid"))
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
		o := tr.Attempt(within(t, patience), post("https://"+s.addr()))
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
			o := tr.Attempt(within(t, patience), post(row.target))
			tr.Close()
			s.settle()
			check(t, o, nil, &s.counts, row.want)
			if !slices.Contains(o.Trace, row.trace) {
				t.Errorf("trace: got %v, want %s in it", o.Trace, row.trace)
			}
		})
	}
}

// Through a tunnel a 407 is the origin's, which may have acted.
func TestHTTP1TunnelledOriginAsksForProxyCredentials(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
	for _, row := range []struct {
		scheme, proxy string
		tunnel        func(c *rawConn) *rawConn
	}{
		{"https", "http", func(c *rawConn) *rawConn {
			if _, err := http.ReadRequest(c.br); err != nil {
				return c
			}
			c.say("HTTP/1.1 200 OK\r\n\r\n")
			under := tls.Server(c.Conn, serverTLS())
			return &rawConn{Conn: under, rawServer: c.rawServer, br: bufio.NewReader(under)}
		}},
		{"http", "socks5", func(c *rawConn) *rawConn {
			c.br.Discard(3) // version and methods
			c.say("\x05\x00")
			c.br.Discard(10) // connect to an IPv4 address
			c.say("\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
			return c
		}},
	} {
		t.Run(row.scheme+" by "+row.proxy, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t, func(c *rawConn) {
				if c = row.tunnel(c); c.exec() {
					c.say(answer)
				}
			})
			tr := transport(t, &Options{Proxy: &url.URL{Scheme: row.proxy, Host: s.addr()}, TLS: trusting(), DisableHTTP2: true})
			o := tr.Attempt(within(t, patience), post(row.scheme+"://127.0.0.1:1"))
			tr.Close()
			s.settle()
			check(t, o, nil, &s.counts, wanted{unclear, "", "status_table", 1, 1})
		})
	}
}
