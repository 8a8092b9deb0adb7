// Package server builds a working pawl from a contract file: it reads the file, opens the
// store that the file names, makes an executor with the file's key secrets, registers the
// file's tools and serves the HTTP API. It is the only place that wires these parts together.
//
//	pawl.yaml ──▶ contract.File ──▶ tools ──▶ pawl.Executor ◀── store (sqlite, postgres)
//	tokens ──▶ api ──────────────────────────────▲
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/gateway"
	"github.com/pawl-dev/pawl/gateway/upstream"
	"github.com/pawl-dev/pawl/internal/crash"
	"github.com/pawl-dev/pawl/notify"
	"github.com/pawl-dev/pawl/postgres"
	"github.com/pawl-dev/pawl/sqlite"
	"github.com/pawl-dev/pawl/telemetry"
)

// Options of Open and OpenStore. Nil and zero fields mean the defaults.
type Options struct {
	// Config is the path of the contract file; default "pawl.yaml". Source is its text; nil
	// means that the file is read.
	Config string
	Source []byte
	// Store is the path of the SQLite file, or the postgres:// URL of the database; default
	// what the contract file says, and "pawl.db" beside it where it says nothing. A path in
	// the file is relative to it.
	Store string
	// SQLite and Postgres are how the store is opened; nil means the defaults. Postgres.Log
	// is by default the executor's.
	SQLite   *sqlite.Options
	Postgres *postgres.Options
	// Contract is how the contract file is read.
	Contract *contract.Options
	// Gateway is how the MCP gateway works, which is there where the file has MCP upstreams.
	// Servers may change those before anything else is done with them.
	Gateway *gateway.Options
	Servers func([]*contract.MCPServer) error
	// Executor is how calls are executed. Its Secrets are replaced by the file's. Its Log is
	// the server's too.
	Executor pawl.Options
	// Tokens is the path of the file of those who may use the API; see Grant. It is read
	// again when it changes. Without it the API serves loopback addresses alone, where it
	// asks for no token.
	Tokens string
	// AllowedHosts are names under which the API may be called beside the loopback
	// interface's and the listener's own address, without port.
	AllowedHosts []string
	// Retain is how long Serve keeps operations that are settled and not needed any more, at
	// least pawl.MinKeep; see pawl.Prune. Zero keeps them for ever.
	Retain time.Duration
	// Grace is how long Serve may take to end; default 20 s.
	Grace time.Duration
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Config == "" {
		d.Config = "pawl.yaml"
	}
	if d.Grace <= 0 {
		d.Grace = 20 * time.Second
	}
	if d.Executor.Log == nil {
		d.Executor.Log = slog.Default()
	}
	return d
}

// Server is an executor with its store, its tools and its doors.
type Server struct {
	file      *contract.File
	store     pawl.Store
	executor  *pawl.Executor
	upstreams *upstream.Set    // nil where the file has no MCP upstream
	gateway   *gateway.Gateway // likewise

	feed         *api.Feed
	metrics      *telemetry.Metrics
	export       *telemetry.Export // nil where no spans are asked for
	tokens       *tokens           // nil where none are asked for
	allowedHosts []string
	grace        time.Duration
	retains      time.Duration // zero: for ever
	limits       limits
	log          *slog.Logger

	notifier *notify.Notifier // nil where no operator is told

	closing sync.Once
	failed  error // of closing
}

// Open reads the contract file, opens the store and registers the tools. It starts
// nothing. A file that cannot be used is a *contract.InvalidError, a missing credential
// contract.ErrSecret, a store that cannot be used a *StoreError, which is ErrRecovery if it
// is not the one last used, and OTEL_* variables that cannot be met telemetry.ErrExport. Those
// variables alone say whether spans are exported.
func Open(ctx context.Context, o *Options) (_ *Server, err error) {
	opts := o.withDefaults()
	file, err := load(&opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	if err := file.CheckSecrets(); err != nil {
		return nil, fmt.Errorf("%s: %w", opts.Config, err)
	}
	if opts.Executor.Secrets, err = file.KeySecrets(); err != nil {
		return nil, fmt.Errorf("%s: %w", opts.Config, err)
	}
	s := &Server{
		file: file, feed: api.NewFeed(nil), metrics: telemetry.New(), allowedHosts: opts.AllowedHosts, grace: opts.Grace, retains: opts.Retain, limits: defaultLimits, log: opts.Executor.Log,
	}
	if err := s.openUpstreams(file, &opts); err != nil {
		return nil, fmt.Errorf("%s: %w", opts.Config, err)
	}
	tools, err := file.Tools()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opts.Config, err)
	}
	if opts.Tokens != "" {
		if s.tokens, err = openTokens(opts.Tokens, s.log); err != nil {
			return nil, err
		}
	}
	if s.export, err = telemetry.OpenExport(ctx, s.log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeExport(ctx))
		}
	}()
	store, err := openFor(ctx, file, &opts)
	if err != nil {
		return nil, err
	}
	opts.Executor.Restore = store.Restored()
	if err := s.openNotifier(file, store, &opts); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", opts.Config, err), store.Close())
	}
	s.store = crash.Store(store)
	opts.Executor.Observers = append(slices.Clone(opts.Executor.Observers), s.feed.Observer(), s.metrics.Observer())
	if s.export != nil {
		opts.Executor.Observers = append(opts.Executor.Observers, telemetry.Spans(s.export.Provider()))
	}
	s.executor = pawl.New(s.store, &opts.Executor)
	for i := range tools {
		tools[i].Port = crash.Port(tools[i].Port)
		if err := s.executor.Register(&tools[i]); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", opts.Config, err), s.store.Close())
		}
	}
	s.metrics.Observe(s.executor.Contracts(), s.store)
	if err := s.openGateway(ctx, &opts); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", opts.Config, err), s.store.Close())
	}
	return s, nil
}

// Executor is what calls go to.
func (s *Server) Executor() *pawl.Executor { return s.executor }

// Store is what the executor records in.
func (s *Server) Store() pawl.Store { return s.store }

// Start begins to settle in the background what calls leave open, and to tell an operator
// what waits for one.
func (s *Server) Start() {
	s.executor.Start()
	if s.notifier != nil {
		s.notifier.Start()
	}
}

// Close takes no new calls, waits for attempts that are out until ctx ends, closes the store,
// and takes a moment more to send the last spans. It may be called twice; the second call
// returns what the first did.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Do(func() {
		if s.gateway != nil {
			s.gateway.Stop()
		}
		s.executor.Stop(ctx)
		if s.notifier != nil {
			s.notifier.Stop()
		}
		if s.gateway != nil {
			s.upstreams.Close()
			s.gateway.Wait()
		}
		s.file.Close()
		s.failed = s.store.Close()
		if err := s.closeExport(ctx); err != nil {
			s.log.WarnContext(ctx, "spans are lost", slog.Any("error", err))
		}
	})
	return s.failed
}

// exportTime is how long the last spans may take to be sent.
const exportTime = 3 * time.Second

// closeExport sends the last spans, also where ctx has ended.
func (s *Server) closeExport(ctx context.Context) error {
	if s.export == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTime)
	defer cancel()
	return s.export.Close(ctx)
}
