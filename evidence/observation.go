package evidence

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// Observation is what was seen around one attempt.
type Observation struct {
	// HadConnection: a connection was handed over, so that a request could be written.
	HadConnection bool
	// BytesBegun counts the connection bytes whose write was begun since then.
	BytesBegun int64
	// BodySize is the size of the request's body, BodyPulled how much of it was asked for.
	BodySize   int64
	BodyPulled int64
	// Refused is a refusal by the protocol layer.
	Refused Refusal
	// Response is nil unless final response headers were seen.
	Response *Response
	// Early: bytes came in before the request went out, so that an answer may belong to
	// another request.
	Early bool
	// Proxied: the request went to a forward proxy that reads it, not through a tunnel.
	Proxied bool
	// Trace lists events in order. Nothing is decided by it.
	Trace []string
	// Peer is the address of the other end of the connection.
	Peer string
	// Err is for people. Nothing is decided by it.
	Err  error
	Took time.Duration
}

// Refusal is a typed statement of the protocol layer that the request was not processed.
type Refusal string

// RefusedStream: the peer reset our HTTP/2 stream with REFUSED_STREAM.
const RefusedStream Refusal = "refused_stream"

// refusalOf finds the typed refusal in an error of a round trip. A GOAWAY does not
// reach the caller as a type and is none.
func refusalOf(err error) Refusal {
	if stream, ok := errors.AsType[http2.StreamError](err); ok && stream.Code == http2.ErrCodeRefusedStream {
		return RefusedStream
	}
	return ""
}

// maxTrace caps the events of one attempt.
const maxTrace = 32

// recorder collects the events of one attempt; some come from other goroutines, and late.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) add(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) < maxTrace {
		r.events = append(r.events, event)
	}
}

func (r *recorder) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// whileDialing records how a connection comes about.
func (r *recorder) whileDialing(ctx context.Context) context.Context {
	outcome := func(event string, err error) {
		if err != nil {
			event += "_failed"
		}
		r.add(event)
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone:          func(i httptrace.DNSDoneInfo) { outcome("dns", i.Err) },
		ConnectDone:      func(_, _ string, err error) { outcome("dial", err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { outcome("tls", err) },
	})
}

// whileSending records how a request fares. It sets no hook for informational answers:
// that would lift the limit on their headers.
func (r *recorder) whileSending(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders:         func() { r.add("headers") },
		Wait100Continue:      func() { r.add("wait_100") },
		Got100Continue:       func() { r.add("got_100") },
		GotFirstResponseByte: func() { r.add("first_byte") },
	})
}

// connected records a proxy's answer to CONNECT.
func (r *recorder) connected(status int) { r.add("proxy_connect_" + strconv.Itoa(status)) }
