package evidence

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/rule"
)

// Options of a Transport. Nil and zero fields mean the defaults.
type Options struct {
	// DialTimeout bounds everything up to a usable connection: DNS, TCP, the proxy, TLS.
	// It defaults to 10 s.
	DialTimeout time.Duration
	// UserTimeout is how long written bytes may stay unacknowledged before the kernel drops
	// them with the connection (TCP_USER_TIMEOUT). It defaults to 30 s. Other systems than
	// Linux ignore it: there the contract's flight must allow for their own limit.
	UserTimeout time.Duration
	// ContinueTimeout is how long a request with ExpectContinue waits before it sends its
	// body unasked. It defaults to 2 s.
	ContinueTimeout time.Duration
	// MaxRequest caps a request's body: 1 MiB. A larger one is refused before it is sent.
	MaxRequest int64
	// MaxResponse caps an answer's body: 4 MiB.
	MaxResponse int64
	// MaxHeader caps the headers, of a request (with its URL) and of an answer: 32 KiB.
	MaxHeader int64
	// TLS is cloned. The minimum version is 1.2, or higher if it says so.
	TLS *tls.Config
	// Proxy is the forward proxy: http, https or socks5. The environment's proxies are never used.
	Proxy *url.URL
	// DisableHTTP2 keeps https on HTTP/1.1. Otherwise ALPN decides.
	DisableHTTP2 bool
	// MaxIdlePerHost caps the idle connections to one host: 4; negative keeps none.
	MaxIdlePerHost int
	// IdleTimeout is how long an unused connection is kept. It defaults to 4 s, below the 5 s
	// after which common servers close theirs: a request that meets such a close can prove nothing.
	IdleTimeout time.Duration
	// Allow judges every resolved address at connect time, the proxy's where there is one.
	// An error keeps the connection from being made. Nil allows all.
	Allow func(netip.AddrPort) error
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	orDuration := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	orSize := func(v *int64, def int64) {
		if *v == 0 {
			*v = def
		}
	}
	orDuration(&d.DialTimeout, 10*time.Second)
	orDuration(&d.UserTimeout, 30*time.Second)
	orDuration(&d.ContinueTimeout, 2*time.Second)
	orDuration(&d.IdleTimeout, 4*time.Second)
	orSize(&d.MaxRequest, 1<<20)
	orSize(&d.MaxResponse, 4<<20)
	orSize(&d.MaxHeader, 32<<10)
	if d.MaxIdlePerHost == 0 {
		d.MaxIdlePerHost = 4
	}
	if d.TLS = d.TLS.Clone(); d.TLS == nil {
		d.TLS = &tls.Config{}
	}
	d.TLS.MinVersion = max(d.TLS.MinVersion, tls.VersionTLS12)
	return d
}

// Transport sends one request per attempt over connections of its own, each used by one
// attempt at a time. Its methods are safe for concurrent use.
type Transport struct {
	o      Options
	base   *http.Transport // makes connections; its own pool and loop are never used
	dialer net.Dialer
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	pool   pool
}

// New returns a Transport. Close ends it.
func New(o *Options) *Transport {
	t := &Transport{o: o.withDefaults()}
	t.pool.limit, t.pool.timeout = t.o.MaxIdlePerHost, t.o.IdleTimeout
	t.dialer.ControlContext = t.control
	t.dial = t.dialer.DialContext
	t.base = &http.Transport{
		DialContext:            t.dialWire,
		TLSClientConfig:        t.o.TLS,
		DisableCompression:     true,
		MaxResponseHeaderBytes: t.o.MaxHeader,
		ExpectContinueTimeout:  t.o.ContinueTimeout,
		Protocols:              new(http.Protocols),
		OnProxyConnectResponse: func(ctx context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
			dialingFrom(ctx).rec.connected(res.StatusCode)
			return nil
		},
	}
	t.base.Protocols.SetHTTP1(true)
	t.base.Protocols.SetHTTP2(!t.o.DisableHTTP2)
	if t.o.Proxy != nil {
		t.base.Proxy = http.ProxyURL(t.o.Proxy)
	}
	return t
}

// Close closes the idle connections, and those in use when their attempt is over. Later
// attempts find no connection.
func (t *Transport) Close() { t.pool.close() }

// Attempt puts at most one request on the wire and reports what was seen. It returns
// when the answer is complete or nothing more can come; when ctx ends it gives up and
// drops the connection with whatever the kernel still holds. No write begins after that.
func (t *Transport) Attempt(ctx context.Context, r *Request) *Observation {
	start := time.Now()
	rec := &recorder{}
	o := &Observation{BodySize: int64(len(r.Body))}
	t.exchange(ctx, r, rec, o)
	if o.Err != nil && !rule.Holds(rule.OneRequest) {
		t.exchange(ctx, r, rec, o)
	}
	if rule.Holds(rule.EchoesAreHidden) {
		secretsOf(r).hide(o)
	}
	o.Trace, o.Took = rec.list(), time.Since(start)
	return o
}

// Read is for requests without effect: probes, snapshots, reads. It takes the same way
// as an attempt. An error means that there is no whole answer; the part that was seen is
// returned with it for the record.
func (t *Transport) Read(ctx context.Context, r *Request) (*Response, error) {
	o := t.Attempt(ctx, r)
	err := o.Err
	if err == nil && o.Early {
		err = errEarly
	}
	if err == nil {
		err = o.Response.Intact()
	}
	if err != nil {
		return o.Response, fmt.Errorf("read by %s: %w", r.Method, err)
	}
	return o.Response, nil
}

// exchange sends the request once and fills in the observation.
func (t *Transport) exchange(ctx context.Context, r *Request, rec *recorder, o *Observation) {
	req, body, err := t.build(r)
	if err != nil {
		o.Err = err
		return
	}
	o.Proxied = t.forwarded(req.URL)
	c, err := t.take(ctx, req.URL, rec)
	if err != nil {
		o.Err = err
		return
	}
	t.send(ctx, c, req, body, r.Consume, rec, o)
}

// forwarded reports whether a request is handed to a proxy that reads it. Through a tunnel,
// of CONNECT or SOCKS, every answer is the origin's.
func (t *Transport) forwarded(u *url.URL) bool {
	p := t.o.Proxy
	return p != nil && u.Scheme == "http" && (p.Scheme == "http" || p.Scheme == "https")
}

// send uses the connection for the one request and gives it back, or closes it.
func (t *Transport) send(ctx context.Context, c *conn, req *http.Request, body *pulls, consume func(*Response, io.Reader), rec *recorder, o *Observation) {
	o.HadConnection, o.Peer = true, c.wire.RemoteAddr().String()
	c.wire.begin(ctx.Done())
	res, err := c.cc.RoundTrip(req.WithContext(rec.whileSending(ctx)))
	clean := false
	if err != nil {
		o.Err, o.Refused = err, refusalOf(err)
	} else {
		o.Response, clean = readResponse(res, t.o.MaxResponse, consume, c.close)
		c.http2 = res.ProtoMajor == 2
		clean = clean && c.settle(c.http2)
	}
	if clean {
		o.BytesBegun, o.Early = c.wire.finish(c.http2)
	} else {
		o.BytesBegun, o.Early = c.wire.seal()
	}
	o.BodyPulled = body.seal()
	if clean && !o.Early {
		t.pool.put(c)
		return
	}
	c.close()
	if res != nil {
		res.Body.Close() // after the connection: closing a body first may wait for a peer that does not read
	}
}

// control runs on each socket before it connects.
func (t *Transport) control(_ context.Context, _, address string, raw syscall.RawConn) error {
	if t.o.Allow != nil {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address to connect to: %w", err)
		}
		if err := t.o.Allow(to); err != nil {
			return err
		}
	}
	return setUserTimeout(raw, t.o.UserTimeout)
}
