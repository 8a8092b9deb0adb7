package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// Options of New. Nil and zero fields mean the defaults.
type Options struct {
	// Authenticate says whose token it is. Nil means that no token is asked for and every
	// caller is tenant "" and actor "" with all scopes, which is for loopback alone. It is
	// called concurrently, and again while a stream of events goes on.
	Authenticate func(token string) (Principal, bool)
	// AllowedHosts are names under which the handler may be called beside those of the
	// loopback interface, without port. A request to any other name is refused, and so is
	// one that a page of another origin makes.
	AllowedHosts []string
	// Feed has the changes that /v1/events tells. Nil means that there is no /v1/events.
	Feed *Feed
	// Metrics answers /metrics: it tells of every tenant, so a token of tenant "" alone may
	// read it. Nil means that there is no /metrics.
	Metrics http.Handler
	// Stopping is closed when the process begins to stop: it is not ready any more, and
	// streams of events end. Nil means never.
	Stopping <-chan struct{}
	// PerTenant bounds the requests of one tenant that are worked on at a time; default 512.
	PerTenant int
	// Log takes what an operator should read; default slog.Default().
	Log *slog.Logger
}

// Limits of a request and of its answer.
const (
	// MaxBody is the size in bytes of the largest request body.
	MaxBody = 1 << 20
	// MaxDeadline is the longest turn that a caller may ask for.
	MaxDeadline = 10 * time.Minute
	// smallBody is the size up to which a body is small. What reading one takes is many
	// times its size, so only so many larger ones are worked on at a time.
	smallBody      = 64 << 10
	largePerTenant = 2
	largeMost      = 4
	// answerTime is how long a client may take to read an answer.
	answerTime = 30 * time.Second
)

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.PerTenant <= 0 {
		d.PerTenant = 512
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	return d
}

// door is what the handlers share.
type door struct {
	ex    *pawl.Executor
	store pawl.Store
	opts  Options
	gate  *gate
	huma  huma.API
}

// New returns the API of an executor and the store it records in. The handler starts
// nothing; both stay the caller's to stop and to close.
func New(ex *pawl.Executor, store pawl.Store, o *Options) http.Handler {
	return newDoor(ex, store, o).handler()
}

func newDoor(ex *pawl.Executor, store pawl.Store, o *Options) *door {
	d := &door{ex: ex, store: store, opts: o.withDefaults()}
	c := config()
	d.gate = newGate(&d.opts, c.Components.Schemas)
	d.huma = huma.NewAPI(c, d.gate)
	d.addHealth()
	d.addCalls()
	d.addPermits()
	d.addOperations()
	d.addReviews()
	d.addDecisions()
	d.addRuns()
	d.addTools()
	if d.opts.Feed != nil {
		d.addEvents()
	}
	if d.opts.Metrics != nil {
		d.addMetrics()
	}
	d.addDocument()
	return d
}

func (d *door) handler() http.Handler {
	return d.recovered(sameOrigin(d.opts.AllowedHosts, d.gate))
}

// recovered answers for a handler that panicked and says so in the log, without what the
// panic held, which may be a caller's.
func (d *door) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			d.opts.Log.ErrorContext(r.Context(), "request panicked", slog.String("type", fmt.Sprintf("%T", v)), slog.String("route", r.Pattern))
			if a.begun {
				panic(http.ErrAbortHandler) // half an answer must not look like a whole one
			}
			write(a, problem(http.StatusInternalServerError, CodeInternal, "the server could not do its work; the log says more"))
		}()
		secure(a.Header())
		next.ServeHTTP(a, r)
	})
}

// secure sets the headers that every answer has: it is data, never a page, and nobody
// keeps a copy.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// answer bounds how long its client may take to read it, from its first byte.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	if !a.begun {
		a.begun = true
		// A writer without deadlines is a test's; a real connection has them.
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(answerTime))
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
