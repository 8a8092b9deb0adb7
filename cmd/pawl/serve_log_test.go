package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/demo"
)

// TestServeLogs: what the daemon logs is JSON, also where net/http speaks to the standard
// logger, and repeats nothing of what a peer has sent. The provider here goes on speaking
// after its answer.
func TestServeLogs(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	spoke := make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		io.Copy(io.Discard, r.Body)
		io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"id\":\"re_123\"}")
		<-spoke
		io.WriteString(conn, "UNASKED-SECRET\r\n")
		io.Copy(io.Discard, conn) // until the client has closed it
	}()
	defer func() { ln.Close(); <-served }()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pawl.yaml"), []byte(strings.ReplaceAll(demo.Contract, exampleURL, "http://"+ln.Addr().String())), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := startDaemon(dir, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	callOver(t, d.url)
	close(spoke)
	select {
	case <-served: // the daemon has met what was unasked, and closed
	case <-time.After(20 * time.Second):
		t.Error("the connection is still open")
	}
	if err := d.drain(); err != nil {
		t.Error(err)
	}
	said, told := d.stderr.String(), false
	for line := range strings.Lines(said) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil && !strings.HasPrefix(line, "pawl is up.") {
			t.Errorf("no JSON: %q", line)
		}
		text, _ := v["text"].(string)
		told = told || strings.HasPrefix(text, "Unsolicited response")
	}
	if !told || strings.Contains(said, "SECRET") {
		t.Errorf("got log %s, want the unasked answer told and not repeated", said)
	}
}
