//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// identify gives device and inode of a file.
func identify(path string) (device, inode int64, err error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	s := fi.Sys().(*syscall.Stat_t)
	return int64(s.Dev), int64(s.Ino), nil
}
