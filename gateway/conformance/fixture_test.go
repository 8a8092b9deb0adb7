package conformance

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

// fixtureProgram is the SDK's own server for the suite.
const fixtureProgram = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

var fixtureBuild struct {
	once sync.Once
	err  error
}

// fixture returns the path of the built server. It lies beside the pawl that is built for
// these tests, and is removed with it.
func fixture(t *testing.T) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(mcptest.Binary(t)), "everything-server")
	fixtureBuild.once.Do(func() { fixtureBuild.err = mcptest.Build(".", path, fixtureProgram) })
	if fixtureBuild.err != nil {
		t.Fatal(fixtureBuild.err)
	}
	return path
}

// serveFixture starts the server over HTTP until the test ends and returns its URL. Sessions
// are what a legacy client needs; a server that keeps them speaks to no modern one.
func serveFixture(t *testing.T, sessions bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(fixture(t), "-http", addr, fmt.Sprintf("-stateless=%v", !sessions))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()         // it tells of the kill
	})
	listening(t, addr)
	return "http://" + addr + "/"
}

// listening waits until an address takes connections.
func listening(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A kind says how the tools of the fixture are declared.
type kind string

const (
	// reads declares each a read, which passes straight through.
	reads kind = "reads"
	// effects declares none, so that each call is an effect of an unknown tool.
	effects kind = "effects"
)

// contractFile declares the fixture as the only upstream.
func contractFile(t *testing.T, k kind, upstream string) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "version: 1\nstore: pawl.db\nupstreams:\n  fixture:\n%s", upstream)
	if k == reads {
		text.WriteString("tools:\n")
		list, err := connect(t, mcptest.Legacy, child(fixture(t))).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			fmt.Fprintf(&text, "  fixture/%s: {upstream: fixture, class: read}\n", tool.Name)
		}
	}
	return write(t, t.TempDir(), "pawl.yaml", text.String())
}

func overHTTP(url string) string { return fmt.Sprintf("    url: %s\n    mcp: {}\n", url) }

func overStdio(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = strconv.Quote(word)
	}
	return "    mcp: {command: [" + strings.Join(quoted, ", ") + "]}\n"
}
