package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
)

// provider answers every request at once: a POST as the tool would, any other as an empty
// list. It speaks HTTP/1.1 with kept connections and does no more, to cost little.
type provider struct {
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool

	// asked, unless nil, is called for each request before it is answered.
	asked func(r *http.Request)
}

func newProvider(asked func(r *http.Request)) (*provider, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{listener: ln, conns: make(map[net.Conn]bool), asked: asked}
	p.work.Go(p.accept)
	return p, nil
}

func (p *provider) url() string { return "http://" + p.listener.Addr().String() }

func (p *provider) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
		p.work.Go(func() {
			p.serve(c)
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		})
	}
}

func answerBytes(body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

var (
	answerCharge = answerBytes(toolResult)
	answerList   = answerBytes(`{"data":[],"has_more":false}`)
)

func (p *provider) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if p.asked != nil {
			p.asked(r)
		}
		answer := answerList
		if r.Method == http.MethodPost {
			answer = answerCharge
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// close cuts all connections and returns when nothing runs any more.
func (p *provider) close() error {
	err := p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
	return err
}

// serveProvider is the command "bench provider": it writes its URL and runs until its
// input ends.
func serveProvider() error {
	p, err := newProvider(nil)
	if err != nil {
		return err
	}
	fmt.Println(p.url())
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, p.close())
}

// providerCalls are POSTs to the provider and nothing else: what a tool behind HTTP costs
// before pawl does anything.
type providerCalls struct{ clients []*client }

func openProviderCalls(ctx context.Context, o *order) (contestant, error) {
	p := &providerCalls{}
	for range o.Callers {
		c, err := dial(ctx, strings.TrimPrefix(o.Provider, "http://"))
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.clients = append(p.clients, c)
	}
	return p, nil
}

func (p *providerCalls) call(_ context.Context, caller int, j *job) error {
	_, err := p.clients[caller].post("/v1/charges", j.args)
	return err
}

func (p *providerCalls) team() team { return team{} }

func (p *providerCalls) close() error { return closeClients(p.clients) }
