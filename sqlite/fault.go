package sqlite

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-dev/pawl"
)

var errClosed = fmt.Errorf("sqlite: store is closed: %w", fs.ErrClosed)

// explain gives an error of the driver the store's own meaning. Codes decide, never
// texts; what no case names is an I/O error and fatal: the store must be opened again.
func explain(err error) (_ error, fatal bool) {
	switch {
	case err == nil:
		return nil, false
	case errors.Is(err, sqlite3.BUSY), errors.Is(err, sqlite3.LOCKED):
		return fmt.Errorf("%w: %w", pawl.ErrBusy, err), false
	case errors.Is(err, sqlite3.FULL):
		return fmt.Errorf("%w: %w", pawl.ErrFull, err), false
	case errors.Is(err, sqlite3.READONLY), errors.Is(err, sqlite3.PERM):
		return fmt.Errorf("%w: %w", pawl.ErrReadOnly, err), false
	case errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.NOTADB):
		return fmt.Errorf("%w: %w", pawl.ErrCorrupt, err), true
	}
	return err, true
}
