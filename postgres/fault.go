package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

var errClosed = fmt.Errorf("postgres: store is closed: %w", fs.ErrClosed)

// verdict says what a failed exchange has left behind.
type verdict int

const (
	// refused: nothing was written, and trying again at once would not help.
	refused verdict = iota
	// repeat: nothing was written, and the same transaction may succeed now.
	repeat
	// conflict: nothing was written, because of one of the rows.
	conflict
	// unknown: it may have been committed, now or a little later.
	unknown
)

// exchangeError is the error of an exchange.
type exchangeError struct {
	verdict verdict
	err     error
}

func (f *exchangeError) Error() string { return f.err.Error() }

func (f *exchangeError) Unwrap() error { return f.err }

func verdictOf(err error) verdict {
	var f *exchangeError
	if errors.As(err, &f) {
		return f.verdict
	}
	return refused // nothing was sent
}

// judge finds the verdict on an error. Codes decide, never texts. sealed says that a COMMIT
// was sent with the statements, committing that all before it had succeeded.
func judge(err error, sealed, committing bool) *exchangeError {
	if !sealed {
		// What was not committed is gone with its connection.
		return &exchangeError{uncommitted(err), err}
	}
	var pg *pgconn.PgError
	switch {
	case pgconn.SafeToRetry(err):
		return &exchangeError{repeat, err}
	case !errors.As(err, &pg), pg.SeverityUnlocalized != "ERROR" && pg.Severity != "ERROR":
		return &exchangeError{unknown, err} // the connection is lost, or the server's process
	case class(pg, "08"), pg.Code == "40003":
		return &exchangeError{unknown, err} // a pooler or an engine that lost sight of it
	}
	v := uncommitted(err)
	if committing && v == refused && pg.Code != "53100" && pg.Code != "25006" {
		v = unknown
	}
	return &exchangeError{v, err}
}

// uncommitted is the verdict on an error that came before a COMMIT was looked at.
func uncommitted(err error) verdict {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return refused
	}
	switch {
	case pg.Code == "40001", pg.Code == "40P01", pg.Code == "26000", pg.Code == "0A000":
		return repeat // the last two: a prepared statement is gone or is out of date
	case class(pg, "23"), class(pg, "22"), class(pg, "54"):
		return conflict
	}
	return refused
}

func class(pg *pgconn.PgError, c string) bool { return len(pg.Code) == 5 && pg.Code[:2] == c }

// tell gives an error that has left nothing behind the store's own meaning.
func (db *DB) tell(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, pawl.ErrStoreFailed) {
		return ctx.Err()
	}
	var pg *pgconn.PgError
	meaning := pawl.ErrBusy // the server could not be had
	switch {
	case errors.Is(err, errClosed), errors.Is(err, pawl.ErrStoreFailed):
		return err
	case errors.Is(err, errNoAnswer), errors.Is(err, errUnsafe):
		meaning = pawl.ErrStoreFailed
	case !errors.As(err, &pg):
	case pg.Code == "53100":
		meaning = pawl.ErrFull
	case pg.Code == "25006", pg.Code == "42501", pg.Code == "55000":
		meaning = pawl.ErrReadOnly
	case pg.Code == "57014", pg.Code == "55P03", class(pg, "53"), class(pg, "57"), class(pg, "08"), class(pg, "40"):
	case class(pg, "XX"):
		meaning = fmt.Errorf("%w: %w", pawl.ErrStoreFailed, pawl.ErrCorrupt)
	default:
		meaning = pawl.ErrStoreFailed
	}
	return fmt.Errorf("postgres: %s: %w: %w", db.name, meaning, err)
}

// undecided is what the caller of a write is told whose commit could not be confirmed.
func (db *DB) undecided(err error) error {
	return fmt.Errorf("postgres: %s: %w: it is not known whether this was written: %w", db.name, pawl.ErrStoreFailed, err)
}
