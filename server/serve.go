package server

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/pawl-dev/pawl/api"
)

// ErrNoTokens: an address that others can reach is not served without tokens.
var ErrNoTokens = errors.New("only a loopback address is served without tokens")

// limits bound what one connection may take. The API bounds bodies, and answers once they
// begin.
type limits struct {
	header, read, write, idle time.Duration
	headerBytes, connections  int
}

var defaultLimits = limits{
	header: 10 * time.Second, read: 30 * time.Second, write: api.MaxDeadline + time.Minute, idle: 2 * time.Minute,
	headerBytes: 32 << 10, connections: 1024,
}

// Listen opens a TCP address to serve. The error is ErrNoTokens where others could reach
// it and there are no tokens.
func (s *Server) Listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := s.mayServe(ln); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

func (s *Server) mayServe(ln net.Listener) error {
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() || s.tokens != nil {
		return nil
	}
	return fmt.Errorf("listen on %s: %w", ln.Addr(), ErrNoTokens)
}

// Serve starts to settle in the background and serves the HTTP API until ctx ends. Then it
// takes no new calls and makes no new sends; attempts that are out are waited for within
// Options.Grace, and what is left then is recorded as UNKNOWN. It closes the listener and
// returns when nothing runs any more; the store stays open until Close. It serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.mayServe(ln); err != nil {
		return errors.Join(err, ln.Close())
	}
	stopping := make(chan struct{})
	web := &http.Server{
		Handler:           s.handler(s.apiOptions(ln, stopping)),
		ReadHeaderTimeout: s.limits.header, ReadTimeout: s.limits.read, WriteTimeout: s.limits.write, IdleTimeout: s.limits.idle,
		MaxHeaderBytes: s.limits.headerBytes, DisableGeneralOptionsHandler: true,
		ErrorLog: log.New(Lines(s.log), "", 0),
	}
	s.Start()
	var background sync.WaitGroup
	defer background.Wait()
	following, unfollow := context.WithCancel(ctx)
	defer unfollow()
	background.Go(func() { s.feed.Follow(following, s.store) })
	if s.retains > 0 {
		retaining, stop := context.WithCancel(ctx)
		defer stop()
		background.Go(func() { s.retain(retaining) })
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(netutil.LimitListener(ln, s.limits.connections)) }()
	var err error
	select {
	case err = <-served:
		served <- http.ErrServerClosed
	case <-ctx.Done():
	}
	close(stopping)
	if s.gateway != nil {
		s.gateway.Stop()
	}
	err = errors.Join(err, s.drain(web))
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func (s *Server) apiOptions(ln net.Listener, stopping <-chan struct{}) *api.Options {
	o := &api.Options{AllowedHosts: slices.Clone(s.allowedHosts), Feed: s.feed, Metrics: s.metrics.Handler(), Stopping: stopping, Log: s.log}
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		o.AllowedHosts = append(o.AllowedHosts, tcp.IP.String())
	}
	if s.tokens != nil {
		o.Authenticate = s.tokens.authenticate
	}
	return o
}

// giveUp is the part of the grace that is kept to record what is given up and to answer
// for it.
const giveUp = 3 * time.Second

// drain ends the executor and the connections within the grace.
func (s *Server) drain(web *http.Server) error {
	whole, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	attempts, stop := context.WithTimeout(whole, s.grace-min(giveUp, s.grace/2))
	defer stop()
	closed := make(chan error, 1)
	go func() { closed <- web.Shutdown(whole) }()
	s.executor.Stop(attempts)
	err := <-closed
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("connections were cut at the end of the grace")
		return web.Close()
	}
	return err
}
