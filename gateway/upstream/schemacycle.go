package upstream

import (
	"net/url"
	"strconv"
	"strings"
)

// endless reports whether reading a value by a schema might never end: a part of it leads
// back to itself without going into the value, or refers in a way that is not followed here.
// Servers write schemas, and a validator that goes round ends the whole process.
func endless(root any) bool {
	c := &cycles{root: root, done: map[string]bool{}, open: map[string]bool{}}
	return c.everywhere(root, "")
}

// cycles looks for ways from a place of a schema back to it. Places are JSON pointers.
type cycles struct {
	root       any
	done, open map[string]bool
}

// everywhere begins at each object of the schema.
func (c *cycles) everywhere(v any, at string) bool {
	switch v := v.(type) {
	case map[string]any:
		if c.from(at) {
			return true
		}
		for name, x := range v {
			if c.everywhere(x, at+"/"+escapePointer(name)) {
				return true
			}
		}
	case []any:
		for i, x := range v {
			if c.everywhere(x, at+"/"+strconv.Itoa(i)) {
				return true
			}
		}
	}
	return false
}

// from follows what is applied to the same value as the schema at a place.
func (c *cycles) from(at string) bool {
	if c.open[at] {
		return true
	}
	if c.done[at] {
		return false
	}
	c.open[at] = true
	defer func() { delete(c.open, at); c.done[at] = true }()
	schema, _ := c.find(at).(map[string]any)
	for name, x := range schema {
		in := at + "/" + escapePointer(name)
		switch name {
		case "$dynamicRef", "$recursiveRef", "$id", "$anchor":
			if name != "$id" || at != "" {
				return true
			}
		case "$ref":
			text, _ := x.(string)
			place, ok := strings.CutPrefix(text, "#")
			if place, err := url.PathUnescape(place); err != nil || !ok || place != "" && place[0] != '/' || c.from(place) {
				return true
			}
		case "not", "if", "then", "else":
			if c.from(in) {
				return true
			}
		case "allOf", "anyOf", "oneOf":
			list, _ := x.([]any)
			for i := range list {
				if c.from(in + "/" + strconv.Itoa(i)) {
					return true
				}
			}
		case "dependentSchemas", "dependencies":
			each, _ := x.(map[string]any)
			for key := range each {
				if c.from(in + "/" + escapePointer(key)) {
					return true
				}
			}
		}
	}
	return false
}

func (c *cycles) find(at string) any {
	v := c.root
	if at == "" {
		return v
	}
	for _, name := range strings.Split(at[1:], "/") {
		switch x := v.(type) {
		case map[string]any:
			v = x[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
