//go:build !unix

package pgtest

import (
	"errors"
	"os"
	"syscall"
)

// Where there are no Unix signals no server is started: see asOwner.
var fastShutdown, kill, suspend, resume, reload = os.Kill, os.Kill, os.Kill, os.Kill, os.Kill

func ownGroup() *syscall.SysProcAttr { return nil }

func asOwner() (*syscall.SysProcAttr, error) {
	return nil, errors.New("pgtest: temporary clusters need a Unix system")
}

func own(string) error { return nil }

func family(pid int) []int { return []int{pid} }

func signal(int, os.Signal) {}

func alive(int) bool { return false }
