package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// client is one kept HTTP/1.1 connection of one caller. It costs less than net/http's
// client, so that what is measured is the server.
type client struct {
	host string
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	body bytes.Buffer
}

func dial(ctx context.Context, host string) (*client, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return &client{host: host, conn: c, in: bufio.NewReader(c)}, nil
}

// post sends JSON and returns the body of an answer with status 200, which is valid until
// the next call.
func (c *client) post(path string, body []byte) ([]byte, error) {
	c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, c.host, len(body))
	c.out = append(c.out, body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	c.body.Reset()
	if _, err := io.Copy(&c.body, r.Body); err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("POST %s: %s: %s", path, r.Status, c.body.Bytes())
	}
	return c.body.Bytes(), nil
}

func closeClients(clients []*client) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.conn.Close())
	}
	return errors.Join(errs...)
}
