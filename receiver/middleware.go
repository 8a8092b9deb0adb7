package receiver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Options of New. Nil and zero fields mean the defaults.
type Options struct {
	Terms
	// Principal returns the authenticated caller of a request; an error is answered 401. Nil
	// takes the header Authorization for the caller, by its digest.
	Principal func(r *http.Request) (string, error)
	// Optional lets requests without a key through, unprotected. Otherwise they get 400.
	Optional bool
	// BareKeys takes a key without quotes for its quoted form.
	BareKeys bool
	// MaxBody is the size of the largest request; default 1 MiB.
	MaxBody int64
	// Timeout ends a handler's context; default 30 s. The client's going away does not.
	Timeout time.Duration
	// Outside says that handlers have effects outside the transaction. A request that did not
	// end, by a panic, an answer of 500 or more or a crash, is unknown then: it is answered
	// 409 outcome_unknown and never carried out again by itself.
	Outside bool
	// NotAfter is the header that carries a request's not-after; default Pawl-Not-After.
	NotAfter string
}

// Receiver carries requests out once. Its methods are safe for concurrent use.
type Receiver struct {
	db      *sql.DB
	dialect Dialect
	o       Options

	mu      sync.Mutex
	working map[string]string // id to fingerprint, of the requests in this process
}

// New returns a receiver on a database that has the table of records (see Migrate).
func New(db *sql.DB, d Dialect, o *Options) *Receiver {
	r := &Receiver{db: db, dialect: d, working: map[string]string{}}
	if o != nil {
		r.o = *o
	}
	r.o.Terms = r.o.Terms.withDefaults()
	if r.o.MaxBody <= 0 {
		r.o.MaxBody = 1 << 20
	}
	if r.o.Timeout <= 0 {
		r.o.Timeout = 30 * time.Second
	}
	if r.o.NotAfter == "" {
		r.o.NotAfter = "Pawl-Not-After"
	}
	if r.o.Principal == nil {
		r.o.Principal = func(r *http.Request) (string, error) {
			sum := sha256.Sum256([]byte(r.Header.Get("Authorization")))
			return hex.EncodeToString(sum[:]), nil
		}
	}
	return r
}

type contextKey struct{}

// Tx is the transaction that a handler behind Wrap works in: every change that belongs to
// the request goes through it, and neither commit nor rollback: Wrap does that. It is nil
// without a key.
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(contextKey{}).(*sql.Tx)
	return tx
}

// Wrap carries each request that has an effect out once. The handler's answer is held back
// until record and change are committed. An answer of 500 or more, or a panic, rolls both
// back. Requests by GET, HEAD and OPTIONS pass, their keys ignored.
func (r *Receiver) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		switch hr.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			next.ServeHTTP(w, hr)
			return
		}
		req, err := r.request(w, hr)
		if errors.Is(err, ErrNoKey) && r.o.Optional {
			next.ServeHTTP(w, hr)
			return
		}
		if err != nil {
			refuse(w, err, false)
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
	principal, err := r.o.Principal(hr)
	if err != nil {
		return nil, errPrincipal
	}
	req := &Request{Principal: principal, Method: hr.Method, Path: pathOf(hr.URL.EscapedPath()), Query: hr.URL.RawQuery, Key: key}
	if texts := hr.Header.Values(r.o.NotAfter); len(texts) > 0 {
		if req.NotAfter, err = time.Parse(time.RFC3339Nano, texts[0]); err != nil || len(texts) > 1 {
			return nil, errNotAfter
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
		refuse(w, err, false)
		return
	}
	defer release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(hr.Context()), r.o.Timeout)
	defer cancel()
	if r.o.Outside {
		earlier, err := r.mark(ctx, req)
		if err != nil {
			refuse(w, err, false)
			return
		}
		if earlier != nil {
			write(w, earlier)
			return
		}
	}
	res, called, doubt, err := r.once(ctx, hr, req, next)
	if r.o.Outside && err != nil && !called {
		r.unmark(ctx, req)
	}
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		if !doubt {
			failure.Response.Header.Set("Pawl-Effect", "none") // all of it is rolled back
		}
		write(w, failure.Response)
	case err != nil:
		refuse(w, err, doubt)
	default:
		write(w, res)
	}
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

// begin opens a transaction that writes. SQLite's own BEGIN would only read.
func (r *Receiver) begin(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error) {
	tx, err := r.db.BeginTx(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("receiver: begin: %w", err)
	}
	return tx, nil
}

func (r *Receiver) mark(ctx context.Context, req *Request) (*Response, error) {
	tx, err := r.begin(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	res, err := Begin(ctx, TxOf(tx), r.dialect, req, &r.o.Terms)
	if err != nil || res != nil {
		return res, err
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("receiver: mark the request: %w", err)
	}
	return nil, nil
}

// unmark takes the mark away from a request whose handler was not called. Where that fails the
// request stays unknown, which is safe.
func (r *Receiver) unmark(ctx context.Context, req *Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	tx, err := r.begin(ctx, nil)
	if err != nil {
		return
	}
	defer tx.Rollback()
	if Finish(ctx, TxOf(tx), r.dialect, req) == nil {
		_ = tx.Commit() // see above
	}
}

// once runs the handler in the transaction that records its answer. Called tells whether it
// came to that, doubt whether a failure may have left an effect.
func (r *Receiver) once(ctx context.Context, hr *http.Request, req *Request, next http.Handler) (res *Response, called, doubt bool, err error) {
	tx, err := r.begin(ctx, nil)
	if err != nil {
		return nil, false, false, err
	}
	defer tx.Rollback() // after a commit it does nothing; in a panic it undoes the change
	if r.o.Outside {
		if err := Finish(ctx, TxOf(tx), r.dialect, req); err != nil {
			return nil, false, false, err
		}
	}
	res, err = Once(ctx, TxOf(tx), r.dialect, req, func(ctx context.Context) (*Response, error) {
		called = true
		rec := &recorder{header: http.Header{}}
		inner := hr.Clone(context.WithValue(ctx, contextKey{}, tx))
		inner.Body = io.NopCloser(bytes.NewReader(req.Body))
		inner.ContentLength = int64(len(req.Body))
		next.ServeHTTP(rec, inner)
		return rec.response(), nil
	}, &r.o.Terms)
	if err != nil {
		ended := errors.Is(tx.Rollback(), sql.ErrTxDone) && ctx.Err() == nil // by the handler, and who knows how
		return nil, called, called && (r.o.Outside || ended), err
	}
	if err := tx.Commit(); err != nil {
		return nil, called, true, fmt.Errorf("receiver: commit: %w", err)
	}
	return res, called, false, nil
}

// write sends an answer.
func write(w http.ResponseWriter, res *Response) {
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	if res.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(res.Status)
	_, _ = w.Write(res.Body) // the client may have gone; the record is committed
}

// recorder holds a handler's answer back until it is recorded.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

func (r *recorder) response() *Response {
	r.WriteHeader(http.StatusOK)
	return &Response{Status: r.status, Header: r.header, Body: r.body.Bytes()}
}
