//go:build unix

package evidence

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

const canPeek = true

// peek looks at what has arrived on a socket without taking it: whether there are bytes, or
// the peer's end or a reset. Nothing, or what cannot be looked at, is neither.
func peek(raw syscall.RawConn) (bytes, over bool) {
	err := raw.Control(func(fd uintptr) {
		var one [1]byte
		for {
			n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err == nil:
				bytes, over = n > 0, n == 0
			case !errors.Is(err, unix.EAGAIN):
				over = true
			}
			return
		}
	})
	return bytes, over || err != nil
}
