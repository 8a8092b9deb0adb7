package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// handler routes requests to the services and to /admin.
type handler struct {
	s    *Sandbox
	mux  *http.ServeMux
	stop <-chan struct{}
}

// Handler serves the services and /admin. Faults that break connections need a server
// that lets a handler take over its connections, as net/http does for HTTP/1.1.
func (s *Sandbox) Handler() http.Handler { return s.handler(nil) }

// handler also ends waits when stop closes.
func (s *Sandbox) handler(stop <-chan struct{}) *handler {
	h := &handler{s: s, mux: http.NewServeMux(), stop: stop}
	at := map[string][]*endpoint{}
	for _, ep := range endpoints() {
		at[ep.pattern()] = append(at[ep.pattern()], &ep)
	}
	for pattern, eps := range at {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.exchange(asked(eps, r), w, r) })
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { h.exchange(nil, w, r) })
	h.mux.Handle("/admin/", s.admin())
	return h
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.s.begin() {
		panic(http.ErrAbortHandler)
	}
	defer h.s.working.Done()
	h.mux.ServeHTTP(w, r)
}

// asked is the endpoint that a request is for, or nil.
func asked(eps []*endpoint, r *http.Request) *endpoint {
	var body []byte
	for _, ep := range eps {
		if ep.asks == nil {
			return ep
		}
		if body == nil {
			body = peek(r)
		}
		if ep.asks(r, body) {
			return ep
		}
	}
	return nil
}

func (h *handler) exchange(ep *endpoint, w http.ResponseWriter, r *http.Request) {
	x := &exchange{s: h.s, stop: h.stop, w: w, r: r, ep: ep}
	switch err := x.serve(); {
	case errors.Is(err, errStopped):
		panic(http.ErrAbortHandler)
	case err != nil:
		h.s.log.Error("ledger failed", slog.Int64("request", x.seq), slog.String("method", r.Method),
			slog.String("path", r.URL.Path), slog.Any("error", err))
		p := &problem{Status: 500, Code: "ledger_failed", Message: "the sandbox's ledger failed; its log says why"}
		a := p.answer()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body) // the client may have gone
	}
}

// grace is how long Serve waits for answers that are being written when it ends.
const grace = 5 * time.Second

// Serve answers on the listener until ctx ends or the sandbox closes, and then returns
// nil; held and delayed requests are dropped at that moment, with their work done or not
// as far as they had come. It closes the listener.
func (s *Sandbox) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	srv := &http.Server{
		Handler:           s.handler(ctx.Done()),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve sandbox: %w", err)
	case <-ctx.Done():
	case <-s.closed:
	}
	cancel()
	ending, stop := context.WithTimeout(context.Background(), grace)
	defer stop()
	if err := srv.Shutdown(ending); err != nil {
		_ = srv.Close() // what is left is cut off
	}
	<-served
	return nil
}
