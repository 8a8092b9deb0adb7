//go:build !linux

package sqlite

import "os"

// checkFileSystem cannot tell network file systems on this platform; it only finds a
// folder that is missing.
func checkFileSystem(dir string) error {
	_, err := os.Stat(dir)
	return err
}
