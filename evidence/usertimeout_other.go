//go:build !linux

package evidence

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: the system has no such option.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
