package pawl

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// reading is what the rules of one field share.
type reading struct {
	// args is where the currency of an amount and the second array of a zip are looked up:
	// the arguments, or the object that a member belongs to.
	args            map[string]any
	prefix, pattern string
	// element: the value is, or is part of, an element of an array.
	element bool
}

func fault(format string, a ...any) *FieldError { return &FieldError{What: fmt.Sprintf(format, a...)} }

// at puts an argument name or JSON pointer in front of the place.
func (e *FieldError) at(place string) *FieldError {
	if strings.HasPrefix(place, "/") {
		e.Pointer = place + e.Pointer
		return e
	}
	return e.in(place)
}

// canonical maps a value to its canonical form, nil for an empty one. Null and "" are
// empty under every rule.
func (r *Rule) canonical(v any, in *reading) (any, *FieldError) {
	if v == nil || v == "" {
		return nil, nil
	}
	switch r.Kind {
	case RuleText, "", RuleRaw, RuleUpper, RuleLower, RuleEnum:
		return r.text(v, in)
	case RuleInteger, RuleDecimal, RuleMoney:
		return r.number(v, in)
	case RuleBool:
		return r.bool(v)
	case RuleDate, RuleInstant:
		return r.time(v)
	case RuleList, RuleSet, RuleMultiset:
		return r.list(v, in)
	case RuleZip:
		return r.zip(v, in)
	case RuleObject:
		return r.object(v, in)
	}
	return nil, fault("no rule has the name %q", r.Kind)
}

// text reads a string. A JSON number counts as text only where it is an integer, which
// has one spelling: 1.1 and 1.10 would be one number and two texts.
func (r *Rule) text(v any, in *reading) (any, *FieldError) {
	kind := r.Kind
	if kind == RuleEnum && r.Of != nil {
		kind = r.Of.Kind
	}
	var s string
	switch v := v.(type) {
	case string:
		s = v
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return nil, fault("the text has invalid UTF-8 or NUL in it")
		}
	case json.Number:
		s = string(v)
		if kind == RuleRaw || !allDigits(strings.TrimPrefix(s, "-")) || s == "-0" {
			return nil, fault("want text, got a number; a number that is not an integer needs the rule decimal or money")
		}
	default:
		return nil, fault("want text, got %s", kindOf(v))
	}
	if kind != RuleRaw {
		s = norm.NFC.String(strings.TrimSpace(s))
	}
	if s == "" {
		return nil, nil
	}
	if !strings.HasPrefix(s, in.prefix) {
		s = in.prefix + s
	}
	if in.pattern != "" {
		re, err := wholePattern(in.pattern)
		if err != nil {
			return nil, fault("the pattern is no regular expression")
		}
		if !re.MatchString(s) {
			return nil, fault("does not match the pattern %q", in.pattern)
		}
	}
	s = changeCase(kind, s)
	if r.Kind == RuleEnum && !slices.Contains(r.Values, s) {
		return nil, fault("is none of the %d values of the enum", len(r.Values))
	}
	return s, nil
}

func changeCase(kind RuleKind, s string) string {
	switch kind {
	case RuleUpper:
		return norm.NFC.String(strings.ToUpper(s))
	case RuleLower:
		return norm.NFC.String(strings.ToLower(s))
	}
	return s
}

func (r *Rule) number(v any, in *reading) (any, *FieldError) {
	var s string
	switch v := v.(type) {
	case string:
		if s = strings.TrimSpace(v); s == "" {
			return nil, nil
		}
	case json.Number:
		s = string(v)
	default:
		return nil, fault("want a number, got %s", kindOf(v))
	}
	d, wrong := parseDecimal(s)
	if wrong != "" {
		return nil, fault("is %s", wrong)
	}
	places, err := r.places(in)
	if err != nil {
		return nil, err
	}
	s, exact := d.fixed(places)
	switch {
	case exact:
		return s, nil
	case r.Kind == RuleInteger:
		return nil, fault("want an integer")
	}
	return nil, fault("has more than %d decimal places", places)
}

// places is the number of decimal places of a number under the rule.
func (r *Rule) places(in *reading) (int, *FieldError) {
	switch r.Kind {
	case RuleDecimal:
		return r.Digits, nil
	case RuleMoney:
		code, literal := strings.CutPrefix(r.Currency, "=")
		if !literal {
			v, _ := lookup(in.args, r.Currency)
			var isText bool
			if code, isText = v.(string); !isText {
				return 0, fault("want the currency as text at %q, got %s", r.Currency, kindOf(v))
			}
		}
		digits, known := currencyDigits(code)
		if !known {
			return 0, fault("the currency at %q is not an active ISO 4217 code", r.Currency)
		}
		return digits, nil
	}
	return 0, nil
}

func (r *Rule) bool(v any) (any, *FieldError) {
	if s, ok := v.(string); ok {
		v = strings.TrimSpace(s)
	}
	switch v {
	case true, "true":
		return "true", nil
	case false, "false":
		return "false", nil
	case "":
		return nil, nil
	}
	return nil, fault("want true or false, got %s", kindOf(v))
}

// list reads an array, or the pairs of a zip, and sorts it unless its order counts.
func (r *Rule) list(v any, in *reading) (any, *FieldError) {
	of := r.of()
	var out []any
	if of.Kind == RuleZip {
		pairs, err := of.zip(v, in)
		if err != nil || pairs == nil {
			return nil, err
		}
		out = pairs.([]any)
	} else {
		elements, err := array(v)
		if err != nil || len(elements) == 0 {
			return nil, err
		}
		if out, err = of.elements(elements, in); err != nil {
			return nil, err
		}
	}
	if r.Kind != RuleList {
		slices.SortFunc(out, compareCanonical)
	}
	if r.Kind == RuleSet {
		out = slices.CompactFunc(out, func(a, b any) bool { return compareCanonical(a, b) == 0 })
	}
	return out, nil
}

// zip pairs two arrays by position.
func (r *Rule) zip(v any, in *reading) (any, *FieldError) {
	first, err := array(v)
	if err != nil {
		return nil, err
	}
	w, _ := lookup(in.args, r.With)
	if len(first) == 0 && empty(w) {
		return nil, nil
	}
	second, err := array(w)
	if err != nil {
		return nil, fault("the array at %q, which it is paired with: %s", r.With, err.What)
	}
	if len(first) != len(second) {
		return nil, fault("has %d elements, and the array at %q, which it is paired with, has %d", len(first), r.With, len(second))
	}
	plain := &reading{args: in.args}
	a, err := r.of().elements(first, plain)
	if err != nil {
		return nil, err
	}
	withOf := r.WithOf
	if withOf == nil {
		withOf = &Rule{}
	}
	b, err := withOf.elements(second, plain)
	if err != nil {
		return nil, fault("the array at %q, which it is paired with, at %s: %s", r.With, err.Pointer, err.What)
	}
	for i := range a {
		a[i] = []any{a[i], b[i]}
	}
	return a, nil
}

// elements maps the elements of an array; an empty one has no canonical form.
func (r *Rule) elements(list []any, in *reading) ([]any, *FieldError) {
	out := make([]any, len(list))
	inside := *in
	inside.element = true
	for i, v := range list {
		var err *FieldError
		if out[i], err = r.canonical(v, &inside); err == nil && out[i] == nil {
			err = fault("the element is null or empty")
		}
		if err != nil {
			return nil, err.in(strconv.Itoa(i))
		}
	}
	return out, nil
}

// object maps the named members; it is empty if they all are. Other members are left out
// and stay guards, except in an element of an array, which guards cannot reach into:
// there they are refused.
func (r *Rule) object(v any, in *reading) (any, *FieldError) {
	args, ok := v.(map[string]any)
	if !ok {
		return nil, fault("want an object, got %s", kindOf(v))
	}
	out := make(map[string]any, len(r.Fields))
	var missing *FieldError
	allEmpty := true
	for i := range r.Fields {
		f := &r.Fields[i]
		m, err := f.canonical(args, in.element)
		switch {
		case err != nil && err.Missing:
			missing = err
		case err != nil:
			return nil, err
		default:
			out[f.Name] = m
			allEmpty = allEmpty && m == ""
		}
	}
	if allEmpty {
		return nil, nil
	}
	if missing != nil {
		return nil, missing
	}
	if in.element {
		var named []string
		for i := range r.Fields {
			named = append(named, r.Fields[i].sources(args)...)
		}
		rest := without(args, named)
		for _, name := range slices.Sorted(maps.Keys(rest)) {
			if holdsValue(rest[name]) {
				return nil, fault("the rule names no such member, and in an array all must be named").in(name)
			}
		}
	}
	return out, nil
}

// holdsValue reports whether anything but null is left in a value.
func holdsValue(v any) bool {
	object, ok := v.(map[string]any)
	if !ok {
		return v != nil
	}
	for _, member := range object {
		if holdsValue(member) {
			return true
		}
	}
	return false
}

func array(v any) ([]any, *FieldError) {
	list, ok := v.([]any)
	if !ok {
		return nil, fault("want an array, got %s", kindOf(v))
	}
	return list, nil
}

// compareCanonical orders canonical values: texts by code point, lists by their
// elements, objects by their canonical JSON; texts before lists before objects.
func compareCanonical(a, b any) int {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b)
		}
		return -1
	case []any:
		switch b := b.(type) {
		case string:
			return 1
		case []any:
			return slices.CompareFunc(a, b, compareCanonical)
		}
		return -1
	}
	if b, ok := b.(map[string]any); ok {
		x, _ := AppendJSON(nil, a) // canonical values always have a text
		y, _ := AppendJSON(nil, b)
		return strings.Compare(string(x), string(y))
	}
	return 1
}

// empty reports whether a value is null, "" or an empty array.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	}
	return false
}

// kindOf names the JSON type of a value for messages.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "text"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a Go %T", v)
}

// Compiled patterns, kept because Field is plain data. Patterns come from contracts, so
// there are few; beyond maxPatterns they are compiled anew each time.
var (
	patterns     sync.Map // of string to *regexp.Regexp
	patternCount atomic.Int64
)

const maxPatterns = 4096

// wholePattern compiles a pattern so that it must match a whole text.
func wholePattern(pattern string) (*regexp.Regexp, error) {
	if re, ok := patterns.Load(pattern); ok {
		return re.(*regexp.Regexp), nil
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err // else "a)(b" would compile inside the group below
	}
	re, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return nil, err
	}
	if patternCount.Add(1) <= maxPatterns {
		patterns.Store(pattern, re)
	}
	return re, nil
}
