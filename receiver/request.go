package receiver

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"strings"
	"time"
)

// Request is what identifies a request and what it asks for.
type Request struct {
	// Principal is the authenticated caller. Keys of different callers never meet.
	Principal string
	// Method and Path are those of the request: a key belongs to them.
	Method string
	Path   string
	// Key is the key as the caller chose it, without quotes.
	Key string
	// Query and Body are what is asked for. Parameters count in any order, a JSON body by its
	// value, any other by its bytes.
	Query string
	Body  []byte
	// NotAfter, if not zero, is when the request comes too late, by the database's clock.
	NotAfter time.Time
}

// id names the record: nothing of the caller or the key can be read from it.
func (r *Request) id() string {
	return digestOf([]byte(r.Principal), []byte(r.Method), []byte(r.Path), []byte(r.Key))
}

func (r *Request) fingerprint() string {
	query := r.Query
	if values, err := url.ParseQuery(query); err == nil {
		query = values.Encode()
	}
	kind, body := "bytes", r.Body
	if c, ok := canonicalJSON(body); ok {
		kind, body = "json", c
	}
	return digestOf([]byte(query), []byte(kind), body)
}

// digestOf is the hex SHA-256 of its parts, each with its length before it.
func digestOf(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// pathOf spells an escaped path in one way: neither a slash at its end nor an escape that is
// not needed makes another path of it.
func pathOf(escaped string) string {
	segments := strings.Split(strings.TrimRight(escaped, "/"), "/")
	for i, s := range segments {
		if plain, err := url.PathUnescape(s); err == nil {
			segments[i] = url.PathEscape(plain)
		}
	}
	return strings.Join(segments, "/")
}
