package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/contract"
	"github.com/pawl-dev/pawl/sqlite"
)

// ErrRecovery: the store's file is not the one that was last used, so it may lack what
// had been acknowledged, or have a living twin. Nothing may be sent from it before a person
// has said that this copy is the one that lives.
var ErrRecovery = errors.New("store needs a person's word")

// StoreError: the store at Path could not be opened. Err is why: one of pawl's errors of a
// store, sqlite.ErrNoStore, sqlite.ErrForeign, ErrRecovery, or the file system's.
type StoreError struct {
	Path string
	Err  error
}

// Error says what could not be opened and why.
func (e *StoreError) Error() string {
	if errors.Is(e.Err, sqlite.ErrNoStore) {
		return fmt.Sprintf("%v at %q", sqlite.ErrNoStore, e.Path)
	}
	return "open store: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// OpenStore opens the store alone, to look at operations and to settle them. It reads the
// contract file only for the store's path, and not at all where Options.Store is given.
// Unlike Open it accepts a store that is not the one last used; Recovery says so.
func OpenStore(ctx context.Context, o *Options) (*sqlite.DB, error) {
	opts := o.withDefaults()
	if opts.Store != "" {
		return openPath(ctx, opts.Store, opts.SQLite)
	}
	file, err := contract.Load(opts.Config, opts.Contract)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	path, err := pathFor(file, &opts)
	if err != nil {
		return nil, err
	}
	return openPath(ctx, path, opts.SQLite)
}

// openFor opens the store that an executor of the file may send from.
func openFor(ctx context.Context, file *contract.File, o *Options) (pawl.Store, error) {
	path, err := pathFor(file, o)
	if err != nil {
		return nil, err
	}
	db, err := openPath(ctx, path, o.SQLite)
	if err != nil {
		return nil, err
	}
	if why := db.Recovery(); why != nil {
		return nil, errors.Join(&StoreError{path, fmt.Errorf("%w: %w", ErrRecovery, why)}, db.Close())
	}
	return db, nil
}

// pathFor is the path of the store of a contract file.
func pathFor(file *contract.File, o *Options) (string, error) {
	path := o.Store
	if path == "" {
		path = file.Store
		if path == "" {
			path = "pawl.db"
		}
		if !filepath.IsAbs(path) && !strings.Contains(path, "://") {
			path = filepath.Join(filepath.Dir(o.Config), path)
		}
	}
	if scheme, _, isURL := strings.Cut(path, "://"); isURL {
		return "", fmt.Errorf("%s: store: there is no store for %s:// URLs: write the path of an SQLite file", o.Config, scheme)
	}
	return path, nil
}

func openPath(ctx context.Context, path string, o *sqlite.Options) (*sqlite.DB, error) {
	if err := ctx.Err(); err != nil {
		return nil, &StoreError{path, err}
	}
	db, err := sqlite.Open(path, o)
	if err != nil {
		return nil, &StoreError{path, err}
	}
	return db, nil
}
