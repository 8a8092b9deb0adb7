package evidence

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html"
	"slices"
	"strconv"
	"strings"
)

// minSecret is the least size of a secret that is looked for. A shorter one could stand in
// an answer by chance, and its replacement would change what the answer says.
const minSecret = 12

// mask stands where a secret was.
const mask = "***"

// secrets are the secrets of one request that are looked for in its answer, longest first.
type secrets []string

func secretsOf(r *Request) secrets {
	var list secrets
	for _, s := range r.Secrets {
		list = append(append(list, s), strings.Fields(s)...) // a scheme and its token are often parted
	}
	list = slices.DeleteFunc(list, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(list)
}

// hide takes the secrets out of everything that the other end may have said.
func (s secrets) hide(o *Observation) {
	if len(s) == 0 {
		return
	}
	o.Err = s.maskError(o.Err)
	res := o.Response
	if res == nil {
		return
	}
	for _, values := range res.Header {
		for i, v := range values {
			values[i] = string(s.mask([]byte(v)))
		}
	}
	body := s.maskBody(res.Body)
	if res.Intact() != nil {
		body = s.maskEnd(body)
	}
	if len(body) != len(res.Body) {
		res.digest, res.Body = res.SHA256(), body
	}
	res.BodyErr = s.maskError(res.BodyErr)
}

// mask replaces the secrets of a text. The result is shorter, or the text itself.
func (s secrets) mask(text []byte) []byte {
	for _, secret := range s {
		if bytes.Contains(text, []byte(secret)) {
			text = bytes.ReplaceAll(text, []byte(secret), []byte(mask))
		}
		if strings.Trim(secret, unescaped) == "" {
			continue
		}
		for _, e := range escapes {
			if bytes.IndexByte(text, e.mark) >= 0 {
				text = e.mask(text, secret)
			}
		}
	}
	return text
}

// maskBody is mask for a body: one that was JSON stays JSON. Where a secret is more or
// less than the content of a string in it, such as a number, all of it is replaced.
func (s secrets) maskBody(body []byte) []byte {
	masked := s.mask(body)
	if len(masked) != len(body) && json.Valid(body) && !json.Valid(masked) {
		return []byte(`"` + mask + `"`)
	}
	return masked
}

// maskEnd replaces the part of a secret that the end of a cut body has left of it.
func (s secrets) maskEnd(body []byte) []byte {
	for _, secret := range s {
		for n := min(len(secret)-1, len(body)); n >= minSecret; n-- {
			if rest, ok := bytes.CutSuffix(body, []byte(secret[:n])); ok {
				return append(bytes.Clone(rest), mask...)
			}
		}
	}
	return body
}

// maskError is the error with another text; errors.Is and errors.As see the error itself.
func (s secrets) maskError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	masked := s.mask([]byte(text))
	if len(masked) == len(text) {
		return err
	}
	return &maskedError{string(masked), err}
}

type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.err }

// unescaped are the characters that no answer has a reason to escape.
const unescaped = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._~"

// escape is a way to spell characters of a secret, begun by a mark.
type escape struct {
	mark byte
	// decode reads the escape at the beginning of text; size is 0 if it is none of a byte.
	decode func(text []byte) (c byte, size int)
}

var escapes = []escape{{'\\', inJSON}, {'%', inURL}, {'&', inHTML}}

// mask replaces a secret wherever the text spells it with this escape.
func (e escape) mask(text []byte, secret string) []byte {
	var out []byte
	kept := 0
	for i := 0; i < len(text); {
		if n := e.spelled(text[i:], secret); n > 0 {
			out = append(append(out, text[kept:i]...), mask...)
			i += n
			kept = i
			continue
		}
		_, size := e.next(text[i:])
		i += size
	}
	if kept == 0 {
		return text
	}
	return append(out, text[kept:]...)
}

// spelled is the size of the secret's spelling at the beginning of text, 0 if it is not there.
func (e escape) spelled(text []byte, secret string) int {
	n := 0
	for i := range len(secret) {
		if n == len(text) {
			return 0
		}
		c, size := e.next(text[n:])
		if c != secret[i] {
			return 0
		}
		n += size
	}
	return n
}

// next is the first character of text, which is not empty.
func (e escape) next(text []byte) (c byte, size int) {
	if text[0] == e.mark {
		if c, size := e.decode(text); size > 0 {
			return c, size
		}
	}
	return text[0], 1
}

func inJSON(text []byte) (c byte, size int) {
	switch {
	case len(text) >= 6 && text[1] == 'u':
		return fromHex(text[2:6], 6)
	case len(text) < 2:
		return 0, 0
	case text[1] == '"', text[1] == '\\', text[1] == '/':
		return text[1], 2
	case text[1] == 't':
		return '\t', 2
	}
	return 0, 0
}

func inURL(text []byte) (c byte, size int) {
	if len(text) < 3 {
		return 0, 0
	}
	return fromHex(text[1:3], 3)
}

func inHTML(text []byte) (c byte, size int) {
	end := bytes.IndexByte(text[:min(len(text), 10)], ';')
	if end < 0 {
		return 0, 0
	}
	s := html.UnescapeString(string(text[:end+1]))
	if len(s) != 1 {
		return 0, 0
	}
	return s[0], end + 1
}

// fromHex reads a character from its digits in an escape of the given size.
func fromHex(digits []byte, size int) (byte, int) {
	n, err := strconv.ParseUint(string(digits), 16, 8)
	if err != nil {
		return 0, 0
	}
	return byte(n), size
}
