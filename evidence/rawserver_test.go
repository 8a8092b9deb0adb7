package evidence

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counts is the server's own record of what happened, apart from what the client saw.
type counts struct {
	heads    atomic.Int64 // measured requests whose head arrived
	requests atomic.Int64 // measured requests that arrived whole
	effects  atomic.Int64
	body     atomic.Int64 // body bytes of measured requests that arrived
	keys     atomic.Int64 // measured requests that carried an Idempotency-Key
}

// rawServer speaks TCP by a script per connection, without any HTTP server in between.
type rawServer struct {
	counts
	listener net.Listener
	mu       sync.Mutex
	open     []net.Conn
	done     sync.WaitGroup
	over     chan struct{}
	end      func() // closes over
	seen     chan struct{}
	see      func() // closes seen: something of a measured request arrived
}

// rawConn is one accepted connection.
type rawConn struct {
	net.Conn
	*rawServer
	br *bufio.Reader
}

// serveRaw runs script on each accepted connection and closes it when the script returns.
func serveRaw(t *testing.T, script func(c *rawConn)) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, script)
}

// serveTLS is serveRaw under TLS, on HTTP/1.1.
func serveTLS(t *testing.T, config *tls.Config, script func(c *rawConn)) *rawServer {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, script)
}

func serveOn(t *testing.T, l net.Listener, script func(c *rawConn)) *rawServer {
	s := &rawServer{listener: l, over: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.over) })
	s.seen = make(chan struct{})
	s.see = sync.OnceFunc(func() { close(s.seen) })
	s.done.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open = append(s.open, nc)
			s.mu.Unlock()
			s.done.Go(func() {
				defer nc.Close()
				script(&rawConn{Conn: nc, rawServer: s, br: bufio.NewReader(nc)})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.end()
		s.mu.Lock()
		for _, c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		s.done.Wait()
	})
	return s
}

func (s *rawServer) addr() string { return s.listener.Addr().String() }

// settle stops accepting and waits until every script has returned: the counts are final.
// The client's connections must be closed before, or the scripts be done.
func (s *rawServer) settle() {
	s.listener.Close()
	s.end()
	s.done.Wait()
}

// park waits for the first byte and then does nothing, reading nothing, until the test is over.
func (c *rawConn) park() {
	c.br.Peek(1)
	c.see()
	<-c.over
}

// patience is for what should not take any time.
const patience = 20 * time.Second

// deadline is a context that ends d after the server saw something of the measured
// request, so that a slow machine cannot end the attempt before it began. 0 is patience.
func (s *rawServer) deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t, patience))
	if d == 0 {
		d = patience
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-s.seen:
		case <-ctx.Done():
		}
		select {
		case <-time.After(d):
			cancel()
		case <-ctx.Done():
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	return ctx
}

// head reads a request's head. It is nil when the client is gone.
func (c *rawConn) head() *http.Request {
	r, err := http.ReadRequest(c.br)
	if err != nil {
		return nil
	}
	if r.URL.Path != "/warm" {
		c.heads.Add(1)
		c.see()
		if r.Header.Get("Idempotency-Key") != "" {
			c.keys.Add(1)
		}
	}
	return r
}

// request reads a whole request. It is nil when the client is gone first.
func (c *rawConn) request() *http.Request {
	r := c.head()
	if r == nil {
		return nil
	}
	n, err := io.Copy(io.Discard, r.Body)
	if r.URL.Path != "/warm" {
		c.body.Add(n)
	}
	if err != nil {
		return nil
	}
	if r.URL.Path != "/warm" {
		c.requests.Add(1)
	}
	return r
}

// exec reads a whole request and has its effect.
func (c *rawConn) exec() bool {
	if c.request() == nil {
		return false
	}
	c.effects.Add(1)
	return true
}

// warm serves the warm-up request.
func (c *rawConn) warm() bool {
	if c.request() == nil {
		return false
	}
	c.say(okAnswer)
	return true
}

func (c *rawConn) say(text string) { io.WriteString(c.Conn, text) }

// untilGone takes what comes until the client is gone, and counts it as body bytes.
func (c *rawConn) untilGone() error {
	n, err := io.Copy(io.Discard, c.br)
	c.body.Add(n)
	return err
}

// reset closes with RST.
func (c *rawConn) reset() {
	c.Conn.(*net.TCPConn).SetLinger(0)
	c.Conn.Close()
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// errorAnswer is a refusal in the upstream's own shape.
func errorAnswer(statusLine, header string) string {
	const body = `{"error":"nope"}`
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", statusLine, len(body), header, body)
}
