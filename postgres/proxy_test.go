package postgres

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/pgtest"
)

// proxy stands between a store and its server and counts the messages of the protocol, so
// that a connection can be cut at any of them.
type proxy struct {
	listener net.Listener
	dir      string
	server   string // its socket

	mu     sync.Mutex
	cut    *cut
	closed bool
	conns  map[net.Conn]bool
	links  sync.WaitGroup
	gone   chan struct{}
}

// cut ends the connection that it happens on.
type cut struct {
	toServer bool // count messages to the server, or else those to the client
	after    int  // let so many pass
	// late: what was on its way to the server arrives there when the channel closes.
	late chan struct{}

	happened chan struct{}
	landed   chan struct{} // closed when what was late has arrived
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.1"))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, dir: dir, server: server, conns: map[net.Conn]bool{}, gone: make(chan struct{})}
	p.links.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		close(p.gone)
		p.down()
		p.links.Wait()
	})
	return p
}

// url leads to a database by way of the proxy.
func (p *proxy) url(database string) string {
	q := url.Values{"host": {p.dir}, "port": {"1"}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database, RawQuery: q.Encode()}
	return u.String()
}

// databaseOf is the name of the database in a URL.
func databaseOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path[1:]
}

// socketOf is the socket that a URL leads to.
func socketOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port"))
}

// proxied makes an empty database that is reached through a proxy.
func proxied(t *testing.T) (p *proxy, through, direct string) {
	t.Helper()
	direct = pgtest.Database(t)
	p = newProxy(t, socketOf(t, direct))
	return p, p.url(databaseOf(t, direct)), direct
}

// next cuts the next connection that carries messages.
func (p *proxy) next(c cut) *cut {
	c.happened, c.landed = make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = &c
	return p.cut
}

// off lets everything pass again.
func (p *proxy) off() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = nil
}

// down cuts every connection and takes no more; up takes them again.
func (p *proxy) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
}

// to leads what connects from now on to another server.
func (p *proxy) to(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

func (p *proxy) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		socket := p.server
		p.mu.Unlock()
		server, err := net.Dial("unix", socket)
		p.mu.Lock()
		refuse := p.closed || err != nil
		if !refuse {
			p.conns[client] = true
		}
		p.mu.Unlock()
		if refuse {
			client.Close()
			if server != nil {
				server.Close()
			}
			continue
		}
		l := &link{client, server, make(chan struct{})}
		p.links.Go(func() { p.forth(l) })
		p.links.Go(func() { p.back(l) })
	}
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn
	ended          chan struct{} // closed when the server has said all that it will say
}

// due reports whether the cut happens on a message.
func (p *proxy) due(toServer bool, kind byte, count *int) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cut
	if c == nil || c.toServer != toServer || kind == 'X' {
		return nil
	}
	if *count++; *count <= c.after {
		return nil
	}
	p.cut = nil
	if c.late == nil {
		close(c.happened)
	}
	return c
}

// forth hands messages to the server until the client ends or the cut happens.
func (p *proxy) forth(l *link) {
	defer l.client.Close()
	for count, typed := 0, false; ; typed = true { // what a client says first has no type
		m, err := message(l.client, typed)
		if err != nil {
			l.server.Close()
			return
		}
		switch c := p.due(true, m[0], &count); {
		case c != nil && c.late != nil:
			p.land(c, m, l)
			return
		case c != nil:
			l.server.Close()
			return
		}
		if _, err := l.server.Write(m); err != nil {
			return
		}
	}
}

// back hands messages to the client until the server ends or the cut happens, and reads on
// when the client has gone.
func (p *proxy) back(l *link) {
	defer close(l.ended)
	defer l.server.Close()
	defer l.client.Close()
	for count := 0; ; {
		m, err := message(l.server, true)
		if err != nil {
			return
		}
		if p.due(false, m[0], &count) != nil {
			return
		}
		l.client.Write(m)
	}
}

// land delivers what a client had sent, long after it was cut off.
func (p *proxy) land(c *cut, m []byte, l *link) {
	all := m
	for m[0] != 'S' {
		var err error
		if m, err = message(l.client, true); err != nil {
			break
		}
		all = append(all, m...)
	}
	l.client.Close()
	close(c.happened) // not earlier: everything that was sent is to land
	select {
	case <-c.late:
	case <-p.gone:
		l.server.Close()
		return
	}
	l.server.Write(append(all, 'X', 0, 0, 0, 4))
	<-l.ended
	close(c.landed)
}

// message reads one message.
func message(r io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 5)
	if !typed {
		head = head[:4]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
	if n < 0 || n > 64<<20 {
		return nil, errors.New("no message: " + strconv.Itoa(n))
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return append(head, body...), nil
}
