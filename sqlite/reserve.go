package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
)

// reserve is a file beside the database that takes up space until there is none left.
// Then it is removed, so that outcomes can be written, and no operation begins until it
// could be made again.
type reserve struct {
	path string
	size int64

	mu    sync.Mutex
	short bool
	tried time.Time // when making it again was tried last
}

// reserveRetry is the least time between two tries to make the file again.
const reserveRetry = time.Second

// open makes the file if it is missing. Missing space is no error: then nothing begins.
func (r *reserve) open() error {
	err := r.make()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.short = errors.Is(err, syscall.ENOSPC)
	if r.short {
		return nil
	}
	return err
}

// admit returns ErrFull while space is short.
func (r *reserve) admit() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.short {
		return nil
	}
	if now := time.Now(); now.Sub(r.tried) >= reserveRetry {
		r.tried = now
		if r.make() == nil {
			r.short = false
			return nil
		}
	}
	return fmt.Errorf("sqlite: begin: no space for %d bytes of reserve in %s: %w", r.size, r.path, pawl.ErrFull)
}

// giveUp frees the space.
func (r *reserve) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.short, r.tried = true, time.Now()
	os.Remove(r.path)
}

func (r *reserve) make() error {
	if fi, err := os.Stat(r.path); err == nil && fi.Size() == r.size {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, r.size))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(r.path)
	}
	return err
}
