package sandbox

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
)

// money reads the fields amount and currency: an amount above zero, as text or number, in
// the currency's main unit.
func (f *form) money() (minor int64, currency string) {
	amount, currency := f.needText("amount"), strings.ToUpper(strings.TrimSpace(f.needText("currency")))
	if f.wrong != nil {
		return 0, ""
	}
	if minorDigits(currency) < 0 {
		f.fail("currency", "want an active ISO 4217 code such as EUR")
		return 0, ""
	}
	units, err := pawl.MinorUnits(amount, currency)
	if err != nil {
		f.fail("amount", "want a decimal number with at most %d places, as %s has", minorDigits(currency), currency)
		return 0, ""
	}
	minor, err = strconv.ParseInt(units, 10, 64)
	if err != nil || minor <= 0 || minor > 1e15 {
		f.fail("amount", "want more than 0 and at most 1e15 minor units")
	}
	return minor, currency
}

// minorDigits returns the decimal places of a currency, or -1 if there is no such one.
func minorDigits(currency string) int {
	one, err := pawl.MinorUnits("1", currency)
	if err != nil {
		return -1
	}
	return len(one) - 1
}

// amountText writes minor units as a decimal number in the currency's main unit.
func amountText(minor int64, currency string) string {
	digits := minorDigits(currency)
	if digits <= 0 {
		return strconv.FormatInt(minor, 10)
	}
	s := fmt.Sprintf("%0*d", digits+1, minor)
	return s[:len(s)-digits] + "." + s[len(s)-digits:]
}
