package pawl

// Field is one identity field: where its value comes from and how it is made canonical.
type Field struct {
	// Name is the field's name in the identity.
	Name string `json:"name"`
	// From lists where to look in the arguments, the first that is present wins: argument
	// names, or JSON pointers, which start with '/'. Empty means Name.
	From []string `json:"from,omitempty"`
	// Rule makes the value canonical.
	Rule Rule `json:"rule"`
	// Optional: missing, null and empty are one canonical "", instead of a refusal.
	Optional bool `json:"optional,omitempty"`
	// Prefix is put in front of a text value that lacks it, before Pattern is checked.
	Prefix string `json:"prefix,omitempty"`
	// Pattern is a regular expression (RE2) that the whole text value must match.
	Pattern string `json:"pattern,omitempty"`
}

// Rule is a canonicaliser: it maps every spelling of one value to one string, or to a
// list of strings. The zero Rule is RuleText.
type Rule struct {
	Kind RuleKind `json:"kind,omitempty"`
	// Digits is the number of decimal places of RuleDecimal.
	Digits int `json:"digits,omitempty"`
	// Currency says where RuleMoney finds its ISO 4217 code: an argument name, a JSON
	// pointer, or a literal code after '='.
	Currency string `json:"currency,omitempty"`
	// Values are the members of RuleEnum.
	Values []string `json:"values,omitempty"`
	// Of is the rule of the elements of a list, set, multiset or zip; for a set or multiset
	// it may be a zip, whose pairs are then the elements. Nil means RuleText.
	Of *Rule `json:"of,omitempty"`
	// With names the second array of a zip, WithOf the rule of its elements.
	With   string `json:"with,omitempty"`
	WithOf *Rule  `json:"with_of,omitempty"`
	// Fields are the members of RuleObject.
	Fields []Field `json:"fields,omitempty"`
}

// RuleKind names a canonicaliser.
type RuleKind string

const (
	RuleText     RuleKind = "text"     // NFC, trimmed
	RuleRaw      RuleKind = "raw"      // the string as it is
	RuleUpper    RuleKind = "upper"    // text, upper case
	RuleLower    RuleKind = "lower"    // text, lower case
	RuleInteger  RuleKind = "integer"  // every digit kept
	RuleDecimal  RuleKind = "decimal"  // exactly Digits places; never rounded
	RuleMoney    RuleKind = "money"    // as many places as the currency has minor digits
	RuleBool     RuleKind = "bool"     // true or false
	RuleDate     RuleKind = "date"     // YYYY-MM-DD
	RuleInstant  RuleKind = "instant"  // RFC 3339 in UTC
	RuleEnum     RuleKind = "enum"     // one of Values
	RuleList     RuleKind = "list"     // in order
	RuleSet      RuleKind = "set"      // sorted, each once
	RuleMultiset RuleKind = "multiset" // sorted, repeats kept
	RuleZip      RuleKind = "zip"      // two arrays paired by position
	RuleObject   RuleKind = "object"   // the named members
)

func (f Field) validate() error { return nil }

// Canonical returns the field's canonical value: a string, or a list of such values.
func (f Field) Canonical(args map[string]any) (any, error) { return nil, nil }
