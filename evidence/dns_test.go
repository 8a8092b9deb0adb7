package evidence

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
)

// resolver answers every A question with the given address, or "no such name", from a
// name server on loopback.
func resolver(t *testing.T, a *netip.Addr) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			pc.WriteTo(dnsAnswer(buf[:n], a), from)
		}
	}()
	t.Cleanup(func() {
		pc.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// dnsAnswer keeps the question and drops what follows it.
func dnsAnswer(query []byte, a *netip.Addr) []byte {
	const header = 12
	end := header
	for end < len(query) && query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root, type and class
	question := query[header:end]
	kind := binary.BigEndian.Uint16(question[len(question)-4:])
	msg := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	switch {
	case a == nil:
		msg[3] |= 3 // NXDOMAIN
	case kind == 1:
		msg[7] = 1
		msg = append(msg, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		ip := a.As4()
		msg = append(msg, ip[:]...)
	}
	return msg
}
