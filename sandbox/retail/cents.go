package retail

import (
	"fmt"
	"strconv"
	"strings"
)

// Cents is an amount of money in hundredths, written in JSON as a number of the main unit.
// It never goes through a float.
type Cents int64

// MarshalJSON writes two places.
func (c Cents) MarshalJSON() ([]byte, error) {
	sign := ""
	if c < 0 {
		sign, c = "-", -c
	}
	return fmt.Appendf(nil, "%s%d.%02d", sign, c/100, c%100), nil
}

// UnmarshalJSON reads a number with at most two places.
func (c *Cents) UnmarshalJSON(b []byte) error {
	text, negative := strings.CutPrefix(string(b), "-")
	whole, places, _ := strings.Cut(text, ".")
	if len(places) > 2 || len(whole) > 12 {
		return fmt.Errorf("%q is no amount with two places", b)
	}
	n, err := strconv.ParseUint(whole+(places + "00")[:2], 10, 63)
	if err != nil {
		return fmt.Errorf("%q is no amount with two places", b)
	}
	*c = Cents(n)
	if negative {
		*c = -*c
	}
	return nil
}
