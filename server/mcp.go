package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/gateway"
	"github.com/pawl-dev/pawl/gateway/upstream"
	"github.com/pawl-dev/pawl/gateway/wire"
)

// mcpPath is where MCP clients come to: every upstream there, and one of them at its name
// below.
const mcpPath = "/mcp"

// load reads the contract file.
func load(o *Options) (*contract.File, error) {
	if o.Source != nil {
		return contract.Parse(o.Config, o.Source, o.Contract)
	}
	return contract.Load(o.Config, o.Contract)
}

// openUpstreams prepares the file's MCP upstreams. None is started before it is called.
func (s *Server) openUpstreams(file *contract.File, o *Options) error {
	servers := file.MCPServers()
	if o.Servers != nil {
		if err := o.Servers(servers); err != nil {
			return err
		}
	}
	if len(servers) == 0 {
		return nil
	}
	var err error
	s.upstreams, err = upstream.Open(servers, &upstream.Options{
		Log:    s.log,
		Notify: func(n *upstream.Notice) { s.gateway.Notify(n) },
		Ask: func(ctx context.Context, _, session, method string, params json.RawMessage) (json.RawMessage, *wire.Error) {
			return s.gateway.Ask(ctx, session, method, params)
		},
	})
	if err != nil {
		return err
	}
	file.UseMCP(s.upstreams)
	return nil
}

// openGateway makes the door in front of them, once there is an executor.
func (s *Server) openGateway(ctx context.Context, o *Options) error {
	if s.upstreams == nil {
		return nil
	}
	var g gateway.Options
	if o.Gateway != nil {
		g = *o.Gateway
	}
	if g.Log == nil {
		g.Log = s.log
	}
	var err error
	s.gateway, err = gateway.New(ctx, s.executor, s.store, s.file, s.upstreams, &g)
	return err
}

// handler is the API and, where the file has MCP upstreams, the MCP gateway beside it.
func (s *Server) handler(o *api.Options) http.Handler {
	web := api.New(s.executor, s.store, o)
	if s.gateway == nil {
		return web
	}
	mcp := api.Guard(o, api.ScopeCall, func(w http.ResponseWriter, r *http.Request, who api.Principal) {
		name := strings.Trim(strings.TrimPrefix(r.URL.Path, mcpPath), "/")
		s.gateway.ServeHTTP(w, r, gateway.Principal{Tenant: who.Tenant, Actor: who.Actor}, name)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == mcpPath || strings.HasPrefix(r.URL.Path, mcpPath+"/") {
			mcp.ServeHTTP(w, r)
			return
		}
		web.ServeHTTP(w, r)
	})
}

// ServeStdio starts to settle in the background and serves one MCP client on a pair of pipes
// until the client closes its side or ctx ends. Then attempts that are out are waited for
// within Options.Grace, as by Serve.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	s.executor.Start()
	err := s.gateway.ServeStdio(ctx, in, out, gateway.Principal{})
	s.gateway.Stop()
	attempts, stop := context.WithTimeout(context.Background(), s.grace)
	defer stop()
	s.executor.Stop(attempts)
	return err
}
