package receiver

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep a JSON text may be nested to count by its value.
const maxDepth = 100

// canonicalJSON writes a JSON text with its names sorted, without blanks, each number in one
// spelling. A text that two readers may take for different values has no canonical form:
// one that names a member twice, holds invalid characters, or is nested very deep.
func canonicalJSON(raw []byte) ([]byte, bool) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return appendCanonical(nil, d, 0)
}

func appendCanonical(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	token, err := d.Token()
	if err != nil || depth > maxDepth {
		return nil, false
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return appendObject(b, d, depth)
		}
		return appendArray(b, d, depth)
	case json.Number:
		return append(b, canonicalNumber(string(v))...), true
	case string:
		if strings.ContainsRune(v, utf8.RuneError) {
			return nil, false // it may stand for half of a pair
		}
		return appendText(b, v), true
	case bool:
		return strconv.AppendBool(b, v), true
	}
	return append(b, "null"...), true
}

func appendArray(b []byte, d *json.Decoder, depth int) (_ []byte, ok bool) {
	b = append(b, '[')
	for i := 0; d.More(); i++ {
		if i > 0 {
			b = append(b, ',')
		}
		if b, ok = appendCanonical(b, d, depth+1); !ok {
			return nil, false
		}
	}
	_, err := d.Token() // the bracket
	return append(b, ']'), err == nil
}

func appendObject(b []byte, d *json.Decoder, depth int) ([]byte, bool) {
	members := map[string][]byte{}
	var names []string
	for d.More() {
		token, err := d.Token()
		name, text := token.(string)
		if err != nil || !text || strings.ContainsRune(name, utf8.RuneError) {
			return nil, false
		}
		if _, twice := members[name]; twice {
			return nil, false
		}
		value, ok := appendCanonical(nil, d, depth+1)
		if !ok {
			return nil, false
		}
		members[name] = value
		names = append(names, name)
	}
	if _, err := d.Token(); err != nil { // the bracket
		return nil, false
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(appendText(b, name), ':'), members[name]...)
	}
	return append(b, '}'), true
}

func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic("receiver: " + err.Error()) // a text always marshals
	}
	return append(b, text...)
}

// canonicalNumber spells equal numbers alike: the digits without zeros around them, and the
// power of ten. An exponent of more than nine digits counts by its spelling.
func canonicalNumber(s string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	power := 0
	if exponent != "" {
		var err error
		if power, err = strconv.Atoi(exponent); err != nil || len(exponent) > 10 {
			return s
		}
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	power -= len(fraction)
	short := strings.TrimRight(digits, "0")
	power += len(digits) - len(short)
	if short == "" {
		return "0"
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + short + "e" + strconv.Itoa(power)
}
