package evidence

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// socketOptions reads what decides whether bytes can land late.
func socketOptions(t *testing.T, c *net.TCPConn) (userTimeout int, linger *unix.Linger) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	raw.Control(func(fd uintptr) {
		if userTimeout, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); err == nil {
			linger, err = unix.GetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER)
		}
	})
	if err != nil {
		t.Errorf("getsockopt: %v", err)
	}
	return userTimeout, linger
}

func TestLateLanding(t *testing.T) {
	t.Parallel()
	type closing struct {
		userTimeout int
		linger      unix.Linger
	}
	for _, row := range []struct {
		name   string
		serve  func(t *testing.T, ended chan<- error) (s *rawServer, scheme string)
		gaveUp bool
	}{
		{"HTTP 1.1, given up", func(t *testing.T, ended chan<- error) (*rawServer, string) {
			return serveRaw(t, func(c *rawConn) { c.exec(); ended <- c.untilGone() }), "http://"
		}, true},
		{"TLS, given up", func(t *testing.T, ended chan<- error) (*rawServer, string) {
			return serveTLS(t, serverTLS(), func(c *rawConn) { c.exec(); ended <- c.untilGone() }), "https://"
		}, true},
		{"HTTP 2, given up", func(t *testing.T, ended chan<- error) (*rawServer, string) {
			return serveH2(t, func(c *h2Conn) { c.exec(); ended <- c.untilGone() }), "https://"
		}, true},
		{"HTTP 1.1, answered and closed when idle", func(t *testing.T, ended chan<- error) (*rawServer, string) {
			return serveRaw(t, func(c *rawConn) { c.exec(); c.say(okAnswer); ended <- c.untilGone() }), "http://"
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			tr := transport(t, &Options{TLS: trusting(), UserTimeout: 1500 * time.Millisecond})
			closed := make(chan closing, 4)
			f := faults{closed: func(c *net.TCPConn) {
				timeout, linger := socketOptions(t, c)
				closed <- closing{timeout, *linger}
			}}
			f.install(tr)
			ended := make(chan error, 1)
			s, scheme := row.serve(t, ended)
			wait := patience
			if row.gaveUp {
				wait = 80 * time.Millisecond
			}
			o := tr.Attempt(s.deadline(t, wait), post(scheme+s.addr()))
			tr.Close()
			want := closing{1500, unix.Linger{}}
			if row.gaveUp {
				want.linger.Onoff = 1
			}
			if (o.Response == nil) != row.gaveUp {
				t.Errorf("answer seen: got %v, want %v", o.Response != nil, !row.gaveUp)
			}
			if got := <-closed; got != want {
				t.Errorf("TCP_USER_TIMEOUT and SO_LINGER at close: got %+v, want %+v", got, want)
			}
			if err := <-ended; errors.Is(err, syscall.ECONNRESET) != row.gaveUp {
				t.Errorf("the server saw: got %v, want a reset: %v", err, row.gaveUp)
			}
		})
	}
}
