package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// DialHTTP connects to a server over HTTP until the test ends.
func DialHTTP(t testing.TB, era Era, url string) *Client {
	t.Helper()
	return dial(t, era, &posts{era: era, url: url, web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}})
}

type posts struct {
	era Era
	url string
	web *http.Client

	mu      sync.Mutex
	session string
}

func (p *posts) ask(ctx context.Context, m message) (*response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(encode(m)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	p.header(r.Header, m)
	answer, err := p.web.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if id := answer.Header.Get(sessionHeader); id != "" {
		p.mu.Lock()
		p.session = id
		p.mu.Unlock()
	}
	if m.ID == nil {
		return nil, nil
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		return fromEvents(answer.Body)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	to := new(response)
	if err := json.Unmarshal(body, to); err != nil {
		return nil, fmt.Errorf("status %d: %q: %w", answer.StatusCode, body, err)
	}
	return to, nil
}

func (p *posts) header(h http.Header, m message) {
	if p.era == Modern {
		h.Set("MCP-Protocol-Version", modernVersion)
		h.Set("Mcp-Method", m.Method)
		var named struct{ Name string }
		if json.Unmarshal(m.Params, &named) == nil && named.Name != "" {
			h.Set("Mcp-Name", named.Name)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != "" {
		h.Set(sessionHeader, p.session)
		h.Set("MCP-Protocol-Version", legacyVersion)
	}
}

// fromEvents reads an event stream up to the answer.
func fromEvents(body io.Reader) (*response, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		to := new(response)
		if ok && json.Unmarshal(data, to) == nil && to.Method == "" && to.ID != nil {
			return to, nil
		}
	}
	return nil, errors.Join(errors.New("the stream ended without the answer"), lines.Err())
}

func (p *posts) close() { p.web.CloseIdleConnections() }
