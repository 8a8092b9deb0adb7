package pawl

import (
	"maps"
	"strconv"
	"strings"
)

// A place is where a value is found in the arguments: an argument name, or a JSON
// pointer (RFC 6901), which starts with '/'.

var pointerToken, pointerEscape = strings.NewReplacer("~1", "/", "~0", "~"), strings.NewReplacer("~", "~0", "/", "~1")

// tokens splits a place into the names and indexes that lead there.
func tokens(place string) []string {
	if !strings.HasPrefix(place, "/") {
		return []string{place}
	}
	list := strings.Split(place[1:], "/")
	for i, t := range list {
		list[i] = pointerToken.Replace(t)
	}
	return list
}

// asPointer writes a place as a JSON pointer.
func asPointer(place string) string {
	if strings.HasPrefix(place, "/") {
		return place
	}
	return "/" + pointerEscape.Replace(place)
}

// lookup finds the value at a place.
func lookup(args map[string]any, place string) (v any, found bool) {
	if !strings.HasPrefix(place, "/") {
		v, found = args[place]
		return v, found
	}
	v = args
	for _, token := range tokens(place) {
		switch in := v.(type) {
		case map[string]any:
			if v, found = in[token]; !found {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) || strconv.Itoa(i) != token {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// at is the value at a place, nil where there is none.
func at(args map[string]any, place string) any {
	v, _ := lookup(args, place)
	return v
}

// without copies args down to the places and leaves those out. An array is left out
// whole or not at all.
func without(args map[string]any, places []string) map[string]any {
	out := maps.Clone(args)
	for _, p := range places {
		in, rest := out, tokens(p)
		for len(rest) > 1 {
			child, ok := in[rest[0]].(map[string]any)
			if !ok {
				break
			}
			child = maps.Clone(child)
			in[rest[0]] = child
			in, rest = child, rest[1:]
		}
		if len(rest) == 1 {
			delete(in, rest[0])
		}
	}
	return out
}
