package conformance

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.Run(m) }

// oldestNode is the first release that every package here runs on.
var oldestNode = [2]int{22, 19}

// node returns a Node.js that is new enough: the machine's, or else the one that is installed
// as a package.
func node(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("node", "--version").Output(); err == nil && newEnough(string(out)) {
		return "node"
	}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return module(t, "node-"+runtime.GOOS+"-"+arch, "bin", "node")
}

func newEnough(version string) bool {
	parts := strings.SplitN(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".", 3)
	if len(parts) < 3 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && (major > oldestNode[0] || major == oldestNode[0] && minor >= oldestNode[1])
}

// module returns a file of an installed package.
func module(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"node_modules"}, parts...)...))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run make conformance", err)
	}
	return path
}

// run runs a program of a package and returns its output and exit code.
func run(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), node(t), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v\n%s", args, err, stderr.String())
	}
	return stdout.String(), cmd.ProcessState.ExitCode()
}

// write makes a file of a test and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// connect connects a client of the Go SDK, of one era, until the test ends.
func connect(t *testing.T, era mcptest.Era, to mcp.Transport) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "pawl-trial", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), to, &mcp.ClientSessionOptions{ProtocolVersion: era.Version()})
	if err != nil {
		t.Fatalf("connect, %s: %v", era, err)
	}
	if got := session.InitializeResult().ProtocolVersion; got != era.Version() {
		t.Errorf("got revision %s, want %s", got, era.Version())
	}
	t.Cleanup(func() { _ = session.Close() }) // the server may be dead by then
	return session
}

// child is a server that a client starts.
func child(words ...string) *mcp.CommandTransport {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr = os.Stderr
	return &mcp.CommandTransport{Command: cmd}
}
