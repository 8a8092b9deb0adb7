//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	osuser "os/user"
	"strconv"
	"strings"
	"syscall"
)

// What the signals mean to the server.
const (
	fastShutdown = syscall.SIGINT
	kill         = syscall.SIGKILL
	suspend      = syscall.SIGSTOP
	resume       = syscall.SIGCONT
	reload       = syscall.SIGHUP
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// asOwner makes a process run as the servers' user: this one's, or where that is root an
// unprivileged one.
func asOwner() (*syscall.SysProcAttr, error) {
	attr := ownGroup()
	if os.Getuid() != 0 {
		return attr, nil
	}
	uid, gid, err := owner()
	if err != nil {
		return nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	return attr, nil
}

// own gives a file to the servers' user.
func own(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid, err := owner()
	if err != nil {
		return err
	}
	return os.Chown(path, int(uid), int(gid))
}

// owner is the unprivileged user that takes root's place.
func owner() (uid, gid uint32, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, lookErr := osuser.Lookup(name)
		if lookErr != nil {
			err = errors.Join(err, lookErr)
			continue
		}
		id, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		group, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return 0, 0, err
		}
		return uint32(id), uint32(group), nil
	}
	return 0, 0, fmt.Errorf("pgtest: no user to run the server as: %w", err)
}

// family lists a process and its children.
func family(pid int) []int {
	all := []int{pid}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return all // not this kernel: the children end when they miss their parent
	}
	for _, f := range strings.Fields(string(children)) {
		if child, err := strconv.Atoi(f); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// signal tells a process that may have ended by itself.
func signal(pid int, s os.Signal) { syscall.Kill(pid, s.(syscall.Signal)) }

// alive reports whether a process runs; one that waits to be buried does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
