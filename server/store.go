package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/internal/crash"
	"github.com/pawl-dev/pawl/postgres"
	"github.com/pawl-dev/pawl/sqlite"
)

// ErrRecovery: the store is not where it was last used, so it may lack what had been
// acknowledged, or have a living twin. Nothing may be sent from it before a person has said
// that this copy is the one that lives.
var ErrRecovery = errors.New("store needs a person's word")

// ErrNoStore and ErrForeign are those of the stores: there is none, and the place is
// another program's.
var (
	ErrNoStore = errors.New("there is no store")
	ErrForeign = errors.New("the store's place is another program's")
)

// StoreError: the store at Path could not be opened. Err is why: one of pawl's errors of a
// store, ErrNoStore, ErrForeign, ErrRecovery, or the file system's. A URL is told without
// its password.
type StoreError struct {
	Path string
	Err  error
}

// Error says what could not be opened and why.
func (e *StoreError) Error() string {
	if errors.Is(e, ErrNoStore) {
		return fmt.Sprintf("%v at %q", ErrNoStore, e.Path)
	}
	return "open store: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// Is reports whether the cause is one that each store has under a name of its own.
func (e *StoreError) Is(target error) bool {
	switch target {
	case ErrNoStore:
		return errors.Is(e.Err, sqlite.ErrNoStore) || errors.Is(e.Err, postgres.ErrNoStore)
	case ErrForeign:
		return errors.Is(e.Err, sqlite.ErrForeign) || errors.Is(e.Err, postgres.ErrForeign)
	}
	return false
}

// A Store knows whether it is where it was last used.
type Store interface {
	pawl.Store
	// Recovery says why the store may lack what was acknowledged, or have a living twin; nil
	// means that it is where it was last used.
	Recovery() error
	// Confirm records that this copy is the one that lives, and since when. Processes that
	// are to know of it open the store again.
	Confirm(ctx context.Context, r *pawl.Restore) error
	// Restored is the last restore that was confirmed; nil where there was none.
	Restored() *pawl.Restore
}

// OpenStore opens the store alone, to look at operations and to settle them. It reads the
// contract file only for the store's place, and not at all where Options.Store is given.
// Unlike Open it accepts a store that is not where it was last used; Recovery says so.
func OpenStore(ctx context.Context, o *Options) (Store, error) {
	opts := o.withDefaults()
	if opts.Store != "" {
		return openAt(ctx, opts.Store, &opts)
	}
	file, err := contract.Load(opts.Config, opts.Contract)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	at, err := placeFor(file, &opts)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, at, &opts)
}

// openFor opens the store that an executor of the file may send from.
func openFor(ctx context.Context, file *contract.File, o *Options) (Store, error) {
	at, err := placeFor(file, o)
	if err != nil {
		return nil, err
	}
	store, err := openAt(ctx, at, o)
	if err != nil {
		return nil, err
	}
	if why := store.Recovery(); why != nil {
		return nil, errors.Join(&StoreError{shown(at), fmt.Errorf("%w: %w", ErrRecovery, why)}, store.Close())
	}
	return store, nil
}

// placeFor is the path or URL of the store of a contract file.
func placeFor(file *contract.File, o *Options) (string, error) {
	if o.Store != "" {
		return o.Store, nil
	}
	at, err := file.Store()
	if err != nil {
		return "", fmt.Errorf("%s: %w", o.Config, err)
	}
	if at == "" {
		at = "pawl.db"
	}
	if !filepath.IsAbs(at) && !strings.Contains(at, "://") {
		at = filepath.Join(filepath.Dir(o.Config), at)
	}
	return at, nil
}

// openAt opens the store of the kind that its place names.
func openAt(ctx context.Context, at string, o *Options) (store Store, err error) {
	scheme, _, isURL := strings.Cut(at, "://")
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case !isURL:
		var opts sqlite.Options
		if o.SQLite != nil {
			opts = *o.SQLite
		}
		if opts.WALSize == 0 {
			opts.WALSize = crash.WALSize
		}
		store, err = sqlite.Open(at, &opts)
	case scheme == "postgres", scheme == "postgresql":
		var opts postgres.Options
		if o.Postgres != nil {
			opts = *o.Postgres
		}
		if opts.Log == nil {
			opts.Log = o.Executor.Log
		}
		store, err = postgres.Open(ctx, at, &opts)
	default:
		err = fmt.Errorf("there is no store for %s:// URLs: write the path of an SQLite file, or a postgres:// URL", scheme)
	}
	if err != nil {
		return nil, &StoreError{shown(at), err}
	}
	return store, nil
}

// shown is a place without its password.
func shown(at string) string {
	if !strings.Contains(at, "://") {
		return at
	}
	u, err := url.Parse(at)
	if err != nil {
		return "the URL of the store"
	}
	q := u.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		q.Del(secret)
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}
