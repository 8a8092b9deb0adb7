//go:build unix

package trials

import "syscall"

func (p *process) freeze() error { return p.signal(syscall.SIGSTOP) }

func (p *process) thaw() error { return p.signal(syscall.SIGCONT) }
