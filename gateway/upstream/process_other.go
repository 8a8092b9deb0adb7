//go:build !unix

package upstream

import "os/exec"

// ownGroup does nothing: a process ends alone here.
func ownGroup(*exec.Cmd) {}

// endGroup ends the process: there is no gentle way.
func endGroup(cmd *exec.Cmd) { killGroup(cmd) }

// killGroup ends the process.
func killGroup(cmd *exec.Cmd) {
	cmd.Process.Kill() // fails where it has ended
}
