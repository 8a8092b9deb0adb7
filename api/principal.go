package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Principal is on whose behalf a request comes.
type Principal struct {
	// Tenant and Actor are those of every call that it makes.
	Tenant string
	Actor  string
	Scopes []Scope
}

// Scope is something that a token may do.
type Scope string

const (
	// ScopeCall makes calls.
	ScopeCall Scope = "call"
	// ScopeRead looks at the operations of the token's actor, and at those of tools whose
	// contract shares them.
	ScopeRead Scope = "read"
	// ScopeSettle decides open operations as the person that the token's actor is, and
	// looks at every operation of the tenant.
	ScopeSettle Scope = "settle"
)

// Scopes lists every scope.
var Scopes = []Scope{ScopeCall, ScopeRead, ScopeSettle}

func (p *Principal) may(s Scope) bool { return slices.Contains(p.Scopes, s) }

// sees reports whether what an operation was about is for this principal. Others of its
// tenant learn of the operation's status and of nothing else.
func (p *Principal) sees(op *pawl.Operation) bool {
	return op.Tenant == p.Tenant && (p.may(ScopeSettle) || op.Actor == p.Actor || op.Contract != nil && op.Contract.Shared)
}

// access says who may use a route. The zero value is nobody: a route with it is refused.
type access string

const (
	anyone    access = "anyone"    // without a token too
	anyToken  access = "any token" // every scope
	forCall   access = access(ScopeCall)
	forRead   access = access(ScopeRead)
	forSettle access = access(ScopeSettle)
)

func (a access) allows(p *Principal) bool {
	return a == anyToken && len(p.Scopes) > 0 || a == anyone || p.may(Scope(a))
}

// session is a request that has passed the gate.
type session struct {
	Principal
	arrived time.Time
	token   string
	large   bool // it holds a place for a large body
	opts    *Options
}

// holds reports whether the token is still good for what it was let in for.
func (s *session) holds(need access) bool {
	if s.opts.Authenticate == nil {
		return true
	}
	p, ok := s.opts.Authenticate(s.token)
	return ok && need.allows(&p) && p.Tenant == s.Tenant && p.Actor == s.Actor
}

type sessionKey struct{}

func withSession(ctx context.Context, s *session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// sessionOf is the session of a request behind the gate.
func sessionOf(ctx context.Context) *session {
	return ctx.Value(sessionKey{}).(*session)
}

// begin finds out who sends a request.
func begin(o *Options, r *http.Request) (*session, *Problem) {
	s := &session{arrived: time.Now(), opts: o}
	given := r.Header.Values("Authorization")
	if o.Authenticate == nil {
		if len(given) > 0 {
			// A client that has a token expects its own tenant, not the one of nobody.
			return nil, problem(http.StatusUnauthorized, CodeUnauthorized, "this server was started without tokens: send no Authorization header")
		}
		s.Scopes = Scopes
		return s, nil
	}
	if len(given) == 1 {
		scheme, token, _ := strings.Cut(given[0], " ")
		if strings.EqualFold(scheme, "Bearer") {
			s.token = strings.TrimSpace(token)
		}
	}
	if s.token == "" {
		return nil, problem(http.StatusUnauthorized, CodeUnauthorized, "send one header: Authorization: Bearer TOKEN")
	}
	p, ok := o.Authenticate(s.token)
	if !ok {
		return nil, problem(http.StatusUnauthorized, CodeUnauthorized, "the token is not known here or has expired")
	}
	s.Principal = p
	return s, nil
}
