package pawl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Rule is a canonicaliser: it maps every spelling of one value to one string, or to a
// list of strings. The zero Rule is RuleText.
type Rule struct {
	Kind RuleKind `json:"kind,omitempty"`
	// Digits is the number of decimal places of RuleDecimal.
	Digits int `json:"digits,omitempty"`
	// Currency says where RuleMoney finds its ISO 4217 code: an argument name, a JSON
	// pointer, or a literal code after '='.
	Currency string `json:"currency,omitempty"`
	// Values are the members of RuleEnum, in canonical form.
	Values []string `json:"values,omitempty"`
	// Of is the rule of the elements of a list, set, multiset or zip; for a set or multiset
	// it may be a zip, whose pairs are then the elements. For an enum it is the text rule
	// that is applied first. Nil means RuleText.
	Of *Rule `json:"of,omitempty"`
	// With names the second array of a zip, WithOf the rule of its elements.
	With   string `json:"with,omitempty"`
	WithOf *Rule  `json:"with_of,omitempty"`
	// Fields are the members of RuleObject.
	Fields []Field `json:"fields,omitempty"`
}

// RuleKind names a canonicaliser. White space around a text is cut off under every
// rule but raw. Numbers are read from JSON numbers and from text alike and never rounded.
type RuleKind string

const (
	RuleText     RuleKind = "text"     // Unicode NFC, trimmed; of numbers only integers
	RuleRaw      RuleKind = "raw"      // the string as it is, byte for byte
	RuleUpper    RuleKind = "upper"    // text, upper case in no language's special way
	RuleLower    RuleKind = "lower"    // text, lower case likewise
	RuleInteger  RuleKind = "integer"  // every digit kept
	RuleDecimal  RuleKind = "decimal"  // exactly Digits places
	RuleMoney    RuleKind = "money"    // as many places as the currency has minor digits
	RuleBool     RuleKind = "bool"     // true or false, also as text
	RuleDate     RuleKind = "date"     // YYYY-MM-DD
	RuleInstant  RuleKind = "instant"  // RFC 3339 in UTC, no trailing zeros in the fraction
	RuleEnum     RuleKind = "enum"     // one of Values
	RuleList     RuleKind = "list"     // in order
	RuleSet      RuleKind = "set"      // sorted, each once
	RuleMultiset RuleKind = "multiset" // sorted, repeats kept
	RuleZip      RuleKind = "zip"      // two arrays paired by position
	RuleObject   RuleKind = "object"   // the named members
)

// maxRuleDepth is how deep rules may be nested.
const maxRuleDepth = 8

// of is the rule of the elements.
func (r *Rule) of() *Rule {
	if r.Of == nil {
		return &Rule{}
	}
	return r.Of
}

// with is the place of the second array of a zip, or of the zip below a set or multiset.
func (r *Rule) with() string {
	if r.With == "" && r.Of != nil {
		return r.Of.With
	}
	return r.With
}

// isText reports whether a rule reads one text.
func (r *Rule) isText() bool {
	return slices.Contains([]RuleKind{"", RuleText, RuleRaw, RuleUpper, RuleLower, RuleEnum}, r.Kind)
}

// isList reports whether a rule reads one array.
func (r *Rule) isList() bool {
	return r.Kind == RuleList || r.Kind == RuleSet || r.Kind == RuleMultiset
}

// validate reports the first contradiction in a field's declaration.
func (f Field) validate() error { return f.validateAt(0) }

func (f *Field) validateAt(depth int) error {
	if f.Name == "" {
		return errors.New("has no name")
	}
	for _, place := range f.From {
		if err := validatePlace(place); err != nil {
			return fmt.Errorf("from: %w", err)
		}
	}
	if (f.Prefix != "" || f.Pattern != "") && !f.Rule.isText() && !(f.Rule.isList() && f.Rule.of().isText()) {
		return fmt.Errorf("prefix and pattern: only text has them, the rule is %s", f.Rule.Kind)
	}
	if f.Pattern != "" {
		if _, err := wholePattern(f.Pattern); err != nil {
			return fmt.Errorf("pattern: %w", err)
		}
	}
	return f.Rule.validate(depth)
}

func validatePlace(place string) error {
	if place == "" {
		return errors.New("a place has no name")
	}
	if strings.HasPrefix(place, "/") {
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(place); strings.Contains(rest, "~") {
			return fmt.Errorf("%q is no JSON pointer: '~' is written ~0", place)
		}
	}
	return nil
}

func (r *Rule) validate(depth int) error {
	if depth >= maxRuleDepth {
		return fmt.Errorf("rules are nested deeper than %d", maxRuleDepth)
	}
	if err := r.onlyItsOwn(); err != nil {
		return err
	}
	switch r.Kind {
	case "", RuleText, RuleRaw, RuleUpper, RuleLower, RuleInteger, RuleBool, RuleDate, RuleInstant:
		return nil
	case RuleDecimal:
		if r.Digits < 0 || r.Digits > maxDigits/2 {
			return fmt.Errorf("digits: want 0 to %d, got %d", maxDigits/2, r.Digits)
		}
		return nil
	case RuleMoney:
		return r.validateCurrency()
	case RuleEnum:
		return r.validateEnum()
	case RuleList, RuleSet, RuleMultiset:
		if r.Kind != RuleList && r.of().Kind == RuleZip {
			return r.Of.validate(depth + 1)
		}
		return validateElement("of", r.Of, depth)
	case RuleZip:
		if err := validatePlace(r.With); err != nil {
			return fmt.Errorf("with: %w", err)
		}
		return errors.Join(validateElement("of", r.Of, depth), validateElement("with_of", r.WithOf, depth))
	case RuleObject:
		return r.validateMembers(depth)
	}
	return fmt.Errorf("kind: there is no rule %q", r.Kind)
}

// onlyItsOwn refuses a parameter that belongs to another kind of rule: it would be
// ignored.
func (r *Rule) onlyItsOwn() error {
	for _, p := range []struct {
		name  string
		set   bool
		kinds []RuleKind
	}{
		{"digits", r.Digits != 0, []RuleKind{RuleDecimal}},
		{"currency", r.Currency != "", []RuleKind{RuleMoney}},
		{"values", r.Values != nil, []RuleKind{RuleEnum}},
		{"of", r.Of != nil, []RuleKind{RuleList, RuleSet, RuleMultiset, RuleZip, RuleEnum}},
		{"with", r.With != "", []RuleKind{RuleZip}},
		{"with_of", r.WithOf != nil, []RuleKind{RuleZip}},
		{"fields", r.Fields != nil, []RuleKind{RuleObject}},
	} {
		if p.set && !slices.Contains(p.kinds, r.Kind) {
			return fmt.Errorf("%s: the rule %q has none", p.name, r.Kind)
		}
	}
	return nil
}

// validateElement checks the rule of an array's elements, which have no second array.
func validateElement(name string, of *Rule, depth int) error {
	if of == nil {
		return nil
	}
	if of.Kind == RuleZip {
		return fmt.Errorf("%s: only a field, a set or a multiset takes a zip", name)
	}
	if err := of.validate(depth + 1); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r *Rule) validateCurrency() error {
	if code, literal := strings.CutPrefix(r.Currency, "="); literal {
		if _, known := currencyDigits(code); !known {
			return fmt.Errorf("currency: %q is not an active ISO 4217 code", code)
		}
		return nil
	}
	if err := validatePlace(r.Currency); err != nil {
		return fmt.Errorf("currency: %w", err)
	}
	return nil
}

func (r *Rule) validateEnum() error {
	if len(r.Values) == 0 {
		return errors.New("values: an enum needs some")
	}
	if of := r.of(); !of.isText() || of.Kind == RuleEnum {
		return fmt.Errorf("of: an enum is read as text, raw, upper or lower, not %s", of.Kind)
	} else if err := of.onlyItsOwn(); err != nil {
		return fmt.Errorf("of: %w", err)
	}
	for i, v := range r.Values {
		if c, err := r.of().canonical(v, &reading{}); err != nil || c != v {
			return fmt.Errorf("values: %q is not in the form that the rule gives", v)
		}
		if slices.Contains(r.Values[:i], v) {
			return fmt.Errorf("values: %q is there twice", v)
		}
	}
	return nil
}

func (r *Rule) validateMembers(depth int) error {
	if len(r.Fields) == 0 {
		return errors.New("fields: an object needs some")
	}
	names := make(map[string]bool, len(r.Fields))
	for i := range r.Fields {
		f := &r.Fields[i]
		if err := f.validateAt(depth + 1); err != nil {
			return fmt.Errorf("member %q: %w", f.Name, err)
		}
		folded, _ := foldKey(f.Name)
		if names[folded] {
			return fmt.Errorf("fields: %q is there twice, in this or another case", f.Name)
		}
		names[folded] = true
	}
	return nil
}
