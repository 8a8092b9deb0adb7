package pawl

import "strings"

// maxValidDepth is how deep encoding/json reads.
const maxValidDepth = 10000

// validJSON reports what json.Valid does, in a third of the time: every document that is kept
// is looked at more than once.
func validJSON(b []byte) bool {
	i, ok := skipValue(b, skipSpace(b, 0), 0)
	return ok && skipSpace(b, i) == len(b)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the place behind the value that begins at i.
func skipValue(b []byte, i, depth int) (int, bool) {
	if i >= len(b) || depth > maxValidDepth {
		return i, false
	}
	switch c := b[i]; c {
	case '"':
		return skipText(b, i+1)
	case '{', '[':
		return skipMembers(b, i+1, depth+1, c == '{')
	case 't':
		return skipWord(b, i, "true")
	case 'f':
		return skipWord(b, i, "false")
	case 'n':
		return skipWord(b, i, "null")
	}
	end := scanNumber(b, i)
	return end, end >= 0
}

func skipWord(b []byte, i int, word string) (int, bool) {
	end := i + len(word)
	return end, end <= len(b) && string(b[i:end]) == word
}

// skipMembers skips an object or an array behind its opening bracket.
func skipMembers(b []byte, i, depth int, named bool) (int, bool) {
	closing := byte(']')
	if named {
		closing = '}'
	}
	if i = skipSpace(b, i); i < len(b) && b[i] == closing {
		return i + 1, depth <= maxValidDepth
	}
	for ok := true; ; i = skipSpace(b, i+1) {
		if named {
			if i >= len(b) || b[i] != '"' {
				return i, false
			}
			if i, ok = skipText(b, i+1); !ok {
				return i, false
			}
			if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
				return i, false
			}
			i = skipSpace(b, i+1)
		}
		if i, ok = skipValue(b, i, depth); !ok {
			return i, false
		}
		i = skipSpace(b, i)
		switch {
		case i >= len(b):
			return i, false
		case b[i] == closing:
			return i + 1, true
		case b[i] != ',':
			return i, false
		}
	}
}

// skipText skips a string behind its opening quote.
func skipText(b []byte, i int) (int, bool) {
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c < ' ':
			return i, false
		case c != '\\':
			i++
			continue
		}
		if i++; i >= len(b) {
			return i, false
		}
		if b[i] != 'u' {
			if strings.IndexByte(`"\/bfnrt`, b[i]) < 0 {
				return i, false
			}
			i++
			continue
		}
		for range 4 {
			if i++; i >= len(b) || !isHex(b[i]) {
				return i, false
			}
		}
		i++
	}
	return i, false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
