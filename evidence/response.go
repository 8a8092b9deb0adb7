package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Response is a final answer as it was received, less the secrets of its request. It is not safe for concurrent use.
type Response struct {
	Status int
	Header http.Header
	// Body is what was received, at most Options.MaxResponse bytes.
	Body []byte
	// Size is the number of bytes received, Cut whether there were more than are kept.
	Size int64
	Cut  bool
	// BodyErr says why the body is not what the upstream meant to send: it ended early, or
	// it is encoded in a way that nobody asked for.
	BodyErr error

	digest  string // of what was received, where Body is not that
	parsed  bool
	value   any
	jsonErr error
}

// ErrEncoded: the answer has a content encoding, though none was asked for.
var ErrEncoded = errors.New("body has a content encoding")

// ErrResponseTooLarge: the answer exceeds Options.MaxResponse.
var ErrResponseTooLarge = errors.New("response is too large")

// ErrUpgraded: the server switched to another protocol.
var ErrUpgraded = errors.New("server switched protocols")

// Intact is nil if the body is whole and readable as it is.
func (r *Response) Intact() error {
	if r.BodyErr != nil {
		return fmt.Errorf("read body: %w", r.BodyErr)
	}
	if r.Cut {
		return fmt.Errorf("read body: %w", ErrResponseTooLarge)
	}
	return nil
}

// JSON is the body as pawl.ParseJSON reads it. A body that is not intact has none, even
// if the part that came would parse.
func (r *Response) JSON() (any, error) {
	if !r.parsed {
		r.parsed = true
		if r.jsonErr = r.Intact(); r.jsonErr == nil {
			r.value, r.jsonErr = pawl.ParseJSONLimit(r.Body, len(r.Body))
		}
	}
	return r.value, r.jsonErr
}

// SHA256 is the digest of the bytes received and kept, in hex.
func (r *Response) SHA256() string {
	if r.digest != "" {
		return r.digest
	}
	sum := sha256.Sum256(r.Body)
	return hex.EncodeToString(sum[:])
}

// readResponse reads the body to its end, or to one byte more than the limit. Whole
// reports whether the end was seen, so that nothing of it is left on the connection. Drop
// ends the connection.
func readResponse(res *http.Response, limit int64, consume func(*Response, io.Reader), drop func()) (r *Response, whole bool) {
	r = &Response{Status: res.StatusCode, Header: res.Header}
	if res.StatusCode < 200 {
		r.BodyErr = ErrUpgraded
		return r, false
	}
	if consume != nil {
		return r, r.consumed(res.Body, limit, consume, drop)
	}
	r.Body, r.BodyErr = io.ReadAll(io.LimitReader(res.Body, limit+1))
	r.Size = int64(len(r.Body))
	if r.Size > limit {
		r.Body, r.Cut = r.Body[:limit], true
	}
	whole = r.BodyErr == nil && !r.Cut
	if coding := res.Header.Get("Content-Encoding"); whole && coding != "" && !strings.EqualFold(coding, "identity") {
		r.BodyErr = ErrEncoded
	}
	return r, whole
}

// leftover bounds the wait for the end of a body whose reader wants no more of it.
const leftover = 100 * time.Millisecond

// consumed has the body read by consume and reports whether its end was seen.
func (r *Response) consumed(body io.Reader, limit int64, consume func(*Response, io.Reader), drop func()) (whole bool) {
	kept := &keeper{from: body, r: r, limit: limit}
	consume(r, kept)
	early := kept.err
	if early == nil {
		timer := time.AfterFunc(leftover, drop)
		defer timer.Stop()
		io.Copy(io.Discard, io.LimitReader(kept, maxLeftover)) // its end is in kept.err
	}
	if early != nil && early != io.EOF {
		r.BodyErr = early
	}
	return kept.err == io.EOF
}

// maxLeftover bounds what is read for it.
const maxLeftover = 64 << 10

// keeper reads a body and keeps its beginning.
type keeper struct {
	from  io.Reader
	r     *Response
	limit int64
	err   error
}

func (k *keeper) Read(p []byte) (int, error) {
	n, err := k.from.Read(p)
	k.r.Size += int64(n)
	if room := k.limit - int64(len(k.r.Body)); room < int64(n) {
		k.r.Cut = true
		k.r.Body = append(k.r.Body, p[:max(room, 0)]...)
	} else {
		k.r.Body = append(k.r.Body, p[:n]...)
	}
	if err != nil {
		k.err = err
	}
	return n, err
}
