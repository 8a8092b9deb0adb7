package contract

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// message is a request as it is stored. Its text is
//
//	POST https://api.example.com/v1/refunds?expand=charge
//	Authorization: Bearer ${env:PAY_TOKEN}
//	Content-Type: application/json
//	Idempotency-Key: 8893dc6d05960a237c3dc2bfd80913b2
//
//	{"amount":4990}
//
// A line for method and URL, one for each header in the order of the names, an empty
// line, and the body's bytes to the end. Lines end in a line feed. In a header's value
// "${env:NAME}" and "${file:/path}" stand for a credential that is joined when the request
// is sent, and "$$" for a dollar. Each message has one text and each text one message.
type message struct {
	method string
	url    string
	header []field
	body   []byte
}

// field is a header; its value is in the stored form.
type field struct{ name, value string }

// errMessage: the text is none that a port of this package made.
var errMessage = errors.New("not a stored request")

// maxMessage caps a stored request.
const maxMessage = 1<<20 + 64<<10

func (m *message) text() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(m.method + " " + m.url + "\n")
	for _, f := range m.header {
		b.WriteString(f.name + ": " + f.value + "\n")
	}
	b.WriteByte('\n')
	b.Write(m.body)
	if b.Len() > maxMessage {
		return nil, fmt.Errorf("the request has %d bytes, more than %d", b.Len(), maxMessage)
	}
	return b.Bytes(), nil
}

// parseMessage reads what text made and refuses everything else.
func parseMessage(raw []byte) (*message, error) {
	if len(raw) > maxMessage {
		return nil, errMessage
	}
	m := &message{}
	for first := true; ; first = false {
		line, rest, ok := bytes.Cut(raw, []byte("\n"))
		if !ok {
			return nil, errMessage
		}
		raw = rest
		if first {
			if m.method, m.url, ok = strings.Cut(string(line), " "); !ok {
				return nil, errMessage
			}
			continue
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := strings.Cut(string(line), ": ")
		if !ok {
			return nil, errMessage
		}
		m.header = append(m.header, field{name, value})
	}
	m.body = bytes.Clone(raw)
	return m, m.check()
}

// check reports whatever would make the text ambiguous or the request unsafe.
func (m *message) check() error {
	if !slices.Contains(method("").words(), m.method) {
		return fmt.Errorf("%w: method", errMessage)
	}
	u, err := url.Parse(m.url)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.ContainsFunc(m.url, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("%w: url", errMessage)
	}
	last := ""
	for _, f := range m.header {
		if !headerName(f.name) || f.name != http.CanonicalHeaderKey(f.name) || f.name <= last {
			return fmt.Errorf("%w: header name", errMessage)
		}
		last = f.name
		if !headerValue(f.value) {
			return fmt.Errorf("header %s: the value may hold printable ASCII only, with no space at its ends", f.name)
		}
		if _, err := splitValue(f.value); err != nil {
			return fmt.Errorf("header %s: %w", f.name, err)
		}
	}
	return nil
}

// origin is scheme, host and port of a URL.
func origin(u *url.URL) string { return u.Scheme + "://" + strings.ToLower(u.Host) }

func headerName(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func headerValue(s string) bool {
	return strings.TrimSpace(s) == s && len(s) <= 16<<10 &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f })
}

// literalValue is a text in the stored form of a header's value.
func literalValue(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// splitValue splits a stored value into text and references.
func splitValue(s string) ([]part, error) {
	var parts []part
	for s != "" {
		i := strings.IndexByte(s, '$')
		switch {
		case i < 0:
			return append(parts, part{text: s}), nil
		case i > 0:
			parts = append(parts, part{text: s[:i]})
			s = s[i:]
		case strings.HasPrefix(s, "$$"):
			parts = append(parts, part{text: "$"})
			s = s[2:]
		default:
			r, rest, problem := cutReference(s)
			if problem != "" {
				return nil, errMessage
			}
			parts = append(parts, part{ref: &r})
			s = rest
		}
	}
	return parts, nil
}

// join replaces the references of a stored value by their secrets, which it lists as well.
// Only references that the contract declares are resolved, whatever the stored text says.
func join(value string, declared []reference, v *vault) (joined string, secrets []string, err error) {
	parts, err := splitValue(value)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	for _, p := range parts {
		if p.ref == nil {
			b.WriteString(p.text)
			continue
		}
		if !slices.Contains(declared, *p.ref) {
			return "", nil, fmt.Errorf("%v: %w: the contract names no such credential", *p.ref, ErrSecret)
		}
		secret, err := v.value(*p.ref)
		if err != nil {
			return "", nil, err
		}
		if !headerValue(secret) {
			return "", nil, fmt.Errorf("%v: %w: it holds characters that a header cannot carry", *p.ref, ErrSecret)
		}
		b.WriteString(secret)
		secrets = append(secrets, secret)
	}
	return b.String(), secrets, nil
}
