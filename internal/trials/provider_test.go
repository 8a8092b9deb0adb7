package trials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/sandbox"
)

// A provider is a sandbox behind a listener that can be taken away. In front of it a
// script can put answers that no sandbox gives by itself.
type provider struct {
	t       *testing.T
	box     *sandbox.Sandbox
	addr    string
	server  *http.Server
	served  chan struct{}
	handler http.Handler

	mu      sync.Mutex
	conns   map[net.Conn]http.ConnState
	replies []reply
	told    map[string]int // statuses of replies, by the request's seq
}

// A reply is what is answered in place of the sandbox's own words.
type reply struct {
	method, path string
	done         bool // the sandbox does the work
	status       int
	body         string
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	box, err := sandbox.Open(&sandbox.Options{NoDemo: true})
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, box: box, handler: box.Handler(), conns: map[net.Conn]http.ConnState{}, told: map[string]int{}}
	p.up("127.0.0.1:0")
	t.Cleanup(func() {
		box.Release(0)
		p.down()
		if err := box.Close(); err != nil {
			t.Errorf("close sandbox: %v", err)
		}
	})
	return p
}

func (p *provider) url() string { return "http://" + p.addr }

// up listens.
func (p *provider) up(addr string) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		p.t.Fatalf("listen again: %v", err)
	}
	p.addr = ln.Addr().String()
	p.server = &http.Server{Handler: p, ConnState: p.note, ErrorLog: nil}
	p.served = make(chan struct{})
	go func() {
		defer close(p.served)
		_ = p.server.Serve(ln)
	}()
}

// down stops listening and drops every connection.
func (p *provider) down() {
	if p.server == nil {
		return
	}
	_ = p.server.Close()
	<-p.served
	p.server = nil
}

func (p *provider) note(c net.Conn, s http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == http.StateClosed || s == http.StateHijacked {
		delete(p.conns, c)
		return
	}
	p.conns[c] = s
}

// dropIdle waits until nothing is worked on, ends the connections that clients keep for
// later, as a server does that restarts in good order, and waits until the clients have
// noticed.
func (p *provider) dropIdle() (int, error) {
	if err := poll(func() (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, s := range p.conns {
			if s == http.StateActive {
				return "a connection is in use", nil
			}
		}
		return "", nil
	}); err != nil {
		return 0, err
	}
	p.mu.Lock()
	var dropped []net.Conn
	for c, s := range p.conns {
		if s == http.StateIdle {
			dropped = append(dropped, c)
			_ = c.(*net.TCPConn).CloseWrite()
		}
	}
	p.mu.Unlock()
	return len(dropped), poll(func() (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range dropped {
			if _, open := p.conns[c]; open {
				return "a client keeps a connection that was closed", nil
			}
		}
		return "", nil
	})
}

// ServeHTTP has the sandbox answer, or gives the reply that is put in its place.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := p.take(r)
	if q == nil {
		p.handler.ServeHTTP(w, r)
		return
	}
	if !q.done {
		r.Header.Set("Pawl-Sandbox-Fault", "status 500 before") // it is recorded, and nothing is done
	}
	own := httptest.NewRecorder()
	p.handler.ServeHTTP(own, r)
	p.mu.Lock()
	p.told[own.Header().Get("Pawl-Sandbox-Request")] = q.status
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if q.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "3")
	}
	w.WriteHeader(q.status)
	_, _ = io.WriteString(w, q.body) // the client may have gone
}

// replied is the status of the reply to a request, or 0 where it was the sandbox's own.
func (p *provider) replied(seq int64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told[strconv.FormatInt(seq, 10)]
}

func (p *provider) take(r *http.Request) *reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, q := range p.replies {
		if q.method == r.Method && q.path == r.URL.Path {
			p.replies = append(p.replies[:i:i], p.replies[i+1:]...)
			return &q
		}
	}
	return nil
}

// send makes a request as somebody who knows nothing of pawl.
func (p *provider) send(method, path, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, p.url()+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Close = true
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	var v struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil {
		return 0, "", fmt.Errorf("answer of the provider: %w", err)
	}
	return res.StatusCode, v.ID, nil
}

// awaitHeld waits until that many requests are held.
func (p *provider) awaitHeld(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.box.AwaitHeld(ctx, n)
}

// awaitEffects waits until the ledger holds that many effects, landed or not.
func (p *provider) awaitEffects(n int) error {
	return poll(func() (string, error) {
		list, err := p.box.Effects(sandbox.Filter{Pending: true})
		if err != nil || len(list) >= n {
			return "", err
		}
		return fmt.Sprintf("there are %d effects, not %d", len(list), n), nil
	})
}

// awaitQuiet waits until no request is worked on.
func (p *provider) awaitQuiet() error {
	return poll(func() (string, error) {
		list, err := p.box.Requests(sandbox.Filter{})
		if err != nil {
			return "", err
		}
		for _, r := range list {
			if r.Answer == "" {
				return fmt.Sprintf("request %d is still worked on", r.Seq), nil
			}
		}
		return "", nil
	})
}

// poll waits until nothing is missing any more: neither ledger nor store has a signal.
func poll(missing func() (string, error)) error {
	for give := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		what, err := missing()
		if what == "" || err != nil {
			return err
		}
		if time.Now().After(give) {
			return errors.New(what)
		}
	}
}
