package receiver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
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
	// Query is the query of the request's URL: a part of what is asked for, not of whose key it is.
	Query string
	// Body is what is asked for. A JSON body counts by its value, any other by its bytes.
	Body []byte
	// NotAfter, if not zero, is when the request comes too late, by the database's clock.
	NotAfter time.Time
}

// id names the record: nothing of the caller or the key can be read from it.
func (r *Request) id() string {
	h := sha256.New()
	for _, part := range []string{r.Principal, r.Method, r.Path, r.Key} {
		var n [8]byte
		for i, l := 0, uint64(len(part)); i < 8; i, l = i+1, l>>8 {
			n[i] = byte(l)
		}
		h.Write(n[:])
		io.WriteString(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (r *Request) fingerprint() string {
	body := r.Body
	if c, ok := canonicalJSON(body); ok {
		body = c
	}
	h := sha256.New()
	io.WriteString(h, r.Query)
	h.Write([]byte{0})
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// canonicalJSON writes a JSON text with sorted names, without blanks, each number in one
// spelling. A text that is no JSON has no canonical form.
func canonicalJSON(raw []byte) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	var b bytes.Buffer
	writeCanonical(&b, v)
	if bytes.ContainsRune(b.Bytes(), utf8.RuneError) {
		return nil, false // broken texts all decode to it, and would count as equal
	}
	return b.Bytes(), true
}

func writeCanonical(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		sort.Strings(names)
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			writeCanonical(b, name)
			b.WriteByte(':')
			writeCanonical(b, v[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeCanonical(b, e)
		}
		b.WriteByte(']')
	case json.Number:
		b.WriteString(canonicalNumber(string(v)))
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic("receiver: " + err.Error()) // texts, booleans and null always marshal
		}
		b.Write(text)
	}
}

// canonicalNumber spells equal numbers alike, and no longer than they came: all digits that
// count, and the power of ten. An exponent beyond all use counts by its spelling.
func canonicalNumber(s string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	power := 0
	if exponent != "" {
		var err error
		if power, err = strconv.Atoi(exponent); err != nil || power > 1e9 || power < -1e9 {
			return s
		}
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	significant := strings.TrimRight(digits, "0")
	power += len(digits) - len(significant) - len(fraction)
	if negative {
		significant = "-" + significant
	}
	return significant + "e" + strconv.Itoa(power)
}

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
	switch {
	case len(values) == 0:
		return "", ErrNoKey
	case len(values) > 1:
		return "", ErrBadKey
	}
	s := strings.Trim(values[0], " ")
	if !strings.HasPrefix(s, `"`) {
		if bare && token(s) {
			return s, nil
		}
		return "", ErrBadKey
	}
	var key strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			rest := strings.TrimLeft(s[i+1:], " ")
			if key.Len() == 0 || key.Len() > maxKey || rest != "" && !parameters(rest) {
				return "", ErrBadKey
			}
			return key.String(), nil
		case c == '\\':
			if i++; i >= len(s) || s[i] != '"' && s[i] != '\\' {
				return "", ErrBadKey
			}
			key.WriteByte(s[i])
		case c < ' ' || c > '~':
			return "", ErrBadKey
		default:
			key.WriteByte(c)
		}
	}
	return "", ErrBadKey
}

// token reports whether a text may stand for itself.
func token(s string) bool {
	return s != "" && len(s) <= maxKey && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:+/=") == ""
}

// parameters reports whether a text has the form of parameters: they begin with ; and hold
// printable characters.
func parameters(s string) bool {
	return strings.HasPrefix(s, ";") && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
