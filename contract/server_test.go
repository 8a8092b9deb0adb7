package contract

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// provider is a real HTTP server that keeps what it received.
type fakeProvider struct {
	*httptest.Server
	mu       sync.Mutex
	received []*received
	answer   func(w http.ResponseWriter, r *received)
}

type received struct {
	*http.Request
	body string
}

func newProvider(t *testing.T, answer func(w http.ResponseWriter, r *received)) *fakeProvider {
	t.Helper()
	p := &fakeProvider{answer: answer}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *fakeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	got := &received{r, string(body)}
	p.mu.Lock()
	p.received = append(p.received, got)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if p.answer == nil {
		io.WriteString(w, `{"id":"re_1","status":"succeeded"}`)
		return
	}
	p.answer(w, got)
}

func (p *fakeProvider) last(t *testing.T) *received {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.received) == 0 {
		t.Fatal("the provider received nothing")
	}
	return p.received[len(p.received)-1]
}

// answering is a provider that always gives one answer.
func answering(t *testing.T, status int, body string) *fakeProvider {
	return newProvider(t, func(w http.ResponseWriter, _ *received) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

// wireBytes is a server that keeps the bytes of each request as they arrived.
func wireBytes(t *testing.T) (url string, requests func() []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var mu sync.Mutex
	var seen []string
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var raw bytes.Buffer
			req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &raw)))
			if err == nil {
				io.Copy(io.Discard, req.Body)
				mu.Lock()
				seen = append(seen, raw.String())
				mu.Unlock()
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
			}
			c.Close()
		}
	}()
	return "http://" + l.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// setup parses a file whose upstream is at url and returns its first tool. The terms are
// those below "tools: t:", indented by four spaces.
func setup(t *testing.T, url, terms string, o *Options) pawl.Tool {
	t.Helper()
	return setupFile(t, "version: 1\nupstreams:\n  up:\n    url: "+url+"\ntools:\n  t:\n    upstream: up\n"+block(terms), o)
}

func setupFile(t *testing.T, src string, o *Options) pawl.Tool {
	t.Helper()
	f := mustParse(t, src, o)
	tools, err := f.Tools()
	if err != nil {
		t.Fatalf("tools: %v", err)
	}
	t.Cleanup(f.Close)
	return tools[0]
}

// block indents terms by four spaces.
func block(terms string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.Trim(terms, "\n"), "\n") {
		b.WriteString("    " + strings.TrimPrefix(line, "\t") + "\n")
	}
	return b.String()
}

// begin is what the executor does before a send: it identifies the call, derives the key
// and has the request prepared.
func begin(t *testing.T, tool pawl.Tool, args string) *pawl.Operation {
	t.Helper()
	op, err := tryBegin(tool, args)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	return op
}

func tryBegin(tool pawl.Tool, args string) (*pawl.Operation, error) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	c := tool.Contract.WithDefaults()
	call := &pawl.Call{Tool: c.Tool, Args: []byte(args), Run: "run-7", Step: "3"}
	id, err := pawl.Identify(&c, call)
	if err != nil {
		return nil, err
	}
	var blob []byte
	if c.Class != pawl.Read {
		if blob, err = id.Blob(0); err != nil {
			return nil, err
		}
	}
	op := &pawl.Operation{Intent: pawl.Intent{
		ID: pawl.NewID(now), Tool: c.Tool, Run: call.Run, Step: call.Step, Key: pawl.DeriveKey(pawl.Secret{}, blob),
		Args: id.Canonical, Contract: &c, ContractHash: c.Hash(), Created: now, Deadline: now.Add(time.Hour),
	}}
	if op.Identity, err = pawl.AppendJSON(nil, id.Identity); err != nil {
		return nil, err
	}
	out, err := tool.Port.Prepare(invocationOf(op, id))
	if err != nil {
		return nil, err
	}
	op.Request = out.Request
	op.Attempts = []pawl.Attempt{{N: 1, Permit: now}}
	return op, nil
}

func invocationOf(op *pawl.Operation, id *pawl.Identified) *pawl.Invocation {
	return &pawl.Invocation{
		Operation: op.ID, Tool: op.Tool, Run: op.Run, Step: op.Step, Args: id.Args, Canonical: id.Canonical,
		Identity: id.Identity, Key: op.Key, Deadline: op.Deadline, Permit: op.Created,
	}
}

func send(t *testing.T, tool pawl.Tool, op *pawl.Operation) pawl.Evidence {
	t.Helper()
	return tool.Port.Send(t.Context(), &pawl.Sending{Operation: op, Attempt: 1, Permit: op.Created, Deadline: op.Deadline})
}

func probeOf(t *testing.T, tool pawl.Tool, op *pawl.Operation) pawl.ProbeResult {
	t.Helper()
	return tool.Port.(pawl.Prober).Probe(t.Context(), op)
}
