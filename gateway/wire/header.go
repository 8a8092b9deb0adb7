package wire

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeHeader is a text as the value of an Mcp- header: as it is where a header can carry
// it, else in base64 with a mark around it. A text that looks marked is encoded too.
func EncodeHeader(s string) string {
	plain := s == strings.TrimSpace(s) && !looksEncoded(s)
	for i := 0; plain && i < len(s); i++ {
		plain = ' ' <= s[i] && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(s)) + encodedSuffix
}

// DecodeHeader reverses EncodeHeader; ok is false for a mark around what is no base64 of a
// text.
func DecodeHeader(v string) (s string, ok bool) {
	if !looksEncoded(v) {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(v[len(encodedPrefix) : len(v)-len(encodedSuffix)])
	if err != nil || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}

func looksEncoded(s string) bool {
	return len(s) >= len(encodedPrefix)+len(encodedSuffix) &&
		strings.EqualFold(s[:len(encodedPrefix)], encodedPrefix) && strings.HasSuffix(s, encodedSuffix)
}
