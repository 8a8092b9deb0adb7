package evidence

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/pawl-dev/pawl"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	zip := func() string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(make([]byte, 1<<20))
		z.Close()
		return b.String()
	}()
	repeat := func(c *rawConn, text string) {
		for {
			if _, err := c.Write([]byte(text)); err != nil {
				return
			}
		}
	}
	for _, row := range []http1Row{
		{
			name: "body larger than the limit", options: &Options{MaxResponse: 1000},
			server: func(c *rawConn) { c.exec(); c.say("HTTP/1.1 200 OK\r\n\r\n"); repeat(c, strings.Repeat("x", 4096)) },
			want:   wanted{resultLost, "", "unreadable", 1, 1},
			more: func(t *testing.T, o *Observation, _ *rawServer) {
				if r := o.Response; !r.Cut || len(r.Body) != 1000 || !errors.Is(r.Intact(), ErrResponseTooLarge) {
					t.Errorf("got %d bytes, cut %v, %v, want 1000, cut", len(r.Body), r.Cut, r.Intact())
				}
			},
		},
		{
			name: "endless headers",
			server: func(c *rawConn) {
				c.exec()
				c.say("HTTP/1.1 200 OK\r\n")
				repeat(c, "X: "+strings.Repeat("x", 1000)+"\r\n")
			},
			want: executed,
		},
		{
			name: "headers larger than the limit",
			server: func(c *rawConn) {
				c.exec()
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\nok")
				c.untilGone()
			},
			want: executed,
		},
		{
			name:   "endless informational answers",
			server: func(c *rawConn) { c.exec(); repeat(c, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n") },
			want:   executed,
		},
		{
			name: "answer byte by byte without end", deadline: 100 * time.Millisecond,
			server: func(c *rawConn) {
				c.exec()
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
				for {
					if _, err := c.Write([]byte("x")); err != nil {
						return
					}
					select {
					case <-c.over:
						return
					case <-time.After(5 * time.Millisecond):
					}
				}
			},
			want: wanted{resultLost, "", "unreadable", 1, 1},
		},
		{
			name: "encoding that nobody asked for",
			server: func(c *rawConn) {
				r := c.request()
				c.effects.Add(1)
				if r.Header.Get("Accept-Encoding") != "" {
					t.Errorf("accept-encoding: got %q, want none", r.Header.Get("Accept-Encoding"))
				}
				c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(zip), zip))
			},
			want: wanted{resultLost, "", "unreadable", 1, 1},
			more: func(t *testing.T, o *Observation, _ *rawServer) {
				if r := o.Response; len(r.Body) != len(zip) || !errors.Is(r.Intact(), ErrEncoded) {
					t.Errorf("got %d bytes and %v, want the %d encoded ones and ErrEncoded", len(r.Body), r.Intact(), len(zip))
				}
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t)
		})
	}
}

func TestLimitOfHeadersOnHTTP2(t *testing.T) {
	t.Parallel()
	http2Row{
		server: func(c *h2Conn) {
			id := c.exec()
			c.hbuf.Reset()
			c.enc.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			for i := range 5 {
				c.enc.WriteField(hpack.HeaderField{Name: fmt.Sprint("x-", i), Value: strings.Repeat("x", 8<<10)})
			}
			block := c.hbuf.Bytes()
			c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:16<<10], EndStream: true})
			for rest := block[16<<10:]; len(rest) > 0; {
				n := min(len(rest), 16<<10)
				c.fr.WriteContinuation(id, n == len(rest), rest[:n])
				rest = rest[n:]
			}
			c.then()
		},
		want: executed,
	}.run(t)
}

func TestRequestRefusedLocally(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echoing)
	tr := transport(t, &Options{MaxRequest: 100})
	base := "http://" + s.addr()
	const secret = "s3cr3t"
	for name, row := range map[string]struct {
		change func(r *Request)
		want   error
	}{
		"body too large":    {func(r *Request) { r.Body = make([]byte, 101) }, ErrRequestTooLarge},
		"headers too large": {func(r *Request) { r.Header.Set("X", strings.Repeat("x", 33<<10)) }, ErrRequestTooLarge},
		"url too large":     {func(r *Request) { r.URL += "?" + strings.Repeat("x", 33<<10) }, ErrRequestTooLarge},
		"no method":         {func(r *Request) { r.Method = "" }, ErrInvalidRequest},
		"connect":           {func(r *Request) { r.Method = "CONNECT" }, ErrInvalidRequest},
		"scheme":            {func(r *Request) { r.URL = "file:///etc/passwd?" + secret }, ErrInvalidRequest},
		"no host":           {func(r *Request) { r.URL = "http:///pay?" + secret }, ErrInvalidRequest},
		"relative":          {func(r *Request) { r.URL = "/pay?" + secret }, ErrInvalidRequest},
		"user information":  {func(r *Request) { r.URL = "http://ana:" + secret + "@" + s.addr() }, ErrInvalidRequest},
		"does not parse":    {func(r *Request) { r.URL = "http://" + s.addr() + "/%zz?" + secret }, ErrInvalidRequest},
		"host not ASCII":    {func(r *Request) { r.URL = "http://café.example/?" + secret }, ErrInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r := post(base)
			row.change(r)
			o := tr.Attempt(within(t, patience), r)
			if !errors.Is(o.Err, row.want) {
				t.Errorf("got %v, want %v", o.Err, row.want)
			}
			if o.Err != nil && strings.Contains(o.Err.Error(), secret) {
				t.Errorf("error repeats the url: %v", o.Err)
			}
			check(t, o, nil, &s.counts, wanted{notSent, pawl.P1, "no_connection", 0, 0})
		})
	}
}

func TestHeadersOfTheConnectionAreOurs(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	s := serveRaw(t, func(c *rawConn) {
		r := c.head()
		seen <- fmt.Sprint(r.Host, " ", r.ContentLength, " ", r.TransferEncoding, " ", r.Header)
		c.say(okAnswer)
	})
	tr := transport(t, nil)
	r := post("http://" + s.addr())
	for _, name := range []string{"connection", "Content-Length", "Expect", "Host", "Transfer-Encoding", "Upgrade", "Te"} {
		r.Header[name] = []string{"1"}
	}
	r.Header.Set("X-Kept", "1")
	tr.Attempt(within(t, patience), r)
	want := s.addr() + " 28 [] map[Content-Length:[28] Content-Type:[application/json] User-Agent:[Go-http-client/1.1] X-Kept:[1]]"
	if got := <-seen; got != strings.ReplaceAll(want, "28", fmt.Sprint(len(payment))) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAllowJudgesTheResolvedAddress(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echoing)
	_, port, _ := net.SplitHostPort(s.addr())
	loopback := netip.MustParseAddr("127.0.0.1")
	errNo := errors.New("not allowed")
	for name, row := range map[string]struct {
		host string
		want bool
	}{
		"a public name that resolves to loopback": {"public.example", true},
		"the address itself":                      {"127.0.0.1", true},
		"the address mapped into IPv6":            {"[::ffff:127.0.0.1]", true},
	} {
		t.Run(name, func(t *testing.T) {
			var judged []netip.AddrPort
			tr := transport(t, &Options{Allow: func(a netip.AddrPort) error {
				judged = append(judged, a)
				return errNo
			}})
			tr.dialer.Resolver = resolver(t, &loopback)
			o := tr.Attempt(within(t, patience), post("http://"+row.host+":"+port))
			check(t, o, nil, &s.counts, wanted{notSent, pawl.P1, "no_connection", 0, 0})
			if !errors.Is(o.Err, errNo) {
				t.Errorf("got %v, want the hook's error", o.Err)
			}
			if len(judged) == 0 || judged[0].Addr() != loopback {
				t.Errorf("judged: got %v, want 127.0.0.1", judged)
			}
		})
	}
}

func TestPublicOnly(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.0.1", "168.63.129.16", "169.254.169.254",
		"172.16.0.1", "192.0.0.8", "192.168.1.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2001::1", "2001:db8::1",
		"2002:7f00:1::", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
	} {
		if PublicOnly(netip.AddrPortFrom(netip.MustParseAddr(s), 443)) == nil {
			t.Errorf("%s: got allowed, want refused", s)
		}
	}
	for _, s := range []string{"1.1.1.1", "93.184.216.34", "::ffff:1.1.1.1", "2606:4700:4700::1111"} {
		if err := PublicOnly(netip.AddrPortFrom(netip.MustParseAddr(s), 443)); err != nil {
			t.Errorf("%s: got %v, want allowed", s, err)
		}
	}
}

// Not parallel: it sets the environment.
func TestEnvironmentProxyIsIgnored(t *testing.T) {
	proxy := serveRaw(t, echoing)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://"+proxy.addr())
	}
	tr := transport(t, nil)
	dialed := make(chan string, 1)
	tr.dial = func(_ context.Context, _, address string) (net.Conn, error) {
		dialed <- address
		return nil, errors.New("no")
	}
	tr.Attempt(within(t, patience), post("http://upstream.example"))
	if got := <-dialed; got != "upstream.example:80" {
		t.Errorf("dialed: got %s, want upstream.example:80", got)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answer string
		whole  bool
	}{
		"whole":     {okAnswer, true},
		"not found": {errorAnswer("404 Not Found", ""), true},
		"cut":       {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[]", false},
		"none":      {"", false},
		"encoded":   {"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n[]", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t, func(c *rawConn) { c.request(); c.say(row.answer) })
			tr := transport(t, nil)
			res, err := tr.Read(within(t, patience), &Request{Method: "GET", URL: "http://" + s.addr() + "/x"})
			if (err == nil) != row.whole {
				t.Errorf("got %v, want whole %v", err, row.whole)
			}
			if err == nil && res == nil {
				t.Errorf("got neither answer nor error")
			}
		})
	}
}
