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
// could be made again. All processes share the file: who finds it gone takes part.
type reserve struct {
	path string
	size int64

	mu     sync.Mutex
	short  bool
	looked time.Time // when the file was last looked for, and made if it was missing
}

// reserveRetry is the least time between two looks.
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
	if now := time.Now(); now.Sub(r.looked) >= reserveRetry {
		r.looked = now
		if err := r.make(); err == nil {
			r.short = false
		} else if errors.Is(err, syscall.ENOSPC) {
			r.short = true
		}
	}
	if !r.short {
		return nil
	}
	return fmt.Errorf("sqlite: begin: no space for %d bytes of reserve in %s: %w", r.size, r.path, pawl.ErrFull)
}

// giveUp frees the space.
func (r *reserve) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.short, r.looked = true, time.Now()
	os.Remove(r.path)
}

// make leaves a file that is as large as it should be, or larger for another process.
func (r *reserve) make() error {
	if fi, err := os.Stat(r.path); err == nil && fi.Size() >= r.size {
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
