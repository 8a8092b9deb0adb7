package mcptest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// cutWord is the first argument of a test binary that is to stand before a server.
const cutWord = "mcp-cut"

// Cut stands before a server that others made, on stdio, and loses or holds the answer of a
// call that the server has carried out. The server itself is untouched.
type Cut struct {
	folder folder
	server []string
}

// NewCut makes a Cut before a server that command starts.
func NewCut(t testing.TB, command ...string) *Cut {
	t.Helper()
	return &Cut{folder: folder(t.TempDir()), server: command}
}

// Command starts the server behind the Cut.
func (c *Cut) Command() []string {
	return append([]string{self(), cutWord, string(c.folder)}, c.server...)
}

// Fail lets the next call of a tool go wrong: Die kills the server when it has answered and
// passes nothing on; Late holds the answer until Release.
func (c *Cut) Fail(t testing.TB, fault Fault, tool string) {
	t.Helper()
	if err := c.folder.setFault(fault + " " + Fault(tool)); err != nil {
		t.Fatal(err)
	}
}

// Calls returns the calls of a tool that reached the server.
func (c *Cut) Calls(t testing.TB, tool string) []Call { return calls(t, c.folder, tool) }

// Answered waits until the server has answered the call whose answer is lost or held.
func (c *Cut) Answered(t testing.TB) { await(t, c.folder, takenFile) }

// Release lets answers that are held go on.
func (c *Cut) Release(t testing.TB) { release(t, c.folder) }

// cut carries lines between its own streams and a server until either ends.
type cut struct {
	folder folder
	server *exec.Cmd

	mu    sync.Mutex
	asked map[string]string // tools of the calls that are out, by id
}

func (c *cut) run() error {
	in, err := c.server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.server.StdoutPipe()
	if err != nil {
		return err
	}
	c.server.Stderr = os.Stderr
	if err := c.server.Start(); err != nil {
		return err
	}
	go func() {
		_ = c.carry(os.Stdin, in, c.noteCall) // the server sees the end, or is gone
		_ = in.Close()
		time.AfterFunc(time.Second, func() { _ = c.server.Process.Kill() }) // not every server heeds the end
	}()
	err = c.carry(out, os.Stdout, c.spoil)
	return errors.Join(err, c.server.Wait())
}

// carry passes lines on, each after a look at it.
func (c *cut) carry(from io.Reader, to io.Writer, look func(message)) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) == nil {
			look(m)
		}
		if _, err := fmt.Fprintf(to, "%s\n", lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (c *cut) noteCall(m message) {
	var p struct {
		Name      string
		Arguments map[string]any
	}
	if m.Method != "tools/call" || json.Unmarshal(m.Params, &p) != nil {
		return
	}
	c.mu.Lock()
	c.asked[string(m.ID)] = p.Name
	c.mu.Unlock()
	if err := c.folder.add(callsFile, Call{p.Name, p.Arguments}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// spoil loses or holds an answer if its call is the one to go wrong.
func (c *cut) spoil(m message) {
	c.mu.Lock()
	tool := c.asked[string(m.ID)]
	c.mu.Unlock()
	if m.Method != "" || tool == "" {
		return
	}
	text, err := os.ReadFile(c.folder.path(faultFile))
	if err != nil {
		return
	}
	switch string(text) {
	case string(Die) + " " + tool:
		_ = c.server.Process.Kill() // it is gone either way
		c.folder.takeFault()
		os.Exit(1)
	case string(Late) + " " + tool:
		c.folder.takeFault()
		c.folder.awaitRelease()
	}
}
