package sandbox

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// form reads the fields of a body. The first thing wrong is kept and told by done.
type form struct {
	fields map[string]any
	known  []string
	wrong  *problem
}

const maxText = 4096

func (f *form) fail(field, format string, args ...any) {
	if f.wrong == nil {
		f.wrong = invalid(field, format, args...)
	}
}

// take returns a field that is present and not null.
func (f *form) take(name string) (any, bool) {
	f.known = append(f.known, name)
	v := f.fields[name]
	return v, v != nil
}

// text reads an optional text; a number counts as its digits.
func (f *form) text(name string) string { return f.textUpTo(name, maxText) }

func (f *form) textUpTo(name string, limit int) string {
	v, ok := f.take(name)
	if !ok {
		return ""
	}
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case json.Number:
		s = string(v)
	default:
		f.fail(name, "want text")
		return ""
	}
	if utf8.RuneCountInString(s) > limit {
		f.fail(name, "longer than %d characters", limit)
	}
	return s
}

// needText reads a text that may not be missing or empty.
func (f *form) needText(name string) string {
	s := f.textUpTo(name, 255)
	if s == "" {
		f.fail(name, "missing")
	}
	return s
}

// integer reads an integer that may not be missing.
func (f *form) integer(name string) int64 {
	v, ok := f.take(name)
	if !ok {
		f.fail(name, "missing")
		return 0
	}
	n, isNumber := v.(json.Number)
	i, err := strconv.ParseInt(string(n), 10, 64)
	if !isNumber || err != nil || i > 1e12 || i < -1e12 {
		f.fail(name, "want an integer number")
	}
	return i
}

// date reads a day that may not be missing.
func (f *form) date(name string) time.Time {
	t, err := time.Parse(time.DateOnly, f.needText(name))
	if err != nil {
		f.fail(name, "want a date such as 2026-11-30")
	}
	return t
}

// labels reads an optional object of short texts.
func (f *form) labels(name string) map[string]string {
	v, ok := f.take(name)
	if !ok {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok || len(m) > 20 {
		f.fail(name, "want an object of at most 20 texts")
		return nil
	}
	out := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s, ok := m[k].(string)
		if !ok || k == "" || len(k) > 40 || len(s) > 500 {
			f.fail(name, "want texts of at most 500 bytes under names of at most 40")
			return nil
		}
		out[k] = s
	}
	return out
}

// done reports the first thing wrong, unknown fields included.
func (f *form) done() error {
	if f.wrong != nil {
		return f.wrong
	}
	for _, name := range slices.Sorted(maps.Keys(f.fields)) {
		if !slices.Contains(f.known, name) {
			shown := name
			if len(shown) > 64 {
				shown = shown[:64]
			}
			return invalid(strings.ToValidUTF8(shown, ""), "no such field; this endpoint has %s", strings.Join(f.known, ", "))
		}
	}
	return nil
}
