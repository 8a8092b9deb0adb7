package sqlite

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// identify gives a file's file system and inode. The device number will not do: where
// there is no device behind it, as with btrfs and overlayfs, it may be another one after
// a restart. A file system that gives no id of its own has 0, and the inode decides.
func identify(path string) (filesystem, inode int64, err error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	id := int64(s.Fsid.Val[1])<<32 | int64(uint32(s.Fsid.Val[0]))
	return id, int64(fi.Sys().(*syscall.Stat_t).Ino), nil
}
