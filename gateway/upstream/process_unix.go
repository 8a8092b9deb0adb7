//go:build unix

package upstream

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a process the head of a group, so that what it starts ends with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the group to end.
func endGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGTERM) }

// killGroup ends the group.
func killGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGKILL) }

func signalGroup(cmd *exec.Cmd, s syscall.Signal) {
	syscall.Kill(-cmd.Process.Pid, s) // fails where nobody of the group is left
}
