package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// disk is the sync that every durable write waits for: a call is one write of a page and
// one sync of a file that nobody else writes.
type disk struct {
	files  []*os.File
	grow   bool
	offset []int64
	page   []byte
}

// overwritten is the size of a file that is overwritten in turn.
const overwritten = 64 << 10

func openDisk(grow bool) func(context.Context, *order) (contestant, error) {
	return func(_ context.Context, o *order) (_ contestant, err error) {
		d := &disk{grow: grow, offset: make([]int64, o.Callers), page: make([]byte, 4096)}
		defer func() {
			if err != nil {
				d.close()
			}
		}()
		for i := range o.Callers {
			f, err := os.Create(filepath.Join(o.Dir, fmt.Sprintf("file-%d", i)))
			if err != nil {
				return nil, err
			}
			d.files = append(d.files, f)
			if _, err := f.Write(make([]byte, overwritten)); err != nil {
				return nil, err
			}
			if err := f.Sync(); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
}

func (d *disk) call(_ context.Context, caller int, _ *job) error {
	f := d.files[caller]
	at := d.offset[caller]
	d.offset[caller] += int64(len(d.page))
	if d.grow {
		at += overwritten
	} else {
		at %= overwritten
	}
	if _, err := f.WriteAt(d.page, at); err != nil {
		return err
	}
	return syscall.Fdatasync(int(f.Fd()))
}

func (d *disk) team() team { return team{} }

func (d *disk) close() error {
	var errs []error
	for _, f := range d.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
