package sqlite

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// networkFileSystems lists by their magic numbers the file systems on which locks,
// shared memory and syncs do not hold what SQLite needs. FUSE is among them because a
// network file system behind it cannot be told apart.
var networkFileSystems = map[uint32]string{
	0x6969:     "NFS",
	0x517B:     "SMB",
	0xFE534D42: "SMB2",
	0xFF534D42: "CIFS",
	0x65735546: "FUSE",
	0x01021997: "9P",
	0x00C36400: "Ceph",
	0x5346414F: "AFS",
	0x73757245: "Coda",
	0x0BD00BD0: "Lustre",
	0x47504653: "GPFS",
	0x01161970: "GFS2",
	0x7461636F: "OCFS2",
}

// checkFileSystem refuses a folder on a network file system.
func checkFileSystem(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return refuseNetwork(dir, uint32(s.Type))
}

func refuseNetwork(dir string, magic uint32) error {
	if name, found := networkFileSystems[magic]; found {
		return fmt.Errorf("%s is on %s: a store needs a local disk", dir, name)
	}
	return nil
}
