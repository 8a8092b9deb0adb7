package retail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Options of New. Nil and zero fields mean the defaults.
type Options struct {
	// Flight is the age at which a request is refused; default 2 s, as Contract declares it.
	Flight time.Duration
	// Faults says what goes wrong with a request; nil means nothing. It is called
	// concurrently.
	Faults func(Arrival) Fault
}

// Provider serves copies of the shop over HTTP.
type Provider struct {
	data *Data
	opts Options
	mux  *http.ServeMux

	mu      sync.Mutex
	shops   map[string]*Shop
	closing chan struct{} // closed when Serve ends: nobody waits any longer
}

// New returns a provider without any shop.
func New(data *Data, o *Options) *Provider {
	p := &Provider{data: data, mux: http.NewServeMux(), shops: map[string]*Shop{}, closing: make(chan struct{})}
	if o != nil {
		p.opts = *o
	}
	if p.opts.Flight <= 0 {
		p.opts.Flight = 2 * time.Second
	}
	for _, r := range routes {
		p.mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { p.serve(w, req, r) })
	}
	return p
}

// route is one method and path of the shop; tool is empty for a read.
type route struct{ pattern, tool string }

var routes = []route{
	{"GET /{tenant}/orders/{order}", ""},
	{"GET /{tenant}/users/{user}", ""},
	{"POST /{tenant}/orders/{order}/cancel", Cancel},
	{"PUT /{tenant}/orders/{order}/address", OrderAddress},
	{"POST /{tenant}/orders/{order}/items", OrderItems},
	{"POST /{tenant}/orders/{order}/payment", OrderPayment},
	{"POST /{tenant}/orders/{order}/return", Return},
	{"POST /{tenant}/orders/{order}/exchange", Exchange},
	{"PUT /{tenant}/users/{user}/address", UserAddress},
}

// Open gives a tenant a fresh copy of the shop.
func (p *Provider) Open(tenant string) *Shop {
	s := p.data.Open()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shops[tenant] = s
	return s
}

// Close takes a tenant's shop away.
func (p *Provider) Close(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.shops, tenant)
}

func (p *Provider) shop(tenant string) *Shop {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shops[tenant]
}

type connKey struct{}

// endTime bounds how long requests are waited for at the end.
const endTime = 5 * time.Second

// Serve answers requests on a listener, which it closes, until ctx ends and the requests
// under way have been carried out. It serves once.
func (p *Provider) Serve(ctx context.Context, ln net.Listener) error {
	web := &http.Server{
		Handler: p.mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog:    log.New(io.Discard, "", 0), // clients that are killed are nothing to report
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(ln) }()
	var err error
	select {
	case err = <-served:
		return fmt.Errorf("serve the shop: %w", err)
	case <-ctx.Done():
	}
	close(p.closing)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err = web.Shutdown(ending); err != nil {
		err = errors.Join(fmt.Errorf("serve the shop: %w", err), web.Close())
	}
	<-served
	return err
}

// exchange is one request and its answer.
type exchange struct {
	p       *Provider
	w       http.ResponseWriter
	r       *http.Request
	shop    *Shop
	write   Write
	fault   Fault
	written time.Time
}

// maxBody bounds a request's body.
const maxBody = 64 << 10

func (p *Provider) serve(w http.ResponseWriter, r *http.Request, to route) {
	x := &exchange{p: p, w: w, r: r, written: time.Now(), write: Write{Tool: to.tool}}
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		x.written = written(c)
	}
	tenant := r.PathValue("tenant")
	if x.shop = p.shop(tenant); x.shop == nil {
		x.refuse(&Refusal{404, "unknown_tenant", "there is no such shop"})
		return
	}
	kind := r.Method + " " + r.URL.Path[1+len(tenant):]
	n := x.shop.arrive(kind)
	if to.tool != "" {
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&x.write.Args); err != nil {
			x.shop.leave()
			x.refuse(&Refusal{422, "invalid_body", "the body is not what the tool takes"})
			return
		}
		x.write.Args.OrderID, x.write.Args.UserID = r.PathValue("order"), r.PathValue("user")
	}
	if p.opts.Faults != nil {
		x.fault = p.opts.Faults(Arrival{Tenant: tenant, Kind: kind, N: n, Write: to.tool != "", Converges: Converges(to.tool)})
	}
	x.run()
}

// run does the work, where and when the fault lets it, and answers.
func (x *exchange) run() {
	if x.fault.Lost {
		x.shop.leave()
		x.answer(0, nil)
		return
	}
	status, body := x.outcome()
	x.sleep(x.fault.Delay)
	x.answer(status, body)
}

// outcome does the work and gives the shop's answer. The request is no longer under way
// then.
func (x *exchange) outcome() (int, []byte) {
	defer x.shop.leave()
	x.sleep(time.Until(x.written.Add(x.fault.Lands)))
	body, err := x.work()
	if x.fault.Twice && err == nil {
		body, err = x.work()
	}
	var no *Refusal
	switch {
	case errors.As(err, &no):
		return no.Status, no.body()
	case err != nil:
		return http.StatusInternalServerError, nil
	}
	return http.StatusOK, body
}

func (x *exchange) work() (json.RawMessage, error) {
	if x.write.Tool != "" {
		return x.shop.do(x.write, x.written.Add(x.p.opts.Flight))
	}
	body := x.shop.User(x.r.PathValue("user"))
	if id := x.r.PathValue("order"); id != "" {
		body = x.shop.Order(id)
	}
	if body == nil {
		return nil, refuse(404, "not_found", "there is no such thing here")
	}
	return body, nil
}

// sleep waits, unless the provider ends. The client's going away does not end it: what it
// sent arrives all the same.
func (x *exchange) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.p.closing:
	}
}

// body is a refusal as the shop writes it.
func (r *Refusal) body() []byte {
	b, _ := json.Marshal(map[string]any{"error": map[string]string{"code": r.Code, "message": r.Message}}) // plain data
	return b
}

func (x *exchange) refuse(r *Refusal) { x.send(r.Status, "application/json", r.body(), -1) }

// answer puts the shop's answer, or what the fault makes of it, on the wire. A lost request
// has status 0.
func (x *exchange) answer(status int, body []byte) {
	switch x.fault.Answer {
	case AnswerReset:
		x.drop(true)
	case AnswerClosed:
		x.drop(false)
	case AnswerFailed:
		x.refuse(&Refusal{500, "internal", "the shop failed"})
	case AnswerPage:
		x.send(http.StatusBadGateway, "text/html; charset=utf-8", []byte("<html><body><h1>502 Bad Gateway</h1></body></html>\n"), -1)
	case AnswerBusy:
		x.refuse(&Refusal{429, "busy", "the shop has too much to do and did nothing"})
	case AnswerCut:
		x.send(status, "application/json", body, len(body)/2)
	case AnswerWhole:
		if status != 0 {
			x.send(status, "application/json", body, -1)
			return
		}
		fallthrough
	default:
		x.hang()
	}
}

// send writes an answer, or only its first bytes if there is a number of them.
func (x *exchange) send(status int, media string, body []byte, only int) {
	h := x.w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	if only < 0 {
		_, _ = x.w.Write(body) // the client may have gone
		return
	}
	_, _ = x.w.Write(body[:only])
	_ = http.NewResponseController(x.w).Flush()
	panic(http.ErrAbortHandler)
}

// drop ends the connection without an answer, with or without a reset.
func (x *exchange) drop(reset bool) {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// hang answers nothing for as long as the client waits.
func (x *exchange) hang() {
	select {
	case <-x.r.Context().Done():
	case <-x.p.closing:
	}
	panic(http.ErrAbortHandler)
}
