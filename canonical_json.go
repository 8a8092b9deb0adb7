package pawl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendJSON appends the one canonical JSON text of a value that ParseJSON could have
// made; int, int64 and []string count as such. Keys are sorted by code point, there are
// no spaces, numbers are as they were written, and everything outside ' ' to '~' is a
// lower-case \u escape or one of \n \t \r \b \f \" \\.
//
// Anything else, such as a float, invalid UTF-8 or NUL, is a *JSONError, and then the
// bytes appended are of no use.
func AppendJSON(dst []byte, v any) ([]byte, error) {
	dst, err := appendValue(dst, v, 0)
	if err != nil {
		return dst, err
	}
	return dst, nil
}

func cannot(what string) *JSONError { return &JSONError{Offset: -1, What: what} }

func appendValue(dst []byte, v any, depth int) ([]byte, *JSONError) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendText(dst, v)
	case json.Number:
		if v == "" || scanNumber(string(v), 0) != len(v) {
			return dst, cannot("not a JSON number")
		}
		return append(dst, v...), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case map[string]any:
		if depth >= MaxDepth {
			return dst, cannot(fmt.Sprintf("nested deeper than %d", MaxDepth))
		}
		return appendObject(dst, v, depth+1)
	case []any:
		return appendArray(dst, v, depth)
	case []string:
		return appendArray(dst, v, depth)
	}
	return dst, cannot(fmt.Sprintf("no JSON of ours has a Go %T", v))
}

func appendArray[T any](dst []byte, list []T, depth int) ([]byte, *JSONError) {
	if depth >= MaxDepth {
		return dst, cannot(fmt.Sprintf("nested deeper than %d", MaxDepth))
	}
	dst = append(dst, '[')
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err *JSONError
		if dst, err = appendValue(dst, e, depth+1); err != nil {
			return dst, err.in(strconv.Itoa(i))
		}
	}
	return append(dst, ']'), nil
}

func appendObject(dst []byte, object map[string]any, depth int) ([]byte, *JSONError) {
	var space [16]string // enough for most, without an allocation
	keys := space[:0]
	for k := range object {
		keys = append(keys, k)
	}
	slices.Sort(keys) // the order of UTF-8 bytes is that of code points
	var folds foldedKeys
	dst = append(dst, '{')
	for i, k := range keys {
		if folds.clash(k, slices.Values(keys[:i])) {
			return dst, cannot(keyClash).in(k)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		var err *JSONError
		if dst, err = appendText(dst, k); err != nil {
			err.What = "in a key: " + err.What
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = appendValue(dst, object[k], depth); err != nil {
			return dst, err.in(k)
		}
	}
	return append(dst, '}'), nil
}

func appendText(dst []byte, s string) ([]byte, *JSONError) {
	dst = append(dst, '"')
	plain := 0 // everything before it is in dst
	for i := 0; i < len(s); {
		c := s[i]
		if ' ' <= c && c <= '~' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[plain:i]...)
		r, n := rune(c), 1
		if c >= utf8.RuneSelf {
			if r, n = utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 {
				return dst, cannot("invalid UTF-8 in a string")
			}
		}
		if r == 0 {
			return dst, cannot("NUL in a string")
		}
		dst = appendEscaped(dst, r)
		i += n
		plain = i
	}
	dst = append(dst, s[plain:]...)
	return append(dst, '"'), nil
}

// appendEscaped appends the escape of one rune that may not stand for itself.
func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	if r > 0xFFFF {
		high, low := utf16.EncodeRune(r)
		return appendUnit(appendUnit(dst, high), low)
	}
	return appendUnit(dst, r)
}

func appendUnit(dst []byte, unit rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
}
