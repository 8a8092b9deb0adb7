//go:build unix

package clients

import (
	"errors"
	"os"
	"syscall"
)

// ownedLike gives a new file the owner of the one that it replaces, where that is another.
func ownedLike(f *os.File, like os.FileInfo) error {
	own, err := f.Stat()
	if err != nil {
		return err
	}
	want, ok := like.Sys().(*syscall.Stat_t)
	have, okToo := own.Sys().(*syscall.Stat_t)
	if !ok || !okToo || want.Uid == have.Uid && want.Gid == have.Gid {
		return nil
	}
	if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return f.Chmod(like.Mode().Perm())
}
