package receiver

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Options of New. Nil and zero fields mean the defaults.
type Options struct {
	Terms
	// Optional lets requests without a key through, unprotected, unless they have a
	// not-after. Otherwise they get 400.
	Optional bool
	// BareKeys takes a key without quotes for its quoted form.
	BareKeys bool
	// MaxBody is the size of the largest request; default 1 MiB.
	MaxBody int64
	// MaxAnswer is the size of the largest answer that is held until it is recorded; default
	// 16 MiB. A larger one fails the request, which is rolled back.
	MaxAnswer int
	// Timeout ends a handler's context and its transaction; default 30 s. The client's going
	// away does not.
	Timeout time.Duration
	// Outside says that handlers have effects outside the transaction. A request that did not
	// end, by a panic, an answer of 500 or more or a crash, is unknown then: it is answered
	// 409 outcome_unknown and never carried out again by itself; Settle ends it.
	Outside bool
	// NotAfter is the header that carries a request's not-after; default Pawl-Not-After.
	NotAfter string
	// DescribedBy is the URL at which the service publishes its terms, linked in refusals.
	DescribedBy string
	// Log gets what the database said when it failed; default slog.Default().
	Log *slog.Logger
}

// Receiver carries requests out once. Its methods are safe for concurrent use.
type Receiver struct {
	db        *sql.DB
	dialect   Dialect
	principal func(*http.Request) (string, error)
	o         Options

	mu      sync.Mutex
	working map[string]string // id to fingerprint, of the requests in this process
}

// New returns a receiver on a database that has the table of records (see Migrate).
//
// Principal names the authenticated caller of a request, to whom its key belongs; an error is
// answered 401. It must name an account and not a credential, which may be renewed between a
// request and its repeat: that repeat would be another caller's, and carried out again.
func New(db *sql.DB, d Dialect, principal func(*http.Request) (string, error), o *Options) *Receiver {
	r := &Receiver{db: db, dialect: d, principal: principal, working: map[string]string{}}
	if o != nil {
		r.o = *o
	}
	r.o.Terms = r.o.Terms.withDefaults()
	if r.o.MaxBody <= 0 {
		r.o.MaxBody = 1 << 20
	}
	if r.o.MaxAnswer <= 0 {
		r.o.MaxAnswer = 16 << 20
	}
	if r.o.Timeout <= 0 {
		r.o.Timeout = 30 * time.Second
	}
	if r.o.NotAfter == "" {
		r.o.NotAfter = "Pawl-Not-After"
	}
	if r.o.Log == nil {
		r.o.Log = slog.Default()
	}
	return r
}

// OneCaller is the principal of a service that has a single caller.
func OneCaller(*http.Request) (string, error) { return "", nil }

// Wrap carries each request that has an effect out once. The handler's answer is held back
// until record and change are committed. An answer of 500 or more, a panic or a Rollback
// undoes both. Requests by GET, HEAD and OPTIONS pass, their keys ignored.
func (r *Receiver) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		switch hr.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			next.ServeHTTP(w, hr)
			return
		}
		req, err := r.request(w, hr)
		if errors.Is(err, ErrNoKey) && r.o.Optional && len(hr.Header.Values(r.o.NotAfter)) == 0 {
			next.ServeHTTP(w, hr)
			return
		}
		if err != nil {
			r.refuse(w, err, false)
			return
		}
		r.serve(w, hr, req, next)
	})
}

// request reads what identifies a request, and its whole body.
func (r *Receiver) request(w http.ResponseWriter, hr *http.Request) (*Request, error) {
	key, err := ParseKey(hr.Header, r.o.BareKeys)
	if err != nil {
		return nil, err
	}
	principal, err := r.principal(hr)
	if err != nil {
		return nil, errPrincipal
	}
	req := &Request{Principal: principal, Method: hr.Method, Path: pathOf(hr.URL.EscapedPath()), Query: hr.URL.RawQuery, Key: key}
	if lines := hr.Header.Values(r.o.NotAfter); len(lines) > 0 {
		if req.NotAfter, err = time.Parse(time.RFC3339Nano, lines[0]); err != nil || len(lines) > 1 {
			return nil, ErrNotAfter
		}
	}
	req.Body, err = io.ReadAll(http.MaxBytesReader(w, hr.Body, r.o.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLarge
	case err != nil:
		panic(http.ErrAbortHandler) // the client went away in the middle of its request
	}
	return req, nil
}

func (r *Receiver) serve(w http.ResponseWriter, hr *http.Request, req *Request, next http.Handler) {
	release, err := r.enter(req)
	if err != nil {
		r.refuse(w, err, false)
		return
	}
	defer release()
	ctx, cancel := r.timeout(context.WithoutCancel(hr.Context()))
	defer cancel()
	var claim *Claim
	var res *Response
	if r.o.Outside {
		claim, res, err = r.claim(ctx, req)
	}
	unknown := false
	if err == nil && res == nil {
		res, unknown, err = r.once(ctx, hr, req, claim, next)
	}
	if err != nil && claim != nil && !unknown {
		r.disclaim(hr, claim)
	}
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		if !unknown {
			failure.Response.Header.Set("Pawl-Effect", "none") // all of it is rolled back
		}
		send(w, failure.Response.Status, failure.Response.Header, failure.Response.Body)
	case errors.Is(err, ErrNotKept):
		r.refuse(w, &notKeptError{res}, false)
	case err != nil:
		r.refuse(w, err, unknown)
	default:
		if res.Replayed {
			res.Header.Set("Idempotent-Replayed", "true")
		}
		send(w, res.Status, res.Header, res.Body)
	}
}

func (r *Receiver) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.o.Timeout)
}

// enter keeps requests under one key apart within this process.
func (r *Receiver) enter(req *Request) (release func(), err error) {
	id, fingerprint := req.id(), req.fingerprint()
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, busy := r.working[id]; busy {
		if other != fingerprint {
			return nil, ErrMismatch
		}
		return nil, ErrInFlight
	}
	r.working[id] = fingerprint
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.working, id)
	}, nil
}

// busy reports whether this process works on a request under the key.
func (r *Receiver) busy(req *Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, busy := r.working[req.id()]
	return busy
}

// claim commits a claim, or finds the answer of an earlier request.
func (r *Receiver) claim(ctx context.Context, req *Request) (*Claim, *Response, error) {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("receiver: begin: %w", err)
	}
	defer tx.Rollback()
	c, res, err := Begin(ctx, TxOf(tx, r.dialect), req, &r.o.Terms)
	if err != nil || c == nil {
		return nil, res, err
	}
	if err := tx.Commit(); err != nil {
		return c, nil, fmt.Errorf("receiver: claim the request: %w", err)
	}
	return c, nil, nil
}

// disclaim ends a claim for which nothing was done. Where that fails too it stays: unknown.
func (r *Receiver) disclaim(hr *http.Request, claim *Claim) {
	ctx, cancel := r.timeout(context.WithoutCancel(hr.Context()))
	defer cancel()
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return
	}
	defer tx.Rollback()
	if claim.Finish(ctx, TxOf(tx, r.dialect)) == nil {
		_ = tx.Commit() // or it stays
	}
}

// once runs the handler in the transaction that records its answer. Unknown says of an error
// that it is not certain that nothing was changed.
func (r *Receiver) once(ctx context.Context, hr *http.Request, req *Request, claim *Claim, next http.Handler) (res *Response, unknown bool, err error) {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, false, fmt.Errorf("receiver: begin: %w", err)
	}
	defer tx.Rollback() // after a commit it does nothing; in a panic it undoes the change
	db := TxOf(tx, r.dialect)
	if claim != nil {
		if err := claim.Finish(ctx, db); err != nil {
			return nil, false, err
		}
	}
	began := false
	res, err = Once(ctx, db, req, func(ctx context.Context) (*Response, error) {
		began = true
		return r.run(ctx, tx, hr, req, next)
	}, &r.o.Terms)
	if err != nil {
		ended := errors.Is(tx.Rollback(), sql.ErrTxDone) // by the handler, say, and who knows how
		return res, began && (r.o.Outside || ended), err
	}
	if err := tx.Commit(); err != nil {
		return nil, true, fmt.Errorf("receiver: commit: %w", err)
	}
	return res, false, nil
}

// run gives the handler its request with the whole body and the transaction.
func (r *Receiver) run(ctx context.Context, tx *sql.Tx, hr *http.Request, req *Request, next http.Handler) (*Response, error) {
	s := &scope{tx: tx}
	held := &recorder{header: http.Header{}, max: r.o.MaxAnswer}
	inner := hr.Clone(context.WithValue(ctx, scopeKey{}, s))
	inner.Body = io.NopCloser(bytes.NewReader(req.Body))
	inner.ContentLength = int64(len(req.Body))
	next.ServeHTTP(held, inner)
	switch {
	case s.rollback != nil:
		return nil, s.rollback
	case held.over:
		return nil, errAnswerTooLarge
	}
	return held.response(), nil
}

// scope is what a handler behind Wrap has to do with the receiver.
type scope struct {
	tx       *sql.Tx
	rollback error
}

type scopeKey struct{}

// Tx is the transaction that a handler behind Wrap works in: every change that belongs to
// the request goes through it, and neither commit nor rollback: Wrap does that. It is nil
// without a key.
func Tx(ctx context.Context) *sql.Tx {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return s.tx
	}
	return nil
}

// Rollback makes Wrap undo what the handler did, record nothing, and answer the Problem of
// err in place of what the handler wrote: the same key may come again. A handler behind Wrap
// calls it where an answer would not be worth keeping, for ErrInFlight of Undo say.
func Rollback(ctx context.Context, err error) {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		s.rollback = err
	}
}
