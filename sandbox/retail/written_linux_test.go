package retail

import (
	"net"
	"testing"
	"time"
)

// TestWrittenIsTheKernelsWord: who reads late learns when the bytes came in, not when they
// were read.
func TestWrittenIsTheKernelsWord(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	before := time.Now()
	if _, err := client.Write([]byte("PUT")); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	<-time.After(200 * time.Millisecond) // the process gets no time
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	// The kernel counts in ticks of up to 10 ms.
	const tick = 10 * time.Millisecond
	if got := written(server); got.Before(before.Add(-2*tick)) || got.After(after.Add(2*tick)) {
		t.Errorf("got %v after the write began, want it within %v", got.Sub(before), after.Sub(before))
	}
}
