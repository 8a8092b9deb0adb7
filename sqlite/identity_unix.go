//go:build unix && !linux

package sqlite

import (
	"os"
	"syscall"
)

// identify gives a file's file system, by its device number, and inode.
func identify(path string) (filesystem, inode int64, err error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	s := fi.Sys().(*syscall.Stat_t)
	return int64(s.Dev), int64(s.Ino), nil
}
