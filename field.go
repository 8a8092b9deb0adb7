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
	v, err := f.canonical(args)
	if err != nil {
		err.Field = f.Name
		return nil, err
	}
	return v, nil
}

func (f *Field) canonical(args map[string]any) (any, *FieldError) {
	in := reading{args: args, prefix: f.Prefix, pattern: f.Pattern}
	own := [1]string{f.Name}
	places := f.From
	if len(places) == 0 {
		places = own[:]
	}
	for _, place := range places {
		v, _ := lookup(args, place)
		canonical, err := f.Rule.canonical(v, &in)
		if err != nil {
			return nil, err.at(place)
		}
		if canonical != nil {
			return canonical, nil
		}
	}
	// Half of a pair of arrays is no empty value, not even of an optional field.
	if with := f.Rule.with(); with != "" {
		if second, _ := lookup(args, with); !empty(second) {
			return nil, fault("has no value, and the array it is paired with has").at(places[0])
		}
	}
	if f.Optional {
		return "", nil
	}
	return nil, (&FieldError{Missing: true, What: "is missing, null or empty"}).at(places[0])
}
