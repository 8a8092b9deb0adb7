package receiver

import (
	"errors"
	"net/http"
	"strings"
)

// maxKey is the number of characters that a key may have.
const maxKey = 255

var (
	// ErrNoKey: the request has no key, and the service needs one.
	ErrNoKey = errors.New("the request has no Idempotency-Key")
	// ErrBadKey: the key is not what the header may hold.
	ErrBadKey = errors.New(`the Idempotency-Key is not one text in double quotes, 1 to 255 printable characters`)
)

// ParseKey reads the header Idempotency-Key: one structured-field text, such as "abc" in its
// quotes; parameters behind it are ignored. With bare, a token without quotes is the same
// key as its quoted form.
func ParseKey(h http.Header, bare bool) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", ErrNoKey
	}
	if len(values) > 1 {
		return "", ErrBadKey
	}
	s := strings.Trim(values[0], " ")
	if bare && token(s) {
		return s, nil
	}
	key, rest, ok := quotedText(s)
	if !ok || key == "" || len(key) > maxKey || !parameters(rest) {
		return "", ErrBadKey
	}
	return key, nil
}

// quotedText reads a text in quotes, with its escapes, and returns what is behind it.
func quotedText(s string) (text, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		c := s[i]
		if c == '"' {
			return b.String(), s[i+1:], true
		}
		if c == '\\' {
			if i++; i >= len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
			c = s[i]
		}
		if c < ' ' || c > '~' {
			return "", "", false
		}
		b.WriteByte(c)
	}
	return "", "", false
}

const (
	lower = "abcdefghijklmnopqrstuvwxyz"
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digit = "0123456789"
)

// token reports whether a text may be a key without quotes.
func token(s string) bool {
	return s != "" && len(s) <= maxKey && strings.Trim(s, lower+upper+digit+"-_.:+/=") == ""
}

// parameters reports whether what is behind a text are parameters, such as ;a=1; b="x"; c.
func parameters(s string) bool {
	for s != "" {
		if s[0] != ';' {
			return false
		}
		s = strings.TrimLeft(s[1:], " ")
		behind := strings.TrimLeft(s, lower+digit+"_-.*")
		if name := s[:len(s)-len(behind)]; name == "" || !strings.Contains(lower+"*", name[:1]) {
			return false
		}
		s = behind
		value, has := strings.CutPrefix(s, "=")
		if !has {
			continue
		}
		if strings.HasPrefix(value, `"`) {
			var ok bool
			if _, s, ok = quotedText(value); !ok {
				return false
			}
			continue
		}
		s = strings.TrimLeft(value, lower+upper+digit+"!#$%&'*+-.^_`|~:/=?@")
		if len(s) == len(value) {
			return false
		}
	}
	return true
}
