package retail

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// written is when the last bytes of a connection came in, by the kernel's word: a process
// that gets no time reads late, and must not take what is old for new.
func written(c net.Conn) time.Time {
	now := time.Now()
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return now
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return now
	}
	_ = raw.Control(func(fd uintptr) { // without an answer it is now
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			now = now.Add(-time.Duration(info.Last_data_recv) * time.Millisecond)
		}
	})
	return now
}
