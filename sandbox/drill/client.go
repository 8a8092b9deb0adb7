package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// client asks the daemons, in turn. A daemon that is killed takes its answers with it; then
// the same is asked again.
type client struct {
	http  *http.Client
	fleet *fleet
	n     atomic.Int64
}

func newClient(f *fleet) *client {
	return &client{fleet: f, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 128, IdleConnTimeout: 10 * time.Second}, Timeout: time.Minute,
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// problem is an answer that is no success and will be none.
type problem struct {
	status int
	code   string
	body   string
}

func (p *problem) Error() string {
	return fmt.Sprintf("the daemon says %d %s: %s", p.status, p.code, p.body)
}

const (
	// again is the pause before the same is asked again.
	again = 50 * time.Millisecond
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 8 << 20
)

// ask makes one request until it is answered. The error is a *problem where the answer is
// definite.
func (c *client) ask(ctx context.Context, token, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	for {
		err := c.once(ctx, token, method, path, body, out)
		var p *problem
		switch {
		case err == nil:
			return nil
		case errors.As(err, &p) && p.status != http.StatusTooManyRequests && p.status < 500:
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		if err := pause(ctx, again); err != nil {
			return err
		}
	}
}

func (c *client) once(ctx context.Context, token, method, path string, body []byte, out any) error {
	url, err := c.fleet.url(ctx, int(c.n.Add(1)))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		p := &problem{status: answer.StatusCode, body: string(raw)}
		var said struct {
			Code string `json:"code"`
		}
		if json.Unmarshal(raw, &said) == nil {
			p.code = said.Code
		}
		return p
	}
	return json.Unmarshal(raw, out)
}

// pause waits, or returns why it cannot.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
