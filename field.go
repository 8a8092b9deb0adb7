package pawl

import (
	"errors"
	"fmt"
)

// Field is one identity field: where its value comes from and how it is made canonical.
type Field struct {
	// Name is the field's name in the identity.
	Name string `json:"name"`
	// From lists where to look in the arguments: argument names, or JSON pointers, which
	// start with '/'. The first that has a value wins. Empty means Name.
	From []string `json:"from,omitempty"`
	// Rule makes the value canonical.
	Rule Rule `json:"rule"`
	// Optional: missing, null and empty are one canonical "", instead of a refusal.
	Optional bool `json:"optional,omitempty"`
	// Prefix is put in front of a text that lacks it, before Pattern is checked. Both apply
	// to text, raw, upper, lower and enum, and to each element of a list, set or multiset
	// of these; they see the text before its letters change case.
	Prefix string `json:"prefix,omitempty"`
	// Pattern is a regular expression (RE2) that the whole text must match.
	Pattern string `json:"pattern,omitempty"`
}

// Text is a field read as text from the argument of its name.
func Text(name string) Field { return Field{Name: name} }

// Integer is a field read as an integer of any size.
func Integer(name string) Field { return Field{Name: name, Rule: Rule{Kind: RuleInteger}} }

// Decimal is a field read as a number with exactly that many decimal places.
func Decimal(name string, digits int) Field {
	return Field{Name: name, Rule: Rule{Kind: RuleDecimal, Digits: digits}}
}

// Money is a field read as an amount of the currency that another argument names, or of
// a fixed one as in "=EUR".
func Money(name, currency string) Field {
	return Field{Name: name, Rule: Rule{Kind: RuleMoney, Currency: currency}}
}

// Multiset is a field read as a list of texts whose order does not matter.
func Multiset(name string) Field { return Field{Name: name, Rule: Rule{Kind: RuleMultiset}} }

// Pairs is a field read from two arrays that belong together by position, such as the
// items to exchange and those wanted instead. The order of the pairs does not matter.
func Pairs(name, first, second string) Field {
	return Field{Name: name, From: []string{first}, Rule: Rule{Kind: RuleMultiset, Of: &Rule{Kind: RuleZip, With: second}}}
}

// FieldError says why a field has no canonical value. It never holds a value.
type FieldError struct {
	// Field is the field's name in the identity.
	Field string
	// Pointer is the JSON pointer of the place in the arguments.
	Pointer string
	// Missing: there is no value, or an empty one, and the field is not optional.
	Missing bool
	// What is wrong.
	What string
}

// Error gives field, place and reason on one line.
func (e *FieldError) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("identity field %q: %s", e.Field, e.What)
	}
	return fmt.Sprintf("identity field %q at %s: %s", e.Field, e.Pointer, e.What)
}

// in puts a name or an index in front of the place.
func (e *FieldError) in(segment string) *FieldError {
	e.Pointer = "/" + printableName(segment) + e.Pointer
	return e
}

// isMissing reports whether a field was refused because it has no value.
func isMissing(err error) bool {
	var f *FieldError
	return errors.As(err, &f) && f.Missing
}

// Canonical returns the field's canonical value in the arguments as ParseJSON gave them:
// a string, a []any of canonical values, or for an object a map[string]any of them.
// AppendJSON gives its one text. The error is a *FieldError.
func (f Field) Canonical(args map[string]any) (any, error) {
	v, err := f.canonical(args, false)
	if err != nil {
		err.Field = f.Name
		return nil, err
	}
	return v, nil
}

// canonical reads the field from arguments or, for a member, from its object. Element
// says that the object is an element of an array.
func (f *Field) canonical(args map[string]any, element bool) (any, *FieldError) {
	v, place, err := f.find(args, element)
	switch {
	case err != nil:
		return nil, err.at(place)
	case v != nil:
		return v, nil
	}
	// Half of a pair of arrays is no empty value, not even of an optional field.
	if with := f.Rule.with(); with != "" {
		if second, _ := lookup(args, with); !empty(second) {
			return nil, fault("has no value, and the array it is paired with has").at(f.places()[0])
		}
	}
	if f.Optional {
		return "", nil
	}
	return nil, (&FieldError{Missing: true, What: "is missing, null or empty"}).at(f.places()[0])
}

// places lists where the field is looked for.
func (f *Field) places() []string {
	if len(f.From) == 0 {
		return []string{f.Name}
	}
	return f.From
}

// find returns the first value that is not empty, canonical, and its place.
func (f *Field) find(args map[string]any, element bool) (v any, place string, err *FieldError) {
	in := reading{args: args, prefix: f.Prefix, pattern: f.Pattern, element: element}
	for _, place = range f.places() {
		v, _ = lookup(args, place)
		if v, err = f.Rule.canonical(v, &in); err != nil || v != nil {
			return v, place, err
		}
	}
	return nil, "", nil
}

// sources lists the argument names and JSON pointers of what went into the field: its
// value, the empty ones that were passed over, and the second array of a zip. What an
// object holds beyond its named members did not go in.
func (f *Field) sources(args map[string]any) []string {
	_, found, _ := f.find(args, false)
	var out []string
	for _, place := range f.places() {
		if object, ok := at(args, place).(map[string]any); ok && f.Rule.Kind == RuleObject {
			for i := range f.Rule.Fields {
				for _, member := range f.Rule.Fields[i].sources(object) {
					out = append(out, asPointer(place)+asPointer(member))
				}
			}
		} else {
			out = append(out, place)
		}
		if place == found {
			break
		}
	}
	if with := f.Rule.with(); with != "" {
		out = append(out, with)
	}
	return out
}
