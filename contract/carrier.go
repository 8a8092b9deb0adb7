package contract

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
)

// keyForm is how a tool's key looks outside.
type keyForm struct {
	encoding pawl.KeyEncoding
	quoted   bool // as a structured-field string (RFC 8941)
}

func (f keyForm) encode(k pawl.Key) (string, error) {
	s, err := k.Encode(f.encoding)
	if err == nil && f.quoted {
		s = `"` + s + `"`
	}
	return s, err
}

func formOf(e encoding) keyForm {
	if e == "sf-string" {
		return keyForm{quoted: true}
	}
	return keyForm{encoding: pawl.KeyEncoding(e)}
}

// alphabets holds every character that an encoding can produce.
var alphabets = map[encoding]string{
	"hex": "0123456789abcdef", "hex64": "0123456789abcdef", "uuid": "0123456789abcdef-",
	"base62":    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	"base32hex": "0123456789abcdefghijklmnopqrstuv", "base32hex26": "0123456789abcdefghijklmnopqrstuv",
	"sf-string": "0123456789abcdef\"",
}

// carriers compiles key and marker. Both carry the same value, so they have one encoding.
func (c *compiler) carriers(t *tool, path string) {
	if k := t.terms.Key; k != nil {
		c.carrier(path+"/key", k)
		t.keyForm = formOf(k.Encoding)
		t.attach = append(t.attach, *k)
	}
	if m := t.terms.Marker; m != nil {
		c.carrier(path+"/marker", m)
		if k := t.terms.Key; k != nil && formOf(k.Encoding) != formOf(m.Encoding) {
			c.fail(path+"/marker", "key and marker carry the same value: give both the same encoding")
		}
		t.keyForm = formOf(m.Encoding)
		if t.terms.Key != nil {
			t.keyForm = formOf(t.terms.Key.Encoding)
		}
		t.attach = append(t.attach, *m)
	}
}

// carrier checks place and form of a key.
func (c *compiler) carrier(path string, k *carrierTerms) {
	switch k.Carrier {
	case "header":
		if canonical, ok := c.header(path+"/name", k.Name); ok && secretHeader(canonical) {
			c.fail(path+"/name", "%s carries a credential and cannot carry the key", canonical)
		}
	case "json_pointer":
		if !strings.HasPrefix(k.Name, "/") || k.Name == "/" {
			c.fail(path+"/name", "want a JSON pointer into the body, such as /metadata/idempotency_key")
		}
	case "query":
		if k.Name == "" {
			c.fail(path+"/name", "want the name of the query parameter")
		}
	case "resource_id":
		if k.Name != "" {
			c.fail(path+"/name", "the resource's id has no name: it stands in the path as {key}")
		}
	}
	e := k.Encoding
	if e == "" {
		e = "hex"
	}
	if problem := k.misfit(e); problem != "" {
		var fits []string
		for _, other := range encoding("").words() {
			if k.misfit(encoding(other)) == "" {
				fits = append(fits, other)
			}
		}
		if len(fits) == 0 {
			c.fail(path, "encoding %s %s, and no other encoding fits either", e, problem)
		} else {
			c.fail(path, "encoding %s %s: use %s", e, problem, strings.Join(fits, " or "))
		}
	}
	if k.Charset != "" {
		if _, err := regexp.Compile("^(?:" + k.Charset + ")$"); err != nil {
			c.fail(path+"/charset", "want a character class such as [A-Za-z0-9_-]")
		}
	}
}

// carried checks that the request has the places in which it carries the key.
func (c *compiler) carried(t *tool, path string) {
	r := t.request
	for i, a := range t.attach {
		at := path + "/key"
		if i > 0 || t.terms.Key == nil {
			at = path + "/marker"
		}
		switch a.Carrier {
		case "header":
			if _, taken := r.headers[http.CanonicalHeaderKey(a.Name)]; taken {
				c.fail(at+"/name", "header %s is set by the request or its upstream already", a.Name)
			}
		case "json_pointer":
			if r.body == nil {
				c.fail(at+"/carrier", "the request has no body: add body, or use another carrier")
			}
			for _, other := range t.attach[:i] {
				if other.Carrier == "json_pointer" && other.Name != a.Name && overlap(other.Name, a.Name) {
					c.fail(at+"/name", "%s and %s cannot both be in the body: one is a part of the other", other.Name, a.Name)
				}
			}
		case "resource_id":
			if !slices.ContainsFunc(r.path, keyInParts) {
				c.fail(path+"/request/path", "the key is the resource's id, and the path does not have it: write {key}")
			}
		}
	}
}

// overlap reports whether one of two places in a body is the other or lies within it, so
// that a value written to one would take the other's place.
func overlap(a, b string) bool {
	return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/")
}

// misfit says why a key in the given encoding is none that the provider takes.
func (k *carrierTerms) misfit(e encoding) string {
	sample, err := formOf(e).encode(pawl.Key{})
	if err != nil {
		return "is unknown"
	}
	switch n := len(sample); {
	case k.MaxLen > 0 && n > k.MaxLen:
		return "is longer than max_len"
	case n < k.MinLen:
		return "is shorter than min_len"
	}
	if k.Charset == "" {
		return ""
	}
	class, err := regexp.Compile("^(?:" + k.Charset + ")$")
	if err != nil {
		return "" // reported as such
	}
	if slices.ContainsFunc([]rune(alphabets[e]), func(r rune) bool { return !class.MatchString(string(r)) }) {
		return "has characters outside charset"
	}
	return ""
}

// attachments are the places of the request that carry the key.
func (t *tool) attachments(key string) []attachment {
	var list []attachment
	for _, a := range t.attach {
		switch a.Carrier {
		case "resource_id":
		case "argument":
			list = append(list, attachment{"json_pointer", argumentPlace(a.Name), key})
		default:
			list = append(list, attachment{a.Carrier, a.Name, key})
		}
	}
	return list
}
