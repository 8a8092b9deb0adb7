package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Member is one member of a JSON object; its value is the bytes that came.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Object is a JSON object whose values are left as they came, in their order.
type Object []Member

// ErrObject: a text is no JSON object that can be understood in one way only.
var ErrObject = errors.New("not a JSON object")

// ParseObject reads the members of one object. Two members of one name, in whatever case,
// are refused: readers differ in which of them they take.
func ParseObject(raw []byte) (Object, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("%w: invalid UTF-8", ErrObject)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, ErrObject
	}
	var o Object
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: it ends early or has no name where one is due", ErrObject)
		}
		name, _ := t.(string) // More and the grammar allow nothing else
		fold := strings.ToLower(name)
		if seen[fold] {
			return nil, fmt.Errorf("%w: member %q is there twice", ErrObject, shorten(name))
		}
		seen[fold] = true
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("%w: the value of %q is no JSON", ErrObject, shorten(name))
		}
		o = append(o, Member{name, v})
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%w: it ends early", ErrObject)
	}
	if len(bytes.TrimSpace(raw[d.InputOffset():])) > 0 {
		return nil, fmt.Errorf("%w: there is more text behind it", ErrObject)
	}
	return o, nil
}

// shorten makes a name from outside fit for a message.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// Get is the value of a member; nil where there is none or it is null.
func (o Object) Get(name string) json.RawMessage {
	for _, m := range o {
		if m.Name == name {
			if string(m.Value) == "null" {
				return nil
			}
			return m.Value
		}
	}
	return nil
}

// Text is the value of a member that is a string; ok is false where it is anything else.
func (o Object) Text(name string) (s string, ok bool) {
	v := o.Get(name)
	if len(v) == 0 || v[0] != '"' || json.Unmarshal(v, &s) != nil {
		return "", false
	}
	return s, true
}

// With is the object with a member set; the others and their order stay. The receiver is
// not changed.
func (o Object) With(name string, value json.RawMessage) Object {
	c := make(Object, 0, len(o)+1)
	found := false
	for _, m := range o {
		if m.Name == name {
			m.Value, found = value, true
		}
		c = append(c, m)
	}
	if !found {
		c = append(c, Member{name, value})
	}
	return c
}

// Without is the object less the members whose names drop wants gone.
func (o Object) Without(drop func(name string) bool) Object {
	c := make(Object, 0, len(o))
	for _, m := range o {
		if !drop(m.Name) {
			c = append(c, m)
		}
	}
	return c
}

// JSON is the object as text. A member without a value is null.
func (o Object) JSON() json.RawMessage {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, quote(m.Name)...), ':')
		if len(m.Value) == 0 {
			b = append(b, "null"...)
		} else {
			b = append(b, m.Value...)
		}
	}
	return append(b, '}')
}

// Quote is a text as a JSON string.
func Quote(s string) json.RawMessage { return quote(s) }

func quote(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("wire: a string does not encode: " + err.Error()) // every string does
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Meta is the _meta of params or of a result; empty where there is none or the params are
// none that are understood.
func Meta(params json.RawMessage) Object {
	o, err := ParseObject(params)
	if err != nil {
		return nil
	}
	meta, err := ParseObject(o.Get("_meta"))
	if err != nil {
		return nil
	}
	return meta
}

// EditMeta changes the _meta of params and leaves every other member as it came. Params
// that are absent become an object; an empty _meta is left out.
func EditMeta(params json.RawMessage, edit func(Object) Object) (json.RawMessage, error) {
	if len(params) == 0 || string(params) == "null" {
		params = json.RawMessage("{}")
	}
	o, err := ParseObject(params)
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	var meta Object
	if raw := o.Get("_meta"); raw != nil {
		if meta, err = ParseObject(raw); err != nil {
			return nil, fmt.Errorf("params: _meta: %w", err)
		}
	}
	if meta = edit(meta); len(meta) == 0 {
		return o.Without(func(name string) bool { return name == "_meta" }).JSON(), nil
	}
	return o.With("_meta", meta.JSON()).JSON(), nil
}
