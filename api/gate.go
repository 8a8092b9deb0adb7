package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// gate is the only way to a handler: it refuses to register a route that does not say who
// may use it, and lets nobody else through. It is the adapter between huma and the
// standard mux.
type gate struct {
	opts    *Options
	mux     http.ServeMux
	schemas huma.Registry

	requests *room // that are worked on
	large    *room // of them, those with a large body
}

func newGate(o *Options, schemas huma.Registry) *gate {
	return &gate{opts: o, schemas: schemas, requests: newRoom(o.PerTenant, 0), large: newRoom(largePerTenant, largeMost)}
}

var _ huma.Adapter = (*gate)(nil)

// route is what the gate must know of a route.
type route struct {
	who access
	// body is what the body must be; nil means that there is none.
	body *huma.Schema
	// stream: it may last for ever, and is bounded by who serves it.
	stream bool
}

// routeKey is where an operation's route is in its metadata.
const routeKey = "route"

// Handle registers an operation of huma's. It panics where the operation says nothing of
// who may use it: nothing may be served that nobody thought about.
func (g *gate) Handle(op *huma.Operation, next func(huma.Context)) {
	rt, ok := op.Metadata[routeKey].(route)
	if !ok {
		panic(fmt.Sprintf("api: %s %s does not say who may use it", op.Method, op.Path))
	}
	if op.RequestBody != nil {
		rt.body = op.RequestBody.Content["application/json"].Schema
	}
	g.handle(op.Method+" "+op.Path, rt, func(w http.ResponseWriter, r *http.Request) {
		next(humago.NewContext(op, r, w))
	})
}

func (g *gate) handle(pattern string, rt route, next http.HandlerFunc) {
	switch rt.who {
	case anyone, anyToken, forCall, forRead, forSettle:
	default:
		panic(fmt.Sprintf("api: %s does not say who may use it", pattern))
	}
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		s, p := g.admit(&rt, r)
		if p != nil {
			write(w, p)
			return
		}
		if !rt.stream && rt.who != anyone {
			if !g.requests.enter(s.Tenant) {
				write(w, problem(http.StatusTooManyRequests, CodeTooMany, "%d requests of this tenant are worked on already; nothing was done for this one", g.opts.PerTenant))
				return
			}
			defer g.requests.leave(s.Tenant)
		}
		body, p := g.body(&rt, s, r)
		if s.large {
			defer g.large.leave(s.Tenant)
		}
		if p != nil {
			write(w, p)
			return
		}
		r = r.WithContext(withSession(r.Context(), s))
		r.Body = io.NopCloser(bytes.NewReader(body))
		next(w, r)
	})
}

// ServeHTTP serves the routes, and problems where there is none.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := g.mux.Handler(r); pattern != "" {
		g.mux.ServeHTTP(w, r)
		return
	}
	var miss silent
	g.mux.ServeHTTP(&miss, r)
	if miss.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", miss.Header().Get("Allow"))
		write(w, problem(miss.status, CodeMethodNotAllowed, "this path has other methods"))
		return
	}
	write(w, problem(http.StatusNotFound, CodeNotFound, "there is no such path"))
}

// silent takes the mux's own answer, of which only status and headers are of use.
type silent struct {
	header http.Header
	status int
}

func (s *silent) Header() http.Header {
	if s.header == nil {
		s.header = make(http.Header)
	}
	return s.header
}
func (s *silent) WriteHeader(status int)      { s.status = status }
func (s *silent) Write(p []byte) (int, error) { return len(p), nil }

// admit checks who sends a request, whether they may, and that its query is in order.
func (g *gate) admit(rt *route, r *http.Request) (*session, *Problem) {
	s := &session{arrived: time.Now(), opts: g.opts}
	if rt.who != anyone {
		var p *Problem
		if s, p = begin(g.opts, r); p != nil {
			return nil, p
		}
		if !rt.who.allows(&s.Principal) {
			return nil, problem(http.StatusForbidden, CodeScopeMissing, "the token lacks the scope %q", rt.who)
		}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the query cannot be read")
	}
	for key, values := range query {
		if len(values) > 1 {
			return nil, invalid("query."+key, "given more than once")
		}
	}
	if rt.who != anyone && query.Has("tenant") && query.Get("tenant") != s.Tenant {
		return nil, otherTenant()
	}
	return s, nil
}

func otherTenant() *Problem {
	return problem(http.StatusForbidden, CodeOtherTenant, "the request names another tenant than the token's")
}
