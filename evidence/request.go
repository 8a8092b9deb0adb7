package evidence

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// Request is one HTTP request, complete in memory.
type Request struct {
	// Method is any but CONNECT; URL is absolute, http or https, without user information.
	Method string
	URL    string
	// Header is sent as it is, but for the headers of the connection (Host, Connection,
	// Content-Length, Expect and the like), which are the transport's own.
	Header http.Header
	// Body may be empty. Its length is always declared.
	Body []byte
	// ExpectContinue asks the server before the body is sent. Where the upstream supports
	// it, a connection that dies early then proves that nothing was sent.
	ExpectContinue bool
	// Secrets are the credentials in the headers. An answer that repeats one, in its body,
	// its headers or an error, is reported with "***" instead, also where it spells it in
	// the escapes of JSON, URLs or HTML. Secrets shorter than 12 bytes are left alone.
	Secrets []string
	// Consume reads the body of a final answer while it arrives, such as a stream of events,
	// and returns when it wants no more. What it reads is as it came, see Mask. Nil reads
	// to the end. Options.MaxResponse then bounds only what is kept of the body.
	Consume func(head *Response, body io.Reader)
}

// Mask is a part of an answer with the secrets of the request replaced: what was JSON stays
// JSON. Consume sees what came without it.
func (r *Request) Mask(part []byte) []byte { return secretsOf(r).maskBody(part) }

// ErrRequestTooLarge: the request exceeds the transport's own limits; nothing was sent.
var ErrRequestTooLarge = errors.New("request is too large")

// ErrInvalidRequest: the request cannot be sent by this transport; nothing was sent.
var ErrInvalidRequest = errors.New("invalid request")

// connectionHeaders belong to one connection and are never taken from a request.
var connectionHeaders = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// build checks the request and makes the one that goes out. The body has no GetBody, so
// nobody below can read it twice.
func (t *Transport) build(r *Request) (*http.Request, *pulls, error) {
	if len(r.Body) > int(t.o.MaxRequest) {
		return nil, nil, fmt.Errorf("%w: body of %d bytes, limit %d", ErrRequestTooLarge, len(r.Body), t.o.MaxRequest)
	}
	size := len(r.URL)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v)
		}
	}
	if size > int(t.o.MaxHeader) {
		return nil, nil, fmt.Errorf("%w: url and headers of %d bytes, limit %d", ErrRequestTooLarge, size, t.o.MaxHeader)
	}
	if r.Method == "" || r.Method == http.MethodConnect {
		return nil, nil, fmt.Errorf("%w: method %q", ErrInvalidRequest, r.Method)
	}
	u, err := parseURL(r.URL)
	if err != nil {
		return nil, nil, err
	}
	header := r.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	for name := range header {
		for _, own := range connectionHeaders {
			if strings.EqualFold(name, own) {
				delete(header, name)
			}
		}
	}
	req := &http.Request{
		Method: r.Method, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	body := &pulls{rest: r.Body}
	if len(r.Body) > 0 {
		req.Body, req.ContentLength = body, int64(len(r.Body))
		if r.ExpectContinue {
			header.Set("Expect", "100-continue")
		}
	}
	return req, body, nil
}

// parseURL never repeats the text: a query may hold a credential.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: url does not parse", ErrInvalidRequest)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%w: url: scheme is not http or https", ErrInvalidRequest)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: url has no host", ErrInvalidRequest)
	case u.User != nil:
		return nil, fmt.Errorf("%w: url holds user information", ErrInvalidRequest)
	}
	for _, c := range u.Host {
		if c >= 0x80 {
			return nil, fmt.Errorf("%w: url: write the host in its ASCII form", ErrInvalidRequest)
		}
	}
	return u, nil
}

// address is what to dial for a URL.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// pulls is a request body that counts what the transport asked for.
type pulls struct {
	mu     sync.Mutex
	rest   []byte
	pulled int64
	sealed bool
}

// Read hands out the body until it is sealed.
func (b *pulls) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return 0, errShut
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	b.pulled += int64(n)
	return n, nil
}

// Close does nothing: the bytes stay the caller's.
func (b *pulls) Close() error { return nil }

// seal ends all reading: the count it returns is final.
func (b *pulls) seal() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
	return b.pulled
}
