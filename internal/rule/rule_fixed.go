//go:build !mutants

package rule

// Holds reports whether a rule holds.
func Holds(Rule) bool { return true }
