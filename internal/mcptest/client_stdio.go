package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// errEnded: the server ended before it answered.
var errEnded = errors.New("the server ended")

// Stdio is a client that has started its server.
type Stdio struct {
	*Client
	pipe *pipe
}

// DialStdio starts a server on stdio and connects to it until the test ends.
func DialStdio(t testing.TB, era Era, words ...string) *Stdio {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	log := new(bytes.Buffer)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &pipe{cmd: cmd, in: in, waiting: map[string]chan *response{}, ended: make(chan struct{})}
	go p.read(out)
	t.Cleanup(func() { // after the client has hung up
		if t.Failed() {
			t.Logf("log of %s:\n%s", words[0], log)
		}
	})
	return &Stdio{dial(t, era, p), p}
}

// Kill ends the server as kill -9 does.
func (s *Stdio) Kill() {
	_ = s.pipe.cmd.Process.Kill() // it may have ended by itself
	<-s.pipe.ended
}

type pipe struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the server's output is over

	mu      sync.Mutex // guards in and waiting
	in      io.WriteCloser
	waiting map[string]chan *response

	once sync.Once
}

func (p *pipe) read(out io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		r := new(response)
		if json.Unmarshal(lines.Bytes(), r) != nil || r.Method != "" {
			continue
		}
		p.mu.Lock()
		if to := p.waiting[string(r.ID)]; to != nil {
			to <- r // it has room for one, and is taken away
			delete(p.waiting, string(r.ID))
		}
		p.mu.Unlock()
	}
}

func (p *pipe) ask(ctx context.Context, m message) (*response, error) {
	answer := make(chan *response, 1)
	p.mu.Lock()
	if m.ID != nil {
		p.waiting[string(m.ID)] = answer
	}
	_, err := p.in.Write(append(encode(m), '\n'))
	p.mu.Unlock()
	if err != nil || m.ID == nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.ended:
		return nil, errEnded
	}
}

func (p *pipe) close() {
	p.once.Do(func() {
		_ = p.in.Close() // the server may be gone
		select {
		case <-p.ended:
		case <-time.After(patience):
			_ = p.cmd.Process.Kill()
		}
		_ = p.cmd.Wait() // it tells how the server ended
	})
}
