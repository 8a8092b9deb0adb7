package evidence

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

var (
	errClosed = errors.New("transport is closed")
	errEarly  = errors.New("answer began before the request")
)

// conn is one connection with what is counted on it.
type conn struct {
	cc    *http.ClientConn
	wire  *wire
	host  string
	http2 bool        // its answers were of HTTP/2
	timer *time.Timer // closes it when idle for too long
}

// take hands over a connection for exclusive use: an idle one that is known to be sound,
// or a new one.
func (t *Transport) take(ctx context.Context, u *url.URL, rec *recorder) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	to := address(u)
	host := u.Scheme + "://" + to
	c, err := t.pool.get(host)
	if err != nil {
		return nil, err
	}
	if c != nil {
		rec.add("reused")
		return c, nil
	}
	if p := t.o.Proxy; p != nil {
		switch p.Scheme {
		case "http", "https", "socks5", "socks5h":
		default:
			return nil, fmt.Errorf("proxy: scheme %q is none of http, https, socks5", p.Scheme)
		}
	}
	d := &dialing{rec: rec, quiet: -1}
	if u.Scheme == "http" && (t.o.Proxy == nil || t.o.Proxy.Scheme == "http") {
		d.quiet = 0
	}
	dctx, cancel := context.WithTimeout(context.WithValue(ctx, dialingKey{}, d), t.o.DialTimeout)
	defer cancel()
	cc, err := t.base.NewClientConn(rec.whileDialing(dctx), u.Scheme, to)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c = &conn{cc: cc, wire: d.wire, host: host}
	cc.SetStateHook(func(*http.ClientConn) { c.wire.signal() })
	return c, nil
}

// dialing carries what belongs to one connection that is being made.
type dialing struct {
	rec   *recorder
	wire  *wire
	quiet int64
}

type dialingKey struct{}

func dialingFrom(ctx context.Context) *dialing { return ctx.Value(dialingKey{}).(*dialing) }

func (t *Transport) dialWire(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := t.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d := dialingFrom(ctx)
	d.wire = newWire(c, d.quiet)
	return d.wire, nil
}

// usable reports whether the connection can take a request at once.
func (c *conn) usable() bool {
	return c.cc.Err() == nil && c.cc.Available() > 0 && c.cc.InFlight() == 0
}

// settleTime bounds the wait for a connection to come to rest after a whole answer.
const settleTime = 200 * time.Millisecond

// settle waits until nothing of the finished exchange is left: its stream is cleaned up,
// and on HTTP/1.1 the reader has found nothing behind the answer.
func (c *conn) settle(http2 bool) bool {
	atRest := func() bool { return c.usable() && (http2 || c.wire.atRest()) }
	if atRest() {
		return true
	}
	// The signal is the quick way. It can be missed: net/http calls its hook once for
	// changes that overlap.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); c.cc.Err() == nil && time.Since(start) < settleTime; {
		select {
		case <-c.wire.changed:
		case <-tick.C:
		}
		if atRest() {
			return true
		}
	}
	return false
}

func (c *conn) close() { c.cc.Close() }

// pool keeps idle connections, the last used first.
type pool struct {
	limit   int
	timeout time.Duration

	mu     sync.Mutex
	idle   map[string][]*conn
	closed bool
}

// get returns a sound idle connection, or nil.
func (p *pool) get(host string) (*conn, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, errClosed
		}
		list := p.idle[host]
		if len(list) == 0 {
			p.mu.Unlock()
			return nil, nil
		}
		c := list[len(list)-1]
		p.setLocked(host, list[:len(list)-1])
		p.mu.Unlock()
		c.timer.Stop()
		if c.usable() && !c.wire.ended(c.http2) {
			return c, nil
		}
		c.close()
	}
}

// put keeps a connection for later, or closes it.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	list := p.idle[c.host]
	keep := !p.closed && len(list) < p.limit
	if keep {
		if p.idle == nil {
			p.idle = map[string][]*conn{}
		}
		p.idle[c.host] = append(list, c)
		c.timer = time.AfterFunc(p.timeout, func() { p.expire(c) })
	}
	p.mu.Unlock()
	if !keep {
		c.close()
	}
}

// expire closes a connection if it is still idle.
func (p *pool) expire(c *conn) {
	p.mu.Lock()
	found := false
	list := p.idle[c.host]
	for i, other := range list {
		if other == c {
			found = true
			p.setLocked(c.host, append(list[:i:i], list[i+1:]...))
			break
		}
	}
	p.mu.Unlock()
	if found {
		c.close()
	}
}

func (p *pool) setLocked(host string, list []*conn) {
	if len(list) == 0 {
		delete(p.idle, host)
		return
	}
	p.idle[host] = list
}

func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, list := range idle {
		for _, c := range list {
			c.timer.Stop()
			c.close()
		}
	}
}
