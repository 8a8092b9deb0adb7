package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a copy of the store into a new file, while calls go on: all that was
// acknowledged before it began is in it. Where it returns nil the copy is whole and on stable
// storage, otherwise there is none. A file that is there already is fs.ErrExist. The copy is
// one like any other: it has to be confirmed before it writes.
func (db *DB) Backup(ctx context.Context, path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sqlite: backup: %w", err)
		}
	}()
	switch _, err := os.Lstat(path); {
	case err == nil:
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if rest := os.Remove(f.Name()); !errors.Is(rest, fs.ErrNotExist) {
			err = errors.Join(err, rest)
		}
	}()
	if err := db.copyInto(ctx, f.Name()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// copyInto writes what is committed now into an empty file. The store's own connections go on.
func (db *DB) copyInto(ctx context.Context, path string) (err error) {
	c, err := db.connect("")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // it was interrupted
		}
		err = errors.Join(err, closeConn(c, true))
	}()
	c.SetInterrupt(ctx)
	s, _, err := c.Prepare(`VACUUM INTO ?`)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.BindText(1, path); err != nil {
		return err
	}
	return s.Exec()
}

// syncFolder makes a new name durable. Windows syncs no folders.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrInvalid) {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
