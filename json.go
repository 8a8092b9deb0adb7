package pawl

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of the JSON that ParseJSON reads.
const (
	// MaxJSON is the size in bytes of the largest text.
	MaxJSON = 1 << 20
	// MaxDepth is how deep arrays and objects may be nested.
	MaxDepth = 64
)

// ParseJSON reads exactly one JSON text of at most MaxJSON bytes, strictly: what two
// readers could understand in two ways is refused. That is, beyond the grammar of RFC
// 8259: keys of one object that are the same or differ only in case or in Unicode
// composition, invalid UTF-8, halves of surrogate pairs, NUL, and nesting beyond MaxDepth.
//
// It yields map[string]any, []any, string, json.Number (its text as written), bool and
// nil. Errors are *JSONError. Raw may be changed afterwards.
func ParseJSON(raw []byte) (any, error) { return ParseJSONLimit(raw, MaxJSON) }

// ParseJSONLimit is ParseJSON for texts of another size, such as providers' answers.
func ParseJSONLimit(raw []byte, limit int) (any, error) {
	if len(raw) > limit {
		return nil, &JSONError{Offset: limit, What: fmt.Sprintf("the text is larger than %d bytes", limit)}
	}
	p := jsonParser{s: string(raw)}
	p.space()
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.i < len(p.s) {
		return nil, p.fail("more text after the value")
	}
	return v, nil
}

// JSONError says where a JSON text or value is refused and why. It never holds a value;
// key names are in it, shortened and with everything unprintable escaped.
type JSONError struct {
	// Offset is the byte where reading stopped, or -1 where there is no text.
	Offset int
	// Pointer is the JSON pointer of the place; empty means the whole value.
	Pointer string
	// What is wrong.
	What string
}

// Error gives place and reason on one line.
func (e *JSONError) Error() string {
	var b strings.Builder
	b.WriteString("json")
	if e.Pointer != "" {
		b.WriteString(" at " + e.Pointer)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " (byte %d)", e.Offset)
	}
	return b.String() + ": " + e.What
}

// maxPointer caps the text of a place in errors.
const maxPointer = 256

// in puts a key or an index in front of the place; errors collect it on their way up,
// so that reading without one costs nothing.
func (e *JSONError) in(segment string) *JSONError {
	if len(e.Pointer) < maxPointer {
		e.Pointer = "/" + printableName(segment) + e.Pointer
	} else if !strings.HasPrefix(e.Pointer, "/…") {
		e.Pointer = "/…" + e.Pointer
	}
	return e
}

// printableName makes a name from outside fit for one line of a message: at most 64
// characters, JSON pointer escapes, and \u escapes for what is not printable.
func printableName(name string) string {
	var b strings.Builder
	n := 0
	for _, r := range name {
		if n++; n > 64 {
			b.WriteString("…")
			break
		}
		switch {
		case r == '~':
			b.WriteString("~0")
		case r == '/':
			b.WriteString("~1")
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.Write(appendEscaped(nil, r))
		}
	}
	return b.String()
}

// jsonParser reads its text in one pass. The strings it yields are parts of that text
// wherever they hold no escape.
type jsonParser struct {
	s string
	i int
}

func (p *jsonParser) fail(what string) *JSONError { return &JSONError{Offset: p.i, What: what} }

func (p *jsonParser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// value reads one value; depth counts the arrays and objects around it.
func (p *jsonParser) value(depth int) (any, *JSONError) {
	if p.i >= len(p.s) {
		return nil, p.fail("the text ends where a value is due")
	}
	switch c := p.s[p.i]; {
	case c == '"':
		return anyOf(p.text())
	case c == '{':
		if depth >= MaxDepth {
			return nil, p.fail(fmt.Sprintf("nested deeper than %d", MaxDepth))
		}
		return anyOf(p.object(depth + 1))
	case c == '[':
		if depth >= MaxDepth {
			return nil, p.fail(fmt.Sprintf("nested deeper than %d", MaxDepth))
		}
		return anyOf(p.array(depth + 1))
	case c == '-' || '0' <= c && c <= '9':
		end := scanNumber(p.s, p.i)
		if end < 0 {
			return nil, p.fail("not a JSON number")
		}
		n := json.Number(p.s[p.i:end])
		p.i = end
		return n, nil
	case c == 't' && p.literal("true"):
		return true, nil
	case c == 'f' && p.literal("false"):
		return false, nil
	case c == 'n' && p.literal("null"):
		return nil, nil
	}
	return nil, p.fail("not a JSON value")
}

func anyOf[T any](v T, err *JSONError) (any, *JSONError) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (p *jsonParser) literal(word string) bool {
	if !strings.HasPrefix(p.s[p.i:], word) {
		return false
	}
	p.i += len(word)
	return true
}

func (p *jsonParser) array(depth int) ([]any, *JSONError) {
	list := []any{}
	p.i++
	if p.space(); p.literal("]") {
		return list, nil
	}
	for {
		v, err := p.value(depth)
		if err != nil {
			return nil, err.in(fmt.Sprint(len(list)))
		}
		list = append(list, v)
		p.space()
		if p.literal("]") {
			return list, nil
		}
		if !p.literal(",") {
			return nil, p.fail("want ',' or ']' after an array element")
		}
		p.space()
	}
}

func (p *jsonParser) object(depth int) (map[string]any, *JSONError) {
	object := map[string]any{}
	p.i++
	if p.space(); p.literal("}") {
		return object, nil
	}
	var folds foldedKeys
	for {
		start := p.i
		if p.i >= len(p.s) || p.s[p.i] != '"' {
			return nil, p.fail("want a key in double quotes")
		}
		key, err := p.text()
		if err != nil {
			err.What = "in a key: " + err.What
			return nil, err
		}
		if _, twice := object[key]; twice {
			p.i = start
			return nil, p.fail("the key is there twice").in(key)
		}
		if folds.clash(key, maps.Keys(object)) {
			p.i = start
			return nil, p.fail(keyClash).in(key)
		}
		p.space()
		if !p.literal(":") {
			return nil, p.fail("want ':' after a key").in(key)
		}
		p.space()
		v, err := p.value(depth)
		if err != nil {
			return nil, err.in(key)
		}
		object[key] = v
		p.space()
		if p.literal("}") {
			return object, nil
		}
		if !p.literal(",") {
			return nil, p.fail("want ',' or '}' after an object member")
		}
		p.space()
	}
}

const keyClash = "the key differs from another one only in case or Unicode composition"

// foldedKeys finds keys of one object that differ only in case or composition. It stays
// empty as long as all keys are folded already, which the usual snake_case ones are.
type foldedKeys struct{ seen map[string]bool }

// clash reports whether a new key is equal to one of the earlier ones when both are folded.
func (f *foldedKeys) clash(key string, earlier iter.Seq[string]) bool {
	folded, same := foldKey(key)
	if f.seen == nil {
		if same {
			return false
		}
		f.seen = map[string]bool{}
		for k := range earlier {
			k, _ = foldKey(k)
			f.seen[k] = true
		}
	}
	if f.seen[folded] {
		return true
	}
	f.seen[folded] = true
	return false
}

// foldKey maps all spellings of a key that differ only in case (Unicode simple folding,
// which case-insensitive JSON readers use) or composition to one, and reports whether
// the key is that one.
func foldKey(key string) (folded string, same bool) {
	for i := 0; i < len(key); i++ {
		if c := key[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			folded = strings.Map(foldRune, norm.NFC.String(key))
			return folded, folded == key
		}
	}
	return key, true
}

// foldRune returns one rune for all that simple case folding makes equal: the lower-case
// letter in ASCII, the smallest elsewhere.
func foldRune(r rune) rune {
	least := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		least = min(least, o)
	}
	if 'A' <= least && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}

// text reads a string, from its opening quote to its closing one.
func (p *jsonParser) text() (string, *JSONError) {
	p.i++
	start, ascii := p.i, true
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			s := p.s[start:p.i]
			if !ascii && !utf8.ValidString(s) {
				p.i = start + invalidUTF8(s)
				return "", p.fail("invalid UTF-8 in a string")
			}
			p.i++
			return s, nil
		case c == '\\':
			return p.escapedText(start)
		case c < ' ':
			return "", p.fail("bare control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
		p.i++
	}
	return "", p.fail("the text ends inside a string")
}

// escapedText goes on where text found the first escape of a string that begins at start.
func (p *jsonParser) escapedText(start int) (string, *JSONError) {
	if bad := invalidUTF8(p.s[start:p.i]); bad >= 0 {
		p.i = start + bad
		return "", p.fail("invalid UTF-8 in a string")
	}
	buf := append(make([]byte, 0, p.i-start+32), p.s[start:p.i]...)
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return string(buf), nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			buf = utf8.AppendRune(buf, r)
		case c < ' ':
			return "", p.fail("bare control character in a string")
		default:
			r, n := utf8.DecodeRuneInString(p.s[p.i:])
			if r == utf8.RuneError && n == 1 {
				return "", p.fail("invalid UTF-8 in a string")
			}
			buf = append(buf, p.s[p.i:p.i+n]...)
			p.i += n
		}
	}
	return "", p.fail("the text ends inside a string")
}

// escape reads one escape; the two of a surrogate pair count as one.
func (p *jsonParser) escape() (rune, *JSONError) {
	if p.i+1 >= len(p.s) {
		return 0, p.fail("the text ends inside a string")
	}
	switch c := p.s[p.i+1]; c {
	case '"', '\\', '/':
		p.i += 2
		return rune(c), nil
	case 'b':
		p.i += 2
		return '\b', nil
	case 'f':
		p.i += 2
		return '\f', nil
	case 'n':
		p.i += 2
		return '\n', nil
	case 'r':
		p.i += 2
		return '\r', nil
	case 't':
		p.i += 2
		return '\t', nil
	case 'u':
	default:
		return 0, p.fail("unknown escape in a string")
	}
	unit := p.codeUnit(p.i)
	switch {
	case unit < 0:
		return 0, p.fail("want four hex digits after \\u")
	case unit == 0:
		return 0, p.fail("NUL in a string")
	case 0xD800 <= unit && unit < 0xDC00:
		if low := p.codeUnit(p.i + 6); 0xDC00 <= low && low < 0xE000 {
			p.i += 12
			return (unit-0xD800)<<10 + (low - 0xDC00) + 0x10000, nil
		}
		return 0, p.fail("half of a surrogate pair in a string")
	case 0xDC00 <= unit && unit < 0xE000:
		return 0, p.fail("half of a surrogate pair in a string")
	}
	p.i += 6
	return unit, nil
}

// codeUnit is the value of the \uXXXX at i, or -1 if there is none.
func (p *jsonParser) codeUnit(i int) rune {
	if i+6 > len(p.s) || p.s[i] != '\\' || p.s[i+1] != 'u' {
		return -1
	}
	var u rune
	for _, c := range []byte(p.s[i+2 : i+6]) {
		switch {
		case '0' <= c && c <= '9':
			u = u<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			u = u<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			u = u<<4 | rune(c-'A'+10)
		default:
			return -1
		}
	}
	return u
}

// invalidUTF8 is the place of the first byte that is not UTF-8, or -1.
func invalidUTF8(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

// scanNumber returns the end of the JSON number that begins at i, or -1 if none does.
func scanNumber[T string | []byte](s T, i int) int {
	digits := func() bool {
		start := i
		for i < len(s) && '0' <= s[i] && s[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(s) && s[i] == '-' {
		i++
	}
	if i < len(s) && s[i] == '0' {
		i++
	} else if !digits() {
		return -1
	}
	if i < len(s) && s[i] == '.' {
		if i++; !digits() {
			return -1
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if !digits() {
			return -1
		}
	}
	return i
}
